//! Set of the objects in the configuration, to detect deletions and unchanged objects after a gap.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap};
use tollhouse_model::{Id, Kind};
use tollhouse_proxy::Change;

use crate::feed::objects::Objects;

/// Kinds and ids of all objects in the configuration.
#[derive(Debug, Default)]
pub struct KnownObjects {
    /// Each with a hash of its stored value, if it was listed and has not changed since.
    objects: HashMap<(Kind, Id), Option<u64>>,
    hasher: DefaultHashBuilder,
}

impl KnownObjects {
    pub fn note(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Upsert { kind, id, .. } | Change::Withheld { kind, id, .. } => {
                    self.objects.insert((*kind, id.clone()), None);
                }
                Change::Delete { kind, id } => {
                    self.objects.remove(&(*kind, id.clone()));
                }
                // ShenYu's objects are always listed completely.
                Change::Move { .. } | Change::Shenyu(_) => {}
            }
        }
    }

    /// Records a full listing. Removes the objects from it that are in service as they are listed,
    /// and adds a deletion for each known object that is missing in it.
    pub fn replace_by(&mut self, everything: &mut Objects) {
        let mut before = std::mem::take(&mut self.objects);
        everything.retain_stored(|kind, id, value| {
            let key = (kind, id);
            if value.is_empty() {
                return true;
            }
            let hash = Some(self.hasher.hash_one(value));
            let is_same = before.remove(&key).is_some_and(|earlier| earlier == hash);
            self.objects.insert(key, hash);
            // The order of stream routes is that of the listing.
            !is_same || kind == Kind::StreamRoute
        });
        self.note(everything.more());
        let is_gone = |key: &(Kind, Id)| !self.objects.contains_key(key);
        let gone = before.into_keys().filter(is_gone);
        everything.extend(gone.map(|(kind, id)| Change::Delete { kind, id }).collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use tollhouse_model::encryption::Keyring;
    use tollhouse_store::{Entry, Revision};

    use super::*;
    use crate::feed::objects::ObjectReader;

    fn upsert(id: &str) -> Change {
        let (id, path) = (Id::new(id), String::new());
        Change::Upsert { kind: Kind::Route, id, value: Ok(Value::Null), path }
    }

    /// Listing of routes by id and value.
    fn listing(routes: &[(&str, &'static str)]) -> Objects {
        let entry = |(id, value): &(&str, &'static str)| Entry {
            key: format!("/apisix/routes/{id}").into(),
            value: (*value).into(),
            create_revision: Revision(1),
            mod_revision: Revision(1),
            expires_at_ms: None,
        };
        let reader = ObjectReader {
            prefix: "/apisix".to_owned(),
            catalogue: crate::plugins::catalogue(),
            keyring: Arc::new(Keyring::generate().expect("random numbers")),
            indexes: Arc::default(),
        };
        Objects::stored(routes.iter().map(entry).collect(), Arc::new(reader))
    }

    fn applied(objects: &mut KnownObjects, mut everything: Objects) -> Vec<String> {
        objects.replace_by(&mut everything);
        let name = |change| match change {
            Change::Upsert { id, .. } => format!("put {id}"),
            Change::Delete { id, .. } => format!("delete {id}"),
            other => format!("{other:?}"),
        };
        everything.into_changes().map(name).collect()
    }

    #[test]
    fn after_a_gap_what_is_not_listed_has_gone() {
        let mut objects = KnownObjects::default();
        objects.note(&[
            upsert("1"),
            upsert("2"),
            Change::Delete { kind: Kind::Route, id: Id::new("1") },
        ]);
        assert_eq!(applied(&mut objects, vec![upsert("3")].into()), ["put 3", "delete 2"]);
    }

    #[test]
    fn an_object_that_is_listed_as_it_serves_is_not_applied_again() {
        let mut objects = KnownObjects::default();
        let first = [("1", "{}"), ("2", "{}"), ("3", "{}")];
        assert_eq!(applied(&mut objects, listing(&first)), ["put 1", "put 2", "put 3"]);
        // A change between two listings may have been lost with the store that had it.
        objects.note(&[upsert("3")]);
        let second = [("1", "{}"), ("2", "[]"), ("3", "{}")];
        assert_eq!(applied(&mut objects, listing(&second)), ["put 2", "put 3"]);
        assert_eq!(applied(&mut objects, listing(&second)), Vec::<String>::new());
        let mut gone = applied(&mut objects, listing(&second[..1]));
        gone.sort();
        assert_eq!(gone, ["delete 2", "delete 3"]);
    }

    #[test]
    fn an_emptied_value_deletes_the_object() {
        let mut objects = KnownObjects::default();
        assert_eq!(applied(&mut objects, listing(&[("1", "{}")])), ["put 1"]);
        let emptied = applied(&mut objects, listing(&[("1", "")]));
        assert_eq!(emptied, ["delete 1", "delete 1"]);
    }
}
