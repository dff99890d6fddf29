//! Transactions: conditions, and operations that are executed together if all conditions hold.
//!
//! `backend/apply.rs` defines how a transaction is applied to a table of entries.

use crate::entry::{Entry, Revision};
use crate::error::StoreError;
use crate::lease::LeaseId;
use crate::limits::Limits;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;

/// A change to one key, or to all keys under a prefix.
#[derive(Clone, PartialEq, Eq)]
pub enum Operation {
    /// Creates the key or replaces its value; a former lease no longer applies to it.
    Put {
        key: Box<str>,
        value: Bytes,
        /// Lease with which the entry ends; `None` keeps it for ever.
        lease: Option<LeaseId>,
    },
    /// Removes the key if it exists.
    Delete { key: Box<str> },
    /// Removes all keys with the prefix; an empty prefix removes everything.
    DeletePrefix { prefix: Box<str> },
}

impl Operation {
    /// Creates a key or replaces its value, without a lease.
    #[must_use]
    pub fn put(key: impl Into<Box<str>>, value: impl Into<Bytes>) -> Self {
        Self::Put { key: key.into(), value: value.into(), lease: None }
    }

    #[must_use]
    pub fn delete(key: impl Into<Box<str>>) -> Self {
        Self::Delete { key: key.into() }
    }

    /// Returns the key, or the prefix of the removed keys.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
            Self::DeletePrefix { prefix } => prefix,
        }
    }

    fn value_bytes(&self) -> usize {
        match self {
            Self::Put { value, .. } => value.len(),
            Self::Delete { .. } | Self::DeletePrefix { .. } => 0,
        }
    }
}

// Hides the value, as `Entry` does.
impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { key, value, lease } => f
                .debug_struct("Put")
                .field("key", key)
                .field("value", &format_args!("*** ({} bytes)", value.len()))
                .field("lease", lease)
                .finish(),
            Self::Delete { key } => f.debug_struct("Delete").field("key", key).finish(),
            Self::DeletePrefix { prefix } => {
                f.debug_struct("DeletePrefix").field("prefix", prefix).finish()
            }
        }
    }
}

/// A precondition of a transaction. All conditions are evaluated before any operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key must not exist.
    Absent { key: Box<str> },
    /// The key must exist.
    Exists { key: Box<str> },
    /// The current value of the key was put by this commit.
    ModifiedAt {
        key: Box<str>,
        /// Revision of the commit that put the current value.
        revision: Revision,
    },
    /// No commit after this revision has put the key, which need not exist. A removal leaves no
    /// trace and is not noticed.
    UnchangedSince {
        key: Box<str>,
        /// Revision after which no commit may have put the key.
        revision: Revision,
    },
    /// No commit after this revision has put any key. A removal may not be noticed.
    NothingPutSince {
        /// Revision after which no commit may have put any key.
        revision: Revision,
    },
    /// The lease has not ended. Otherwise the error is [`StoreError::Fenced`].
    LeaseHeld { lease: LeaseId },
}

impl Condition {
    /// Returns the key of the condition, if it has one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Absent { key }
            | Self::Exists { key }
            | Self::ModifiedAt { key, .. }
            | Self::UnchangedSince { key, .. } => Some(key),
            Self::NothingPutSince { .. } | Self::LeaseHeld { .. } => None,
        }
    }

    /// Whether the condition holds for the current entry of its key.
    #[must_use]
    pub fn holds(&self, current: Option<&Entry>) -> bool {
        match self {
            Self::Absent { .. } => current.is_none(),
            Self::Exists { .. } => current.is_some(),
            Self::ModifiedAt { revision, .. } => {
                current.is_some_and(|entry| entry.mod_revision == *revision)
            }
            Self::UnchangedSince { revision, .. } => {
                current.is_none_or(|entry| entry.mod_revision <= *revision)
            }
            // These conditions are not about a single entry.
            Self::NothingPutSince { .. } | Self::LeaseHeld { .. } => true,
        }
    }
}

/// Operations that are executed together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Conditions that must hold, or else the commit fails.
    pub conditions: Vec<Condition>,
    /// Operations. Each key may only be changed once, because some engines execute all operations
    /// simultaneously.
    pub operations: Vec<Operation>,
}

impl Transaction {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put without a lease.
    #[must_use]
    pub fn put(self, key: impl Into<Box<str>>, value: impl Into<Bytes>) -> Self {
        self.then(Operation::put(key, value))
    }

    /// Adds a put under a lease, with which the entry ends.
    #[must_use]
    pub fn put_under(
        self,
        lease: LeaseId,
        key: impl Into<Box<str>>,
        value: impl Into<Bytes>,
    ) -> Self {
        self.then(Operation::Put { key: key.into(), value: value.into(), lease: Some(lease) })
    }

