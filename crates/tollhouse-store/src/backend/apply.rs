//! What a transaction means, once for all backends that hold their entries themselves.
//!
//! A backend gives the [`Table`]; conditions, revisions, previous entries and events come from here.
//! Durability, order and the way back after a failure are the backend's.

use crate::changes::{Changes, Event};
use crate::entry::{Entry, Revision};
use crate::error::StoreError;
use crate::lease::LeaseId;
use crate::transaction::{Committed, Condition, Operation, Transaction};
use bytes::Bytes;

/// Entries by key.
pub trait Table {
    /// The entry of a key.
    ///
    /// # Errors
    /// The table cannot be read.
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError>;
    /// Creates or replaces the entry of its key.
    ///
    /// # Errors
    /// The table cannot be written.
    fn put(&mut self, entry: &Entry) -> Result<(), StoreError>;
    /// Removes the entry of a key that is there.
    ///
    /// # Errors
    /// The table cannot be written.
    fn remove(&mut self, key: &str) -> Result<(), StoreError>;
    /// Removes all entries under a prefix and returns their keys in order.
    ///
    /// # Errors
    /// The table cannot be written.
    fn remove_prefix(&mut self, prefix: &str) -> Result<Vec<Box<str>>, StoreError>;
}

/// A transaction that was applied.
#[derive(Debug)]
pub struct Applied {
    /// What its author learns.
    pub committed: Committed,
    /// What watchers learn; none when nothing changed, and then no revision was made.
    pub changes: Option<Changes>,
    /// What was put under leases.
    pub leased: Vec<(Box<str>, LeaseId)>,
}

/// What transactions are applied by, beside the table.
pub struct Terms<'a> {
    /// When a lease ends, in milliseconds of Unix time; [`StoreError::Fenced`] where it has ended.
    pub expiry_ms: &'a dyn Fn(LeaseId) -> Result<u64, StoreError>,
    /// The revision of the commit before.
    pub newest: Revision,
}

/// Applies a transaction. After an error the table may hold a part of it, unless the error is a conflict.
///
/// # Errors
/// A condition does not hold, a lease has ended, or the table failed.
pub fn apply(
    table: &mut impl Table,
    transaction: Transaction,
    terms: &Terms<'_>,
) -> Result<Applied, StoreError> {
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
    Ok(Applied { committed, changes, leased })
}

fn check_conditions(
    table: &mut impl Table,
    conditions: &[Condition],
    terms: &Terms<'_>,
) -> Result<(), StoreError> {
    for condition in conditions {
        match condition {
            Condition::LeaseHeld { lease } => drop((terms.expiry_ms)(*lease)?),
            // A commit that only removed counts too: what it was is not looked up.
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

/// A transaction under way.
struct Step<'a, T> {
    table: &'a mut T,
    terms: &'a Terms<'a>,
    revision: Revision,
    events: Vec<Event>,
    leased: Vec<(Box<str>, LeaseId)>,
    removed: usize,
}

impl<T: Table> Step<'_, T> {
    /// Does one operation and returns what stood at its key.
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

/// The transaction that removes these keys, which have expired or whose lease was revoked.
#[must_use]
pub fn removal(keys: Vec<Box<str>>) -> Transaction {
    let operations = keys.into_iter().map(|key| Operation::Delete { key }).collect();
    Transaction { conditions: Vec::new(), operations }
}

/// The first key after all that start with the prefix; none when there is no such key.
#[must_use]
pub fn end_of_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // The order of UTF-8 is the order of code points. The step leaves out the surrogates.
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
