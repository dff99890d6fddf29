//! Plan of an import: the changes that turn the stored objects into those of a document. Shared by
//! the command line and the console, which carry it out.

use std::collections::BTreeSet;

use serde_json::Value;
use tollhouse_model::encryption::SSL_FIELDS;
use tollhouse_model::{Id, Kind};

use super::objects::{Object, Objects};

/// Treatment of stored objects that the document does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prune {
    /// Such objects are kept.
    Nothing,
    /// Such objects are deleted.
    Absent,
}

/// Visibility of the private keys of stored certificates in the target of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateKeys {
    /// Private keys are visible and can be compared.
    Seen,
    /// Private keys are never visible. A key counts as changed if its certificate has changed.
    Hidden,
}

/// Old and new version of an object; `None` where it does not exist.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub kind: Kind,
    pub id: Id,
    /// The stored object, if it exists.
    pub old: Option<Object>,
    /// The new object; `None` for a deletion.
    pub new: Option<Object>,
}

/// All changes, in a safe order: an object is written after the objects that it refers to, and
/// deleted before them.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub changes: Vec<Change>,
    /// Number of objects that need no change.
    pub unchanged: usize,
    /// Number of stored objects that the document does not contain and that are kept.
    pub left: usize,
}

impl Plan {
    /// Compares the stored objects `there` with the `wanted` ones.
    pub fn make(
        mut there: Objects,
        wanted: Objects,
        prune: Prune,
        private_keys: PrivateKeys,
    ) -> Self {
        let mut plan = Plan::default();
        for ((kind, id), mut new) in wanted {
            let old = there.remove(&(kind, id.clone()));
            if old.as_ref().is_some_and(|old| is_same(kind, old, &new, private_keys)) {
                plan.unchanged += 1;
                continue;
            }
            // A replaced object keeps its time of creation.
            new.times.created = new
                .times
                .created
                .or_else(|| old.as_ref().and_then(|old| old.times.created.clone()));
            plan.changes.push(Change { kind, id, old, new: Some(new) });
        }
        match prune {
            Prune::Nothing => plan.left = there.len(),
            Prune::Absent => {
                plan.changes.extend(there.into_iter().map(|((kind, id), old)| Change {
                    kind,
                    id,
                    old: Some(old),
                    new: None,
                }))
            }
        }
        plan.changes.sort_by_key(|change| match &change.new {
            Some(_) => (0, depth(change.kind)),
            None => (1, Kind::ALL.len() - depth(change.kind)),
        });
        plan
    }
}

/// Returns the position of a kind in the order of writing: after all kinds that its objects can
/// refer to.
fn depth(kind: Kind) -> usize {
    match kind {
        Kind::Secret | Kind::PluginMetadata | Kind::Proto | Kind::Ssl => 0,
        Kind::Upstream => 1,
        Kind::Service | Kind::PluginConfig | Kind::ConsumerGroup => 2,
        Kind::Consumer => 3,
        Kind::Credential => 4,
        Kind::Route | Kind::StreamRoute => 5,
        Kind::GlobalRule => 6,
    }
}

fn is_same(kind: Kind, old: &Object, new: &Object, private_keys: PrivateKeys) -> bool {
    if kind != Kind::Ssl || private_keys == PrivateKeys::Seen {
        return old.value == new.value;
    }
    let shown = |object: &Object| {
        let mut value = object.value.clone();
        if let Value::Object(fields) = &mut value {
            SSL_FIELDS.iter().for_each(|name| drop(fields.shift_remove(*name)));
        }
        value
    };
    shown(old) == shown(new)
}

