//! Semantics of transactions, shared by all backends that hold their entries themselves.
//!
//! A backend provides the [`Table`]; conditions, revisions, previous entries and events are handled
//! here. Durability, ordering and rollback are left to the backend.

use crate::changes::{Changes, Event};
use crate::entry::{Entry, Revision};
use crate::error::StoreError;
use crate::lease::LeaseId;
use crate::transaction::{Committed, Condition, Operation, Transaction};
use bytes::Bytes;

/// Table of entries that a transaction reads and writes.
pub trait Table {
    /// Returns the entry of a key.
    ///
    /// # Errors
    /// If the table cannot be read.
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError>;
    /// Creates or replaces an entry.
    ///
    /// # Errors
    /// If the table cannot be written.
    fn put(&mut self, entry: &Entry) -> Result<(), StoreError>;
    /// Removes the entry of an existing key.
    ///
    /// # Errors
    /// If the table cannot be written.
    fn remove(&mut self, key: &str) -> Result<(), StoreError>;
    /// Removes all entries under a prefix and returns their keys in order.
    ///
    /// # Errors
    /// If the table cannot be written.
    fn remove_prefix(&mut self, prefix: &str) -> Result<Vec<Box<str>>, StoreError>;
}

#[derive(Debug)]
pub struct ApplyOutcome {
    /// The answer for the caller.
    pub committed: Committed,
    /// The event for watchers; `None` if nothing changed, in which case no revision was created.
    pub changes: Option<Changes>,
    /// Keys that the transaction put under a lease.
    pub leased: Vec<(Box<str>, LeaseId)>,
}

/// Context of a transaction besides the table.
pub struct Terms<'a> {
    /// Expiry time of a lease, in milliseconds of Unix time; [`StoreError::Fenced`] if the lease
    /// has ended.
    pub expiry_ms: &'a dyn Fn(LeaseId) -> Result<u64, StoreError>,
    /// Revision of the commit before this one.
    pub newest: Revision,
}

/// Applies a transaction. After an error other than a failed condition, the table may contain a
/// part of the transaction.
///
/// # Errors
/// If a condition does not hold, a lease has ended, or the table fails.
pub fn apply(
    table: &mut impl Table,
    transaction: Transaction,
    terms: &Terms<'_>,
) -> Result<ApplyOutcome, StoreError> {
    check_conditions(table, &transaction.conditions, terms)?;
    let newest = terms.newest;
    let mut step = Step {
        table,
        terms,
        revision: newest.next(),
        events: Vec::with_capacity(transaction.operations.len()),
        leased: Vec::new(),
        removed: 0,
    };
    let mut previous = Vec::with_capacity(transaction.operations.len());
    for operation in transaction.operations {
        previous.push(step.run(operation)?);
    }
    let Step { revision, events, leased, removed, .. } = step;
    let has_changed = !events.is_empty();
    let committed =
        Committed { revision: if has_changed { revision } else { newest }, previous, removed };
    let changes = has_changed.then_some(Changes { revision, events });
    Ok(ApplyOutcome { committed, changes, leased })
}

fn check_conditions(
    table: &mut impl Table,
    conditions: &[Condition],
    terms: &Terms<'_>,
) -> Result<(), StoreError> {
    for condition in conditions {
        match condition {
            Condition::LeaseHeld { lease } => drop((terms.expiry_ms)(*lease)?),
            // Compared with the newest revision, so commits that only removed count too.
            Condition::NothingPutSince { revision } if terms.newest > *revision => {
                return Err(StoreError::Outdated { revision: *revision });
            }
            _ => {}
        }
        let Some(key) = condition.key() else { continue };
        if !condition.holds(table.get(key)?.as_ref()) {
            return Err(StoreError::Conflict { key: key.into() });
        }
    }
    Ok(())
}

/// A transaction that is being applied.
struct Step<'a, T> {
    table: &'a mut T,
    terms: &'a Terms<'a>,
    revision: Revision,
    events: Vec<Event>,
    leased: Vec<(Box<str>, LeaseId)>,
    removed: usize,
}

impl<T: Table> Step<'_, T> {
    /// Executes one operation and returns the previous entry of its key.
    fn run(&mut self, operation: Operation) -> Result<Option<Entry>, StoreError> {
        match operation {
            Operation::Put { key, value, lease } => self.put(key, value, lease),
            Operation::Delete { key } => self.delete(key),
            Operation::DeletePrefix { prefix } => {
                let keys = self.table.remove_prefix(&prefix)?;
                self.removed += keys.len();
                let revision = self.revision;
                self.events.extend(keys.into_iter().map(|key| Event::Delete { key, revision }));
                Ok(None)
            }
        }
    }

    fn put(
        &mut self,
        key: Box<str>,
        value: Bytes,
        lease: Option<LeaseId>,
    ) -> Result<Option<Entry>, StoreError> {
        let expires_at_ms = lease.map(self.terms.expiry_ms).transpose()?;
        let previous = self.table.get(&key)?;
        let entry = Entry {
            key,
            value,
            create_revision: previous.as_ref().map_or(self.revision, |old| old.create_revision),
            mod_revision: self.revision,
            expires_at_ms,
        };
        self.table.put(&entry)?;
        self.leased.extend(lease.map(|lease| (entry.key.clone(), lease)));
        self.events.push(Event::Put(entry));
        Ok(previous)
    }

    fn delete(&mut self, key: Box<str>) -> Result<Option<Entry>, StoreError> {
        let previous = self.table.get(&key)?;
        if previous.is_some() {
            self.table.remove(&key)?;
            self.removed += 1;
            self.events.push(Event::Delete { key, revision: self.revision });
        }
        Ok(previous)
    }
}

/// Returns the transaction that removes keys whose time has expired or whose lease was revoked.
#[must_use]
pub fn removal(keys: Vec<Box<str>>) -> Transaction {
    let operations = keys.into_iter().map(|key| Operation::Delete { key }).collect();
    Transaction { conditions: Vec::new(), operations }
}

/// Returns the smallest key after all keys with the prefix; `None` if there is no such key.
#[must_use]
pub fn end_of_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // UTF-8 sorts by code points. The range skips the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_string_of_its_length_or_less() {
        let cases = [
            ("", None),
            ("a", Some("b")),
            ("/routes/", Some("/routes0")),
            ("a\u{10FFFF}", Some("b")),
            ("\u{10FFFF}\u{10FFFF}", None),
            ("\u{D7FF}", Some("\u{E000}")),
            ("\u{7F}", Some("\u{80}")),
        ];
        for (prefix, expected) in cases {
            assert_eq!(end_of_prefix(prefix).as_deref(), expected, "{prefix:?}");
        }
    }
}