    /// Adds the removal of a key.
    #[must_use]
    pub fn delete(self, key: impl Into<Box<str>>) -> Self {
        self.then(Operation::Delete { key: key.into() })
    }

    /// Adds the removal of all keys with a prefix.
    #[must_use]
    pub fn delete_prefix(self, prefix: impl Into<Box<str>>) -> Self {
        self.then(Operation::DeletePrefix { prefix: prefix.into() })
    }

    #[must_use]
    pub fn then(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Adds the condition that the key does not exist.
    #[must_use]
    pub fn when_absent(self, key: impl Into<Box<str>>) -> Self {
        self.when(Condition::Absent { key: key.into() })
    }

    /// Adds the condition that the key exists.
    #[must_use]
    pub fn when_exists(self, key: impl Into<Box<str>>) -> Self {
        self.when(Condition::Exists { key: key.into() })
    }

    /// Adds the condition that the value of the key is the one of this revision.
    #[must_use]
    pub fn when_modified_at(self, key: impl Into<Box<str>>, revision: Revision) -> Self {
        self.when(Condition::ModifiedAt { key: key.into(), revision })
    }

    /// Adds the condition that no commit after this revision has put the key.
    #[must_use]
    pub fn when_unchanged_since(self, key: impl Into<Box<str>>, revision: Revision) -> Self {
        self.when(Condition::UnchangedSince { key: key.into(), revision })
    }

    /// Adds the condition that no commit after this revision has put any key.
    #[must_use]
    pub fn when_nothing_put_since(self, revision: Revision) -> Self {
        self.when(Condition::NothingPutSince { revision })
    }

    /// Adds the condition that the lease has not ended.
    #[must_use]
    pub fn while_held(self, lease: LeaseId) -> Self {
        self.when(Condition::LeaseHeld { lease })
    }

    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Whether all operations delete.
    #[must_use]
    pub fn only_removes(&self) -> bool {
        self.operations.iter().all(|operation| match operation {
            Operation::Delete { .. } | Operation::DeletePrefix { .. } => true,
            Operation::Put { .. } => false,
        })
    }

    /// Returns the number of bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        let keys = self.conditions.iter().filter_map(Condition::key);
        let conditions: usize = keys.map(str::len).sum();
        let operations: usize =
            self.operations.iter().map(|o| o.key().len() + o.value_bytes()).sum();
        conditions + operations
    }

    /// Checks the limits, and that no key is changed twice. A backend calls this before anything
    /// else.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn check(&self, limits: &Limits) -> Result<(), StoreError> {
        at_most("the number of operations", self.operations.len(), limits.operations_max)?;
        at_most("the number of conditions", self.conditions.len(), limits.operations_max)?;
        at_most("the transaction in bytes", self.bytes(), limits.transaction_bytes_max)?;
        for key in self.conditions.iter().filter_map(Condition::key) {
            check_key(key, limits)?;
        }
        for operation in &self.operations {
            match operation {
                // An empty prefix stands for all keys; an empty key is invalid.
                Operation::DeletePrefix { prefix } => {
                    at_most("the prefix in bytes", prefix.len(), limits.key_bytes_max)?;
                }
                Operation::Put { key, .. } | Operation::Delete { key } => check_key(key, limits)?,
            }
            at_most("the value in bytes", operation.value_bytes(), limits.value_bytes_max)?;
        }
        self.check_changed_once()
    }

    fn check_changed_once(&self) -> Result<(), StoreError> {
        // A transaction with a single operation needs no set.
        if self.operations.len() < 2 {
            return Ok(());
        }
        let mut keys = BTreeSet::new();
        let mut prefixes = Vec::new();
        for operation in &self.operations {
            match operation {
                Operation::DeletePrefix { prefix } => prefixes.push(&**prefix),
                Operation::Put { key, .. } | Operation::Delete { key } => {
                    if !keys.insert(&**key) {
                        return Err(StoreError::ChangedTwice { key: key.clone() });
                    }
                }
            }
        }
        prefixes.sort_unstable();
        let twice = |key: &str| Err(StoreError::ChangedTwice { key: key.into() });
        for pair in prefixes.windows(2) {
            // In this order a prefix immediately precedes the prefixes that begin with it.
            if pair[1].starts_with(pair[0]) {
                return twice(pair[1]);
            }
        }
        for prefix in prefixes {
            let from = (Bound::Included(prefix), Bound::Unbounded);
            if let Some(key) = keys.range::<str, _>(from).next().filter(|it| it.starts_with(prefix))
            {
                return twice(key);
            }
        }
        Ok(())
    }
}

