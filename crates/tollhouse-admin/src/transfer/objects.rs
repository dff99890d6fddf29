//! Objects in a common form for store and document, for export and for the comparison of an import.
//!
//! A document names credentials by `<username>/credentials/<id>` and metadata by the plugin, and
//! omits timestamps. The store represents these differently.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use tollhouse_config::{Document, store_keys};
use tollhouse_model::encryption::{Certainty, Keyring, Unopened};
use tollhouse_model::{Id, Kind, Problem, Problems};
use tollhouse_plugin::Catalogue;
use tollhouse_plugin::sealing::{self, ObjectRef, PrivateKeys};
use tollhouse_store::Listing;

use crate::object::drop_revisions;

/// Timestamps of an object, in seconds of Unix time, if known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    pub created: Option<Value>,
    pub updated: Option<Value>,
}

/// Object in the form of a document, with separate timestamps.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// The fields, starting with the id.
    pub value: Value,
    pub times: Times,
}

pub type Objects = BTreeMap<(Kind, Id), Object>;

/// Returns the path of an object in a store, without the prefix, such as `routes/1`. Paths of
/// credentials are below those of their consumers.
pub fn path_of(kind: Kind, id: &Id) -> String {
    let list = if kind == Kind::Credential { Kind::Consumer } else { kind };
    format!("{}/{id}", list.plural())
}

const CREATED: &str = "create_time";
const UPDATED: &str = "update_time";

/// Returns the objects in a listing of a store. Values that are not JSON objects are reported as
/// problems; keys that are not those of objects are ignored.
pub fn from_listing(listing: &Listing, prefix: &str) -> (Objects, Problems) {
    let (mut objects, mut problems) = (Objects::new(), Problems::new());
    for entry in &listing.entries {
        let Some((kind, id)) = store_keys::parse_store_key(prefix, &entry.key) else { continue };
        match serde_json::from_slice(&entry.value) {
            Ok(Value::Object(fields)) => {
                objects.insert((kind, id.clone()), Object::new(kind, &id, fields));
            }
            _ => {
                let problem = Problem::error(&*entry.key, "the value is not a JSON object");
                problems.push(problem.with_hint("write the object again; this one is not served"));
            }
        }
    }
    (objects, problems)
}

/// Returns the objects of a parsed document.
///
/// # Errors
/// If the value of an object is invalid.
pub fn from_document(document: &Document) -> Result<Objects, Problem> {
    let mut found = Objects::new();
    for item in &document.items {
        if let Value::Object(fields) = item.value()? {
            let object = Object::new(item.kind, &item.id, fields);
            found.insert((item.kind, item.id.clone()), object);
        }
    }
    Ok(found)
}

/// Opens the values of a document that were sealed with `keyring`, for checks and comparisons.
/// Values under other keys stay sealed and are refused by the checks. Values that look sealed but
/// are not cause a warning.
pub fn open_document(document: &mut Document, catalogue: &Catalogue, keyring: &Keyring) {
    for item in &mut document.items {
        // An unparsable value is reported by the checks.
        let Ok(mut value) = item.value() else { continue };
        let before = value.clone();
        let keys = PrivateKeys::Opened;
        let unopened = sealing::unseal(
            ObjectRef::new(item.kind, item.id.as_str()),
            &mut value,
            catalogue,
            keyring,
            keys,
        );
        let likely = unopened.into_iter().filter(|it| it.certainty == Certainty::Likely);
        for Unopened { field, .. } in likely {
            let reason = "it has the look of a value that another keyring encrypted";
            let problem = Problem::warning(format!("{}.{field}", item.path), reason);
            document.problems.push(problem.with_hint("it is taken as it is written"));
        }
        if value != before {
            item.text = Arc::from(value.to_string());
        }
    }
}

impl Object {
    /// Creates an object from the fields in a store or document.
    pub fn new(kind: Kind, id: &Id, mut fields: Map<String, Value>) -> Self {
        let mut times =
            Times { created: fields.shift_remove(CREATED), updated: fields.shift_remove(UPDATED) };
        if kind == Kind::PluginMetadata {
            times = Times::default();
        }
        drop_revisions(&mut fields);
        let mut ordered = Map::with_capacity(fields.len() + 1);
        let name = if kind == Kind::Consumer { "username" } else { "id" };
        // A consumer's `id` has no meaning, because the username identifies it.
        fields.shift_remove("id");
        fields.shift_remove(name);
        ordered.insert(name.to_owned(), Value::from(id.as_str()));
        ordered.extend(fields);
        Self { value: Value::Object(ordered), times }
    }

