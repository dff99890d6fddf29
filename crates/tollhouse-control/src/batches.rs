//! Many operations on the store in as few transactions as its limits allow.

use tollhouse_store::limits::{OPERATIONS_MAX, TRANSACTION_BYTES_MAX};
use tollhouse_store::{Operation, Transaction};

/// Operations in transactions of a size that the store takes.
#[derive(Default)]
pub struct Batches {
    whole: Vec<Transaction>,
    current: Transaction,
    current_bytes: usize,
}

impl Batches {
    /// Adds one, behind those before it.
    pub fn add(&mut self, operation: Operation) {
        let bytes = match &operation {
            Operation::Put { key, value, .. } => key.len() + value.len(),
            Operation::Delete { key } => key.len(),
            Operation::DeletePrefix { prefix } => prefix.len(),
        };
        let is_full = self.current.operations.len() == OPERATIONS_MAX
            || self.current_bytes + bytes > TRANSACTION_BYTES_MAX;
        if is_full {
            self.whole.push(std::mem::take(&mut self.current));
            self.current_bytes = 0;
        }
        self.current_bytes += bytes;
        self.current.operations.push(operation);
    }

    /// All of them.
    pub fn finish(mut self) -> Vec<Transaction> {
        if !self.current.operations.is_empty() {
            self.whole.push(self.current);
        }
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_as_large_as_the_store_takes_them() {
        let put = |bytes: usize| Operation::Put {
            key: "k".into(),
            value: vec![b'v'; bytes].into(),
            ttl: None,
        };
        let counts = |operations: Vec<Operation>| {
            let mut batches = Batches::default();
            operations.into_iter().for_each(|operation| batches.add(operation));
            let whole = batches.finish();
            whole.iter().map(|it| it.operations.len()).collect::<Vec<_>>()
        };
        let mebibyte = 1024 * 1024;
        assert_eq!(counts(vec![]), Vec::<usize>::new());
        assert_eq!(counts(vec![put(1); OPERATIONS_MAX]), [OPERATIONS_MAX]);
        assert_eq!(counts(vec![put(1); OPERATIONS_MAX + 1]), [OPERATIONS_MAX, 1]);
        assert_eq!(counts(vec![put(mebibyte); 64]), [63, 1]);
    }
}
