//! Record of the keys and revisions that were read from a store, and its comparison with a listing.
//! Callers decide how to handle differences.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use tollhouse_store::{Event, Listing, Revision};

/// Revision of each object's value, by key.
#[derive(Debug, Default)]
pub(super) struct KeyRevisions(HashMap<Box<str>, Revision>);

/// A key whose last read revision differs from the listed one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Difference {
    pub(super) key: Box<str>,
    /// Last revision that was read; `None` if the key was not read.
    seen: Option<Revision>,
    /// Revision in the listing; `None` if the key is not listed.
    listed: Option<Revision>,
}

impl KeyRevisions {
    /// Records the objects of a listing.
    pub(super) fn from_listing(listing: &Listing, is_object: impl Fn(&str) -> bool) -> Self {
        let objects = listing.entries.iter().filter(|entry| is_object(&entry.key));
        Self(objects.map(|entry| (entry.key.clone(), entry.mod_revision)).collect())
    }

    /// Updates the record by a commit.
    pub(super) fn note(&mut self, events: &[Event], is_object: impl Fn(&str) -> bool) {
        for event in events.iter().filter(|event| is_object(event.key())) {
            match event {
                Event::Put(entry) => drop(self.0.insert(entry.key.clone(), entry.mod_revision)),
                Event::Delete { key, .. } => drop(self.0.remove(key)),
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of recorded keys that a newer listing lacks.
    pub(super) fn missing_in(&self, newer: &Self) -> usize {
        self.0.keys().filter(|key| !newer.0.contains_key(*key)).count()
    }

    /// Returns the differences from a listing. A change newer than the listing does not count. A
    /// listed change that has not been read yet counts until it is read.
    pub(super) fn differences(&self, listed: &Self, listed_at: Revision) -> BTreeSet<Difference> {
        let new = |key: &str, seen, listed| Difference { key: key.into(), seen, listed };
        let not_read = listed.0.iter().filter_map(|(key, revision)| {
            let seen = self.0.get(key).copied();
            let is_known = seen.is_some_and(|seen| seen == *revision || seen > listed_at);
            (!is_known).then(|| new(key, seen, Some(*revision)))
        });
        let left =
            self.0.iter().filter(|(key, seen)| **seen <= listed_at && !listed.0.contains_key(*key));
        not_read.chain(left.map(|(key, seen)| new(key, Some(*seen), None))).collect()
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_store::Entry;

    use super::*;

    fn seen(objects: &[(&str, u64)]) -> KeyRevisions {
        KeyRevisions(objects.iter().map(|(key, at)| (Box::from(*key), Revision(*at))).collect())
    }

    #[test]
    fn a_difference_is_what_should_have_been_heard_of() {
        let read = seen(&[("same", 1), ("old", 2), ("left", 3), ("newer", 11), ("young", 12)]);
        let listed = seen(&[("same", 1), ("old", 5), ("newer", 4), ("missed", 6)]);
        let found = read.differences(&listed, Revision(10));
        let keys: Vec<_> = found.iter().map(|difference| &*difference.key).collect();
        assert_eq!(keys, ["left", "missed", "old"]);
        assert!(read.differences(&read, Revision(12)).is_empty());
    }

    #[test]
    fn commits_and_listings_come_to_the_same() {
        let entry = |key: &str, at| Entry {
            key: key.into(),
            value: "{}".into(),
            create_revision: Revision(1),
            mod_revision: Revision(at),
            expires_at_ms: None,
        };
        let entries = vec![entry("a", 1), entry("b", 2), entry("-c", 3)];
        let is_object = |key: &str| !key.starts_with('-');
        let mut seen =
            KeyRevisions::from_listing(&Listing { revision: Revision(3), entries }, is_object);
        assert_eq!(seen.len(), 2);
        seen.note(
            &[
                Event::Put(entry("d", 4)),
                Event::Delete { key: "a".into(), revision: Revision(4) },
                Event::Put(entry("-e", 4)),
            ],
            is_object,
        );
        let entries = vec![entry("b", 2), entry("d", 4)];
        let listed =
            KeyRevisions::from_listing(&Listing { revision: Revision(4), entries }, is_object);
        assert!(seen.differences(&listed, Revision(4)).is_empty());
        assert_eq!(seen.missing_in(&KeyRevisions::default()), 2);
    }
}
