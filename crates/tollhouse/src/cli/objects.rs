//! Objects on their way between the store and a document: what `export` writes and `import`
//! compares.
//!
//! A document names credentials by `<username>/credentials/<id>` and metadata by the plugin, and
//! leaves out when objects were made; the store has all of it in other places.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tollhouse_config::{Bootstrap, Document, Format, declarative, store_keys};
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Id, Kind, Problem, Problems};
use tollhouse_plugin::Catalogue;
use tollhouse_plugin::sealing::{self, PrivateKeys};
use tollhouse_store::Listing;

use super::configured_store;

/// When an object was made and changed, where known, in seconds of Unix time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    pub created: Option<Value>,
    pub updated: Option<Value>,
}

/// An object as a document has it, apart from its times.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Its fields, the one that names it first.
    pub value: Value,
    /// Its times.
    pub times: Times,
}

/// Objects by what names them.
pub type Objects = BTreeMap<(Kind, Id), Object>;

const CREATED: &str = "create_time";
const UPDATED: &str = "update_time";

/// What the keys of the store begin with.
pub fn prefix(bootstrap: &Bootstrap) -> &str {
    bootstrap.admin.prefix.trim_end_matches('/')
}

/// The objects among the entries of a store. Values that are none are problems; keys that hold no
/// object are passed over.
pub fn from_listing(listing: &Listing, prefix: &str) -> (Objects, Problems) {
    let (mut objects, mut problems) = (Objects::new(), Problems::new());
    for entry in &listing.entries {
        let Some((kind, id)) = store_keys::parse_store_key(prefix, &entry.key) else { continue };
        match serde_json::from_slice(&entry.value) {
            Ok(Value::Object(fields)) => {
                objects.insert((kind, id.clone()), Object::new(kind, &id, fields));
            }
            _ => {
                let problem = Problem::error(&*entry.key, "the value is no JSON object");
                problems.push(problem.with_hint("write the object anew; nothing serves this one"));
            }
        }
    }
    (objects, problems)
}

/// The store that `bootstrap` names as a document; gateways may have it open meanwhile.
///
/// # Errors
/// The store cannot be read.
pub fn document_of_store(bootstrap: &Bootstrap) -> anyhow::Result<(Document, Problems)> {
    let prefix = prefix(bootstrap);
    let listing = configured_store::read(bootstrap)?;
    let (mut objects, wrong) = from_listing(&listing, prefix);
    let keyring = tollhouse_control::secrets::keyring_if_any(bootstrap)?;
    let catalogue = tollhouse_control::plugins::catalogue();
    for ((kind, _), object) in &mut objects {
        object.unseal(*kind, &catalogue, keyring.as_ref());
    }
    let items: Vec<_> = objects.into_iter().map(|((kind, _), it)| (kind, it.value)).collect();
    let text = declarative::write(&items, Format::Json);
    // What the store holds stands for itself: nothing in it is taken from the environment.
    let document = declarative::parse_literal(&text)
        .map_err(|problems| anyhow::anyhow!("the store holds what no document can: {problems}"))?;
    Ok((document, wrong))
}

impl Object {
    /// Of the fields that a store or a document has.
    pub fn new(kind: Kind, id: &Id, mut fields: Map<String, Value>) -> Self {
        let times =
            Times { created: fields.shift_remove(CREATED), updated: fields.shift_remove(UPDATED) };
        let mut ordered = Map::with_capacity(fields.len() + 1);
        let name = if kind == Kind::Consumer { "username" } else { "id" };
        // A consumer may carry an id beside its username, which names nothing.
        fields.shift_remove("id");
        fields.shift_remove(name);
        ordered.insert(name.to_owned(), Value::from(id.as_str()));
        ordered.extend(fields);
        Self { value: Value::Object(ordered), times }
    }

    /// The value with its times, as a document has it that tells them.
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

    /// The value as the store keeps it; `now_s` stands for times that are not known.
    pub fn to_store(&self, kind: Kind, id: &Id, now_s: u64) -> Value {
        let mut value = self.value.clone();
        if let Value::Object(fields) = &mut value {
            let last = id.as_str().rsplit('/').next().unwrap_or_default();
            match kind {
                Kind::PluginMetadata => drop(fields.shift_remove("id")),
                Kind::Credential => drop(fields.insert("id".to_owned(), Value::from(last))),
                _ => {}
            }
            let times = [(CREATED, &self.times.created), (UPDATED, &self.times.updated)];
            for (name, time) in times {
                let time = time.clone().unwrap_or_else(|| Value::from(now_s));
                fields.insert(name.to_owned(), time);
            }
        }
        value
    }

    /// Opens what the keys open.
    pub fn unseal(&mut self, kind: Kind, catalogue: &Catalogue, keyring: Option<&Keyring>) {
        if let Some(keyring) = keyring {
            sealing::unseal(kind, &mut self.value, catalogue, keyring, PrivateKeys::Opened);
        }
    }
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
            (Kind::PluginMetadata, "cors", json!({"a": 1}), json!({"id": "cors", "a": 1})),
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
    fn ids_written_as_numbers_and_unknown_times_are_settled() {
        let found = object(Kind::Route, "7", json!({"uri": "/", "id": 7}));
        assert_eq!(found.value, json!({"id": "7", "uri": "/"}));
        assert_eq!(found.with_times(), found.value);
        let stored = found.to_store(Kind::Route, &Id::new("7"), 9);
        assert_eq!(stored, json!({"id": "7", "uri": "/", "create_time": 9, "update_time": 9}));
    }
}