    /// Returns the value with its timestamps, for documents that include them.
    pub fn with_times(&self) -> Value {
        let mut value = self.value.clone();
        if let Value::Object(fields) = &mut value {
            let times = [(CREATED, &self.times.created), (UPDATED, &self.times.updated)];
            for (name, time) in times {
                fields.extend(time.clone().map(|time| (name.to_owned(), time)));
            }
        }
        value
    }

    /// Returns the value for the store; `now_s` replaces unknown timestamps.
    pub fn to_store(&self, kind: Kind, id: &Id, now_s: u64) -> Value {
        let mut value = self.value.clone();
        if kind == Kind::PluginMetadata {
            return value;
        }
        if let Value::Object(fields) = &mut value {
            let last = id.as_str().rsplit('/').next().unwrap_or_default();
            if kind == Kind::Credential {
                fields.insert("id".to_owned(), Value::from(last));
            }
            let times = [(CREATED, &self.times.created), (UPDATED, &self.times.updated)];
            for (name, time) in times {
                let time = time.clone().unwrap_or_else(|| Value::from(now_s));
                fields.insert(name.to_owned(), time);
            }
        }
        value
    }

    /// Opens all values that the keyring can open.
    pub fn unseal(&mut self, kind: Kind, catalogue: &Catalogue, keyring: Option<&Keyring>) {
        if let Some(keyring) = keyring {
            let id = id_in(kind, &self.value);
            let at = ObjectRef::new(kind, &id);
            sealing::unseal(at, &mut self.value, catalogue, keyring, PrivateKeys::Opened);
        }
    }
}

/// Returns the id in the value of an object.
pub(super) fn id_in(kind: Kind, value: &Value) -> String {
    let name = if kind == Kind::Consumer { "username" } else { "id" };
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: Kind, id: &str, value: Value) -> Object {
        let Value::Object(fields) = value else { panic!("an object is given") };
        Object::new(kind, &Id::new(id), fields)
    }

    #[test]
    fn objects_go_from_the_store_to_a_document_and_back() {
        let times = json!({"create_time": 1, "update_time": 2});
        let table = [
            (Kind::Route, "1", json!({"uri": "/", "id": "1"}), json!({"id": "1", "uri": "/"})),
            (Kind::Consumer, "jack", json!({"username": "jack"}), json!({"username": "jack"})),
            (
                Kind::Credential,
                "jack/credentials/c1",
                json!({"id": "c1", "plugins": {}}),
                json!({"id": "jack/credentials/c1", "plugins": {}}),
            ),
            (
                Kind::Secret,
                "vault/1",
                json!({"id": "vault/1", "uri": "u"}),
                json!({"id": "vault/1", "uri": "u"}),
            ),
        ];
        for (kind, id, stored, expected) in table {
            let mut with_times = stored.clone();
            with_times
                .as_object_mut()
                .expect("it is one")
                .extend(times.as_object().expect("it is one").clone());
            let found = object(kind, id, with_times.clone());
            assert_eq!(found.value, expected, "{kind}");
            assert_eq!(found.to_store(kind, &Id::new(id), 9), with_times, "{kind}");
            assert_eq!(object(kind, id, expected).value, found.value, "{kind}");
        }
    }

    #[test]
    fn metadata_has_no_times_and_nothing_has_revisions() {
        let stored = json!({"a": 1, "create_time": 1, "update_time": 2});
        let found = object(Kind::PluginMetadata, "cors", stored);
        let expected = json!({"id": "cors", "a": 1});
        assert_eq!(found.with_times(), expected);
        assert_eq!(found.to_store(Kind::PluginMetadata, &Id::new("cors"), 9), expected);
        let read = object(Kind::Route, "1", json!({"uri": "/", "modifiedIndex": 5}));
        assert_eq!(read.value, json!({"id": "1", "uri": "/"}));
    }

    #[test]
    fn ids_written_as_numbers_and_unknown_times_are_settled() {
        let found = object(Kind::Route, "7", json!({"uri": "/", "id": 7}));
        assert_eq!(found.value, json!({"id": "7", "uri": "/"}));
        assert_eq!(found.with_times(), found.value);
        let stored = found.to_store(Kind::Route, &Id::new("7"), 9);
        assert_eq!(stored, json!({"id": "7", "uri": "/", "create_time": 9, "update_time": 9}));
    }
}
