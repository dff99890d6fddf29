//! Set of the objects in the configuration, to detect deletions during a gap.

use tollhouse_model::{Id, Kind};
use tollhouse_proxy::Change;

/// Kinds and ids of all objects in the configuration.
#[derive(Debug, Default)]
pub struct KnownObjects(hashbrown::HashSet<(Kind, Id)>);

impl KnownObjects {
    pub fn note(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Upsert { kind, id, .. } | Change::Withheld { kind, id, .. } => {
                    self.0.insert((*kind, id.clone()));
                }
                Change::Delete { kind, id } => drop(self.0.remove(&(*kind, id.clone()))),
                // ShenYu's objects are always listed completely.
                Change::Move { .. } | Change::Shenyu(_) => {}
            }
        }
    }

    /// Records a full listing, and adds a deletion for each known object that is missing in it.
    pub fn replace_by(&mut self, everything: &mut Vec<Change>) {
        let before = std::mem::take(self);
        self.note(everything);
        let gone = before.0.difference(&self.0);
        everything.extend(gone.map(|(kind, id)| Change::Delete { kind: *kind, id: id.clone() }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn after_a_gap_what_is_not_listed_has_gone() {
        let upsert = |id: &str| Change::Upsert {
            kind: Kind::Route,
            id: Id::new(id),
            value: Ok(Value::Null),
            path: String::new(),
        };
        let mut objects = KnownObjects::default();
        objects.note(&[
            upsert("1"),
            upsert("2"),
            Change::Delete { kind: Kind::Route, id: Id::new("1") },
        ]);
        let mut everything = vec![upsert("3")];
        objects.replace_by(&mut everything);
        assert!(matches!(&everything[1], Change::Delete { id, .. } if id.as_str() == "2"));
        assert_eq!(everything.len(), 2);
    }
}