fn check_key(key: &str, limits: &Limits) -> Result<(), StoreError> {
    if key.is_empty() {
        return Err(StoreError::EmptyKey);
    }
    at_most("the key in bytes", key.len(), limits.key_bytes_max)
}

fn at_most(what: &'static str, actual: usize, max: usize) -> Result<(), StoreError> {
    if actual > max {
        return Err(StoreError::TooLarge { what, actual, max });
    }
    Ok(())
}

/// Revision and effects of a committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Revision of the commit; the current revision if the transaction changed nothing.
    pub revision: Revision,
    /// Previous entries of the operations' keys, in their order; `None` for an operation on a
    /// prefix.
    pub previous: Vec<Option<Entry>>,
    /// Number of entries removed by all operations.
    pub removed: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{KEY_BYTES_MAX, OPERATIONS_MAX, TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX};

    #[test]
    fn what_passes_a_limit_is_refused() {
        let long_key = "k".repeat(KEY_BYTES_MAX + 1);
        let large = vec![b'v'; VALUE_BYTES_MAX + 1];
        let delete_all = Operation::Delete { key: "k".into() };
        let cases = [
            (Transaction::new().put("", "v"), Some(StoreError::EmptyKey)),
            (Transaction::new().delete(""), Some(StoreError::EmptyKey)),
            (Transaction::new().when_absent(""), Some(StoreError::EmptyKey)),
            (Transaction::new().delete_prefix(""), None),
            (Transaction::new(), None),
            (
                Transaction::new().put(long_key.clone(), "v"),
                Some(too_large("the key in bytes", KEY_BYTES_MAX)),
            ),
            (
                Transaction::new().when_exists(long_key.clone()),
                Some(too_large("the key in bytes", KEY_BYTES_MAX)),
            ),
            (
                Transaction::new().delete_prefix(long_key.clone()),
                Some(too_large("the prefix in bytes", KEY_BYTES_MAX)),
            ),
            (Transaction::new().put(&long_key[1..], large[1..].to_vec()), None),
            (
                Transaction::new().put("k", large),
                Some(too_large("the value in bytes", VALUE_BYTES_MAX)),
            ),
            (
                Transaction {
                    conditions: vec![],
                    operations: vec![delete_all; OPERATIONS_MAX + 1],
                },
                Some(too_large("the number of operations", OPERATIONS_MAX)),
            ),
        ];
        for (number, (transaction, expected)) in cases.into_iter().enumerate() {
            let refused = transaction.check(&Limits::EMBEDDED).err();
            assert_eq!(refused, expected, "case {number}");
        }
    }

    #[test]
    fn a_key_is_changed_once() {
        let new = Transaction::new;
        let cases = [
            (new().put("a", "1").put("b", "2").delete("c").delete_prefix("d/"), None),
            (new().put("a", "1").put("a", "2"), Some("a")),
            (new().delete("a").put("b", "1").put("a", "2"), Some("a")),
            (new().delete_prefix("a/").put("a/1", "2"), Some("a/1")),
            (new().put("a/1", "2").delete_prefix("a/").put("a", "1"), Some("a/1")),
            (new().delete("a").delete_prefix("a/").put("a0", "1"), None),
            (new().delete_prefix("a/").delete_prefix("a/b/"), Some("a/b/")),
            (new().delete_prefix("").delete_prefix("b"), Some("b")),
        ];
        for (transaction, key) in cases {
            let expected = key.map(|key| StoreError::ChangedTwice { key: key.into() });
            assert_eq!(transaction.check(&Limits::EMBEDDED).err(), expected, "{transaction:?}");
        }
    }

    fn too_large(what: &'static str, max: usize) -> StoreError {
        StoreError::TooLarge { what, actual: max + 1, max }
    }

    #[test]
    fn the_bytes_of_all_values_together_are_bounded() {
        let value = Bytes::from(vec![0_u8; VALUE_BYTES_MAX]);
        let count = TRANSACTION_BYTES_MAX / VALUE_BYTES_MAX;
        let transaction = (0..count).fold(Transaction::new(), |transaction, number| {
            transaction.put(format!("{number}"), value.clone())
        });
        assert!(matches!(transaction.check(&Limits::EMBEDDED), Err(StoreError::TooLarge { .. })));
    }

    #[test]
    fn values_do_not_appear_in_debug_output() {
        let transaction = Transaction::new().put("/consumers/jack", "secret-of-jack");
        let text = format!("{transaction:?}");
        assert!(text.contains("/consumers/jack") && !text.contains("secret-of-jack"), "{text}");
    }
}
