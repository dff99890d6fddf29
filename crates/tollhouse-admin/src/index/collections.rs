//! Objects of each collection in order of creation, so that lists need not read objects that they
//! do not return.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use tollhouse_store::Revision;

/// Position of an object in the order of creation: the revision of its creation, and its path.
/// Objects of one commit are sorted by path.
pub(crate) type Creation = (Revision, Box<str>);

/// Objects of each collection in order of creation; empty collections are absent.
#[derive(Default)]
pub(super) struct Collections(HashMap<Box<str>, BTreeSet<Creation>>);

impl Collections {
    pub(super) fn insert(&mut self, path: &str, created: Revision) {
        for collection in collections_of(path) {
            let objects = self.0.entry(collection.into()).or_default();
            objects.insert((created, path.into()));
        }
    }

    pub(super) fn remove(&mut self, path: &str, created: Revision) {
        let creation = (created, path.into());
        for collection in collections_of(path) {
            let Some(objects) = self.0.get_mut(collection) else { continue };
            objects.remove(&creation);
            if objects.is_empty() {
                self.0.remove(collection);
            }
        }
    }

    pub(super) fn count(&self, collection: &str) -> usize {
        self.0.get(collection).map_or(0, BTreeSet::len)
    }

    /// Iterates over the objects of a collection, optionally only those after `last`.
    pub(super) fn after<'c>(
        &'c self,
        collection: &str,
        last: Option<&'c Creation>,
    ) -> impl Iterator<Item = &'c Creation> {
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        let objects = self.0.get(collection).into_iter();
        objects.flat_map(move |objects| objects.range((start, Bound::Unbounded)))
    }
}

/// Iterates over the collections of an object, such as `routes` or `consumers/jack/credentials`. A
/// secret manager is in two collections: that of its type, and that of all secrets.
pub(super) fn collections_of(path: &str) -> impl Iterator<Item = &str> {
    let nearest = path.rsplit_once('/').map(|(collection, _)| collection);
    let all = nearest.and_then(|nearest| nearest.split_once('/')).map(|(all, _)| all);
    nearest.into_iter().chain(all.filter(|all| *all == "secrets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_listed_where_they_lie_and_by_creation() {
        let mut collections = Collections::default();
        let paths =
            ["routes/b", "routes/a", "consumers/j", "consumers/j/credentials/1", "secrets/aws/1"];
        for (index, path) in paths.iter().enumerate() {
            collections.insert(path, Revision(index as u64 / 2));
        }
        let listed = |collection: &str, last: Option<&Creation>| -> Vec<String> {
            collections.after(collection, last).map(|(_, path)| path.to_string()).collect()
        };
        let first = (Revision(0), Box::from("routes/a"));
        assert_eq!(listed("routes", None), ["routes/a", "routes/b"]);
        assert_eq!(listed("routes", Some(&first)), ["routes/b"]);
        assert_eq!(listed("consumers", None), ["consumers/j"]);
        assert_eq!(listed("consumers/j/credentials", None), ["consumers/j/credentials/1"]);
        assert_eq!(listed("secrets", None), listed("secrets/aws", None));
        assert_eq!(listed("gen_id", None), [""; 0]);
        collections.remove("routes/a", Revision(0));
        assert_eq!((collections.count("routes"), collections.count("services")), (1, 0));
        collections.remove("routes/b", Revision(0));
        assert!(!collections.0.contains_key("routes"));
    }
}
