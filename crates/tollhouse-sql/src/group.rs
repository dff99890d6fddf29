//! Computation of a group of transactions that share an engine transaction, from the rows they
//! read. Does no IO, so that a group can be computed again for a retry.

use crate::limits::{GROUP_BYTES_MAX, GROUP_TRANSACTIONS_MAX, LIMITS};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use tollhouse_store::engine::{ApplyOutcome, Table, Terms, apply};
use tollhouse_store::{
    Changes, Committed, Condition, Entry, LeaseId, Operation, Revision, StoreError, Transaction,
};

/// Accumulated size of the transactions of a group.
#[derive(Default)]
pub(crate) struct Weight {
    transactions: usize,
    operations: usize,
    bytes: usize,
}

impl Weight {
    pub(crate) fn add(&mut self, transaction: &Transaction) {
        self.transactions += 1;
        self.operations += transaction.operations.len() + transaction.conditions.len();
        self.bytes += transaction_bytes(transaction);
    }

    /// Whether the group should accept no further transaction.
    pub(crate) fn is_full(&self) -> bool {
        self.transactions >= GROUP_TRANSACTIONS_MAX
            || self.operations >= LIMITS.operations_max
            || self.bytes >= GROUP_BYTES_MAX
    }
}

/// Returns the number of bytes of all keys and values.
pub(crate) fn transaction_bytes(transaction: &Transaction) -> usize {
    let conditions = transaction.conditions.iter().filter_map(Condition::key).map(str::len);
    let operations = transaction.operations.iter().map(|operation| match operation {
        Operation::Put { key, value, .. } => key.len() + value.len(),
        Operation::Delete { key } => key.len(),
        Operation::DeletePrefix { prefix } => prefix.len(),
    });
    conditions.sum::<usize>() + operations.sum::<usize>()
}

/// Keys, prefixes and leases that transactions read.
#[derive(Default)]
pub(crate) struct ReadSet<'a> {
    pub(crate) keys: BTreeSet<&'a str>,
    pub(crate) prefixes: BTreeSet<&'a str>,
    pub(crate) leases: BTreeSet<LeaseId>,
}

impl<'a> ReadSet<'a> {
    /// Collects them from all transactions.
    pub(crate) fn by(transactions: &'a [Transaction]) -> Self {
        let mut wanted = Self::default();
        for transaction in transactions {
            for condition in &transaction.conditions {
                wanted.keys.extend(condition.key());
                if let Condition::LeaseHeld { lease } = condition {
                    wanted.leases.insert(*lease);
                }
            }
            for operation in &transaction.operations {
                match operation {
                    Operation::Put { key, lease, .. } => {
                        wanted.keys.insert(key);
                        wanted.leases.extend(*lease);
                    }
                    Operation::Delete { key } => {
                        wanted.keys.insert(key);
                    }
                    Operation::DeletePrefix { prefix } => {
                        wanted.prefixes.insert(prefix);
                    }
                }
            }
        }
        wanted
    }
}

/// Rows found for [`ReadSet`].
#[derive(Default)]
pub(crate) struct ReadRows {
    /// Revision of the newest commit.
    pub(crate) newest: Revision,
    pub(crate) entries: Vec<Entry>,
    pub(crate) keys: Vec<Box<str>>,
    /// Duration of each wanted lease that has not ended, in milliseconds.
    pub(crate) leases: HashMap<LeaseId, u64>,
    /// Current time of this node's wall clock, for the displayed expiry of entries.
    pub(crate) now_ms: u64,
}

/// Outcomes and rows to write for a group of transactions.
#[derive(Default)]
pub(crate) struct GroupResult {
    /// Outcome of each transaction, in order.
    pub(crate) outcomes: Vec<Result<Committed, StoreError>>,
    pub(crate) commits: Vec<Changes>,
    /// Rows to put, in the order of their keys.
    pub(crate) puts: Vec<(Entry, Option<LeaseId>)>,
    /// Keys of rows to remove, in order.
    pub(crate) removals: Vec<Box<str>>,
}

