//! Grouping of many operations into as few transactions as the limits of the store allow.

use crate::{Limits, Operation, Transaction};

/// Builder that splits operations into transactions within the limits of a store.
pub struct Batches {
    limits: Limits,
    whole: Vec<Transaction>,
    current: Transaction,
    current_bytes: usize,
}

impl Batches {
    pub fn new(limits: Limits) -> Self {
        Self { limits, whole: Vec::new(), current: Transaction::new(), current_bytes: 0 }
    }

    /// Appends an operation; starts a new transaction if the current one is full.
    pub fn add(&mut self, operation: Operation) {
        let bytes = match &operation {
            Operation::Put { key, value, .. } => key.len() + value.len(),
            Operation::Delete { key } => key.len(),
            Operation::DeletePrefix { prefix } => prefix.len(),
        };
        let is_full = self.current.operations.len() == self.limits.operations_max
            || self.current_bytes + bytes > self.limits.transaction_bytes_max;
        if is_full {
            self.whole.push(std::mem::take(&mut self.current));
            self.current_bytes = 0;
        }
        self.current_bytes += bytes;
        self.current.operations.push(operation);
    }

    /// Returns the transactions in the order of their operations.
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
        let put = |bytes: usize| Operation::put("k", vec![b'v'; bytes]);
        let limits = Limits { operations_max: 100, ..Limits::EMBEDDED };
        let counts = |operations: Vec<Operation>| {
            let mut batches = Batches::new(limits);
            operations.into_iter().for_each(|operation| batches.add(operation));
            let whole = batches.finish();
            whole.iter().map(|it| it.operations.len()).collect::<Vec<_>>()
        };
        let mebibyte = 1024 * 1024;
        assert_eq!(counts(vec![]), Vec::<usize>::new());
        assert_eq!(counts(vec![put(1); 100]), [100]);
        assert_eq!(counts(vec![put(1); 101]), [100, 1]);
        assert_eq!(counts(vec![put(mebibyte); 64]), [63, 1]);
    }
}