/// Returns the paths of the fields that differ. Objects are compared field by field, lists as a
/// whole.
pub fn changed_fields(old: &Value, new: &Value) -> Vec<Vec<String>> {
    let mut fields = Vec::new();
    let mut waiting = vec![(Vec::new(), old, new)];
    while let Some((path, old, new)) = waiting.pop() {
        let (Value::Object(before), Value::Object(after)) = (old, new) else {
            if old != new {
                fields.push(path);
            }
            continue;
        };
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let mut path = path.clone();
            path.push(name.clone());
            match (before.get(name), after.get(name)) {
                (Some(old), Some(new)) => waiting.push((path, old, new)),
                _ => fields.push(path),
            }
        }
    }
    fields.sort();
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(list: &[(Kind, &str, Value)]) -> Objects {
        let object = |(kind, id, value): &(Kind, &str, Value)| {
            let fields = value.as_object().expect("an object").clone();
            ((*kind, Id::new(*id)), Object::new(*kind, &Id::new(*id), fields))
        };
        list.iter().map(object).collect()
    }

    fn described(plan: &Plan) -> String {
        let sign = |change: &Change| match (&change.old, &change.new) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        let words = plan.changes.iter().map(|it| format!("{}{}/{}", sign(it), it.kind, it.id));
        format!("{} ={} {}", words.collect::<Vec<_>>().join(" "), plan.unchanged, plan.left)
    }

    #[test]
    fn what_is_needed_is_written_first_and_deleted_last() {
        let there = objects(&[
            (Kind::Route, "old", json!({})),
            (Kind::Service, "old", json!({})),
            (Kind::Upstream, "same", json!({"create_time": 1})),
            (Kind::Upstream, "changed", json!({"type": "ewma"})),
        ]);
        let wanted = objects(&[
            (Kind::Route, "new", json!({})),
            (Kind::Service, "new", json!({})),
            (Kind::Upstream, "same", json!({})),
            (Kind::Upstream, "changed", json!({})),
        ]);
        let make = |prune| Plan::make(there.clone(), wanted.clone(), prune, PrivateKeys::Seen);
        let written = "~upstreams/changed +services/new +routes/new";
        assert_eq!(described(&make(Prune::Nothing)), format!("{written} =1 2"));
        let deleted = "-routes/old -services/old";
        assert_eq!(described(&make(Prune::Absent)), format!("{written} {deleted} =1 0"));
    }

    #[test]
    fn a_change_keeps_when_the_object_was_made() {
        let there = objects(&[(Kind::Route, "1", json!({"create_time": 1, "update_time": 2}))]);
        let wanted = objects(&[(Kind::Route, "1", json!({"uri": "/"}))]);
        let plan = Plan::make(there, wanted, Prune::Nothing, PrivateKeys::Seen);
        let new = plan.changes[0].new.as_ref().expect("it is wanted");
        assert_eq!((&new.times.created, &new.times.updated), (&Some(json!(1)), &None));
    }

    #[test]
    fn keys_that_nobody_shows_are_not_compared() {
        let there = objects(&[(Kind::Ssl, "1", json!({"cert": "c"}))]);
        let wanted = objects(&[(Kind::Ssl, "1", json!({"cert": "c", "key": "k"}))]);
        for (private_keys, expected) in [(PrivateKeys::Hidden, 0), (PrivateKeys::Seen, 1)] {
            let plan = Plan::make(there.clone(), wanted.clone(), Prune::Nothing, private_keys);
            assert_eq!(plan.changes.len(), expected);
        }
    }

    #[test]
    fn fields_are_named_as_deep_as_they_go() {
        let table = [
            (json!({"a": 1}), json!({"a": 1}), vec![]),
            (json!({"a": 1}), json!({"a": 2, "b": 1}), vec!["a", "b"]),
            (json!({"a": {"b": {"c": 1}}}), json!({"a": {"b": {"c": 2}}}), vec!["a.b.c"]),
            (json!({"a": {"b": 1}}), json!({"a": {}}), vec!["a.b"]),
            (json!({"a": {"b": 1}}), json!({"a": 1}), vec!["a"]),
            (json!({"a": [1, 2]}), json!({"a": [1, 3]}), vec!["a"]),
        ];
        for (old, new, expected) in table {
            let fields = changed_fields(&old, &new);
            let fields: Vec<String> = fields.iter().map(|path| path.join(".")).collect();
            assert_eq!(fields, expected, "{old} {new}");
        }
    }
}