pub(crate) fn compute(transactions: &[Transaction], found: ReadRows) -> GroupResult {
    let ReadRows { mut newest, entries, keys, leases, now_ms } = found;
    let mut rows = Rows::default();
    // A row found only by its prefix is never read, only removed, so a placeholder is enough.
    let placeholder = |key: Box<str>| Entry {
        key,
        value: Bytes::new(),
        create_revision: Revision::ZERO,
        mod_revision: Revision::ZERO,
        expires_at_ms: None,
    };
    for entry in keys.into_iter().map(placeholder).chain(entries) {
        let key = entry.key.clone();
        rows.held.insert(key, Row { entry: Some(entry), ..Row::default() });
    }
    let expiry_ms = |lease| match leases.get(&lease) {
        Some(ttl_ms) => Ok(now_ms.saturating_add(*ttl_ms)),
        None => Err(StoreError::Fenced { lease }),
    };
    let mut computed = GroupResult::default();
    for transaction in transactions {
        let terms = Terms { expiry_ms: &expiry_ms, newest };
        rows.before.clear();
        match apply(&mut rows, transaction.clone(), &terms) {
            Ok(ApplyOutcome { committed, changes, leased }) => {
                for (key, lease) in leased {
                    if let Some(row) = rows.held.get_mut(&key) {
                        row.lease = Some(lease);
                    }
                }
                if let Some(changes) = changes {
                    newest = changes.revision;
                    computed.commits.push(changes);
                }
                computed.outcomes.push(Ok(committed));
            }
            Err(error) => {
                rows.take_back();
                computed.outcomes.push(Err(error));
            }
        }
    }
    for (key, row) in rows.held {
        match row.entry {
            _ if !row.is_changed => {}
            Some(entry) => computed.puts.push((entry, row.lease)),
            None => computed.removals.push(key),
        }
    }
    computed
}

/// Rows by key, with the changes made by the group.
#[derive(Default)]
struct Rows {
    held: BTreeMap<Box<str>, Row>,
    /// Rows as they were before the current transaction.
    before: Vec<(Box<str>, Row)>,
}

#[derive(Clone, Default)]
struct Row {
    entry: Option<Entry>,
    /// Lease under which a changed row was put.
    lease: Option<LeaseId>,
    is_changed: bool,
}

impl Rows {
    fn change(&mut self, key: &str, entry: Option<Entry>) {
        let row = self.held.entry(key.into()).or_default();
        let changed = Row { entry, lease: None, is_changed: true };
        self.before.push((key.into(), std::mem::replace(row, changed)));
    }

    fn take_back(&mut self) {
        while let Some((key, row)) = self.before.pop() {
            self.held.insert(key, row);
        }
    }
}

impl Table for Rows {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.held.get(key).and_then(|row| row.entry.clone()))
    }

    fn put(&mut self, entry: &Entry) -> Result<(), StoreError> {
        self.change(&entry.key, Some(entry.clone()));
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<(), StoreError> {
        self.change(key, None);
        Ok(())
    }

    fn remove_prefix(&mut self, prefix: &str) -> Result<Vec<Box<str>>, StoreError> {
        let range = self.held.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let keys: Vec<Box<str>> = range
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(_, row)| row.entry.is_some())
            .map(|(key, _)| key.clone())
            .collect();
        for key in &keys {
            self.change(key, None);
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_of_a_group_see_each_other_and_a_refused_one_leaves_nothing() {
        let transactions = [
            Transaction::new().put("a", "1").when_absent("a"),
            Transaction::new().put("a", "2").when_absent("a"),
            Transaction::new().put("b", "1").put_under(LeaseId(9), "c", "1"),
            Transaction::new().put_under(LeaseId(7), "d", "1").delete("a"),
            Transaction::new().delete_prefix("old/"),
        ];
        let found = ReadRows {
            newest: Revision(5),
            keys: vec!["old/1".into()],
            leases: HashMap::from([(LeaseId(7), 1_000)]),
            now_ms: 50,
            ..ReadRows::default()
        };
        let computed = compute(&transactions, found);
        let revisions: Vec<_> =
            computed.outcomes.iter().map(|it| it.as_ref().map(|done| done.revision.0)).collect();
        let conflict = StoreError::Conflict { key: "a".into() };
        let fenced = StoreError::Fenced { lease: LeaseId(9) };
        assert_eq!(revisions, [Ok(6), Err(&conflict), Err(&fenced), Ok(7), Ok(8)]);
        assert_eq!(computed.commits.len(), 3);
        let puts: Vec<_> =
            computed.puts.iter().map(|(entry, lease)| (&*entry.key, *lease)).collect();
        assert_eq!(puts, [("d", Some(LeaseId(7)))]);
        assert_eq!(computed.puts[0].0.expires_at_ms, Some(1_050));
        let removals: Vec<_> = computed.removals.iter().map(|key| &**key).collect();
        assert_eq!(removals, ["a", "old/1"]);
    }
}
