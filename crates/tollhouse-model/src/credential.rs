//! Credentials: additional credentials of a consumer, each a separate object with an id.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::consumer::is_username_byte;
use crate::reader::{Fields, Reader, Unknown};
use crate::{Id, PluginSet, Problem, Problems, plugins};

/// Credential that passed validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Credential {
    /// Key of the object below its collection: `<username>/credentials/<id>`.
    pub key: Id,
    /// Username of the consumer that owns the credential.
    pub consumer: String,
    /// Id, unique among the consumer's credentials.
    pub id: Id,
    /// At most one plugin, which is an authentication plugin.
    pub plugins: PluginSet,
    /// Display name; not used by the gateway.
    pub name: Option<String>,
    /// Description; not used by the gateway.
    pub desc: Option<String>,
    /// Labels for people and tools; not used by the gateway.
    pub labels: BTreeMap<String, String>,
}

/// Part of a key between the username and the id.
const INFIX: &str = "/credentials/";

/// Maximum number of plugins of a credential, by APISIX's schema.
const PLUGINS_MAX: usize = 1;

const FIELDS: [&str; 5] = ["id", "plugins", "name", "desc", "labels"];

impl Credential {
    /// Parses a document; returns `None` if any problem is an error. `id` is the whole key,
    /// `<username>/credentials/<id>`.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let credential = reader
            .record(value, &FIELDS, Unknown::Refused)
            .and_then(|fields| read(&mut reader, id, fields));
        (credential.filter(|_| !problems.has_errors()), problems)
    }

    pub fn key(consumer: &str, id: &str) -> Id {
        Id::new(format!("{consumer}{INFIX}{id}"))
    }

    /// Splits a key into username and id; `None` for any other text.
    pub fn split_key(key: &str) -> Option<(&str, &str)> {
        key.split_once(INFIX)
    }
}

fn read(reader: &mut Reader<'_>, key: Id, fields: &Fields) -> Option<Credential> {
    reader.own_parted_key(fields, &key);
    reader.own_times(fields);
    let parts = read_key(reader, &key);
    let description = reader.description(fields);
    let plugins = reader.required(fields, "plugins", |reader, value| {
        let plugins = plugins::read(reader, value);
        if plugins.len() > PLUGINS_MAX {
            let reason = format!("expect object to have at most {PLUGINS_MAX} properties");
            reader.error_unquoted(reason, "make one credential for each plugin");
        }
        Some(plugins)
    });
    let (consumer, id) = parts?;
    Some(Credential {
        key,
        consumer,
        id,
        plugins: plugins?,
        name: description.name,
        desc: description.desc,
        labels: description.labels,
    })
}

fn read_key(reader: &mut Reader<'_>, key: &Id) -> Option<(String, Id)> {
    let parts = Credential::split_key(key.as_str());
    let named = |username: &str| !username.is_empty() && username.bytes().all(is_username_byte);
    let Some((consumer, id)) = parts.filter(|(consumer, _)| named(consumer)) else {
        let problem = Problem::error(reader.parts().0, "wrong credential id");
        let hint = "write it as <username>/credentials/<id>";
        let value = Value::from(key.as_str());
        reader.parts().1.push(problem.with_value(&value).with_hint(hint));
        return None;
    };
    let (path, problems) = reader.parts();
    let id = Id::parse(&Value::from(id), &format!("{path}.id"), problems)?;
    Some((consumer.to_owned(), id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(key: &str, value: &Value) -> (Option<Credential>, String) {
        let (credential, problems) = Credential::parse(Id::new(key), value, "consumers[1]");
        (credential, problems.to_string())
    }

    #[test]
    fn a_credential_knows_whose_it_is() {
        let key = "jack/credentials/c-1";
        for id in [json!("jack/credentials/c-1"), json!("c-1")] {
            let value = json!({
                "id": id,
                "plugins": {"key-auth": {"key": "very secret"}},
                "name": "n", "desc": "d", "labels": {"a": "b"}, "create_time": 1,
            });
            let (credential, problems) = parse(key, &value);
            assert_eq!(problems, "");
            let credential = credential.expect("no problem was found");
            assert_eq!((credential.consumer.as_str(), credential.id.as_str()), ("jack", "c-1"));
            assert_eq!(Credential::key("jack", "c-1"), credential.key);
            let shown = format!("{credential:?}");
            assert!(shown.contains("key-auth") && !shown.contains("secret"), "{shown}");
        }
        let (credential, problems) = parse("jack/credentials/1", &json!({"id": 1, "plugins": {}}));
        assert!(credential.is_some(), "{problems}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let (key, good) = ("jack/credentials/c1", json!({"plugins": {}}));
        let two = json!({"plugins": {"key-auth": {}, "basic-auth": {}}});
        let table = [
            (key, json!({}), "property \"plugins\" is required"),
            (key, two, "expect object to have at most 1 properties"),
            (key, json!({"plugins": {}, "username": "jack"}), "unknown field \"username\""),
            (key, json!({"plugins": {}, "id": "c2"}), "consumers[1].id: wrong id"),
            (key, json!({"plugins": {}, "id": "bob/credentials/c1"}), "wrong id"),
            (key, json!({"plugins": {}, "name": ""}), "string too short"),
            (key, json!({"plugins": 1}), "wrong type: expected object, got number"),
            ("jack", good.clone(), "wrong credential id"),
            ("/credentials/c1", good.clone(), "wrong credential id"),
            ("a b/credentials/c1", good.clone(), "wrong credential id"),
            ("jack/credentials/", good.clone(), "string too short"),
            ("jack/credentials/a/b", good, "failed to match pattern"),
        ];
        for (key, value, expected) in table {
            let (credential, problems) = parse(key, &value);
            assert!(credential.is_none(), "{key} {value}");
            assert!(problems.contains(expected), "{problems}");
        }
    }
}
