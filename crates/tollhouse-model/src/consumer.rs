//! Consumers: identities of clients, with their credentials, plugins and group.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::limits::NAME_CHARS_MAX;
use crate::reader::{Fields, Reader, Unknown};
use crate::{Id, PluginSet, Problem, Problems, plugins};

/// Consumer that passed validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Consumer {
    /// Name of the consumer, which is also its id.
    pub username: String,
    /// Group whose plugins apply, except plugins that the consumer configures too.
    pub group_id: Option<Id>,
    /// Authentication plugins (`key-auth`, …) that hold credentials, and plugins that override
    /// those of any route.
    pub plugins: PluginSet,
    /// Description; not used by the gateway.
    pub desc: Option<String>,
    /// Labels; only `custom_id` is used by the gateway.
    pub labels: BTreeMap<String, String>,
}

/// Label whose value is sent to nodes as `X-Consumer-Custom-ID`.
const CUSTOM_ID_LABEL: &str = "custom_id";

const USERNAME_PATTERN: &str = r"^[a-zA-Z0-9_\-]+$";

const FIELDS: [&str; 6] = ["id", "username", "group_id", "plugins", "desc", "labels"];

impl Consumer {
    /// Parses a document; returns `None` if any problem is an error. `id` is the username.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let consumer = reader
            .record(value, &FIELDS, Unknown::Refused)
            .and_then(|fields| read(&mut reader, &id, fields));
        (consumer.filter(|_| !problems.has_errors()), problems)
    }

    pub fn custom_id(&self) -> Option<&str> {
        self.labels.get(CUSTOM_ID_LABEL).map(String::as_str)
    }
}

fn read(reader: &mut Reader<'_>, id: &Id, fields: &Fields) -> Option<Consumer> {
    reader.own_times(fields);
    note_id(reader, fields);
    let description = reader.description(fields);
    let username = reader.required(fields, "username", read_username);
    if let Some(username) = username.filter(|name| *name != id.as_str()) {
        reader.in_field("username", |reader| {
            let hint = "the username in the object differs from its key";
            reader.error(&Value::from(username), "wrong username", hint);
        });
    }
    let group_id = reader.optional(fields, "group_id", Reader::id);
    let plugins = reader
        .optional(fields, "plugins", |reader, value| Some(plugins::read(reader, value)))
        .unwrap_or_default();
    Some(Consumer {
        username: username?.to_owned(),
        group_id,
        plugins,
        desc: description.desc,
        labels: description.labels,
    })
}

fn read_username<'v>(reader: &mut Reader<'_>, value: &'v Value) -> Option<&'v str> {
    reader.text_within(value, 1..=NAME_CHARS_MAX)?;
    reader.matching(value, USERNAME_PATTERN, |text| text.bytes().all(is_username_byte))
}

/// Whether a byte is allowed in a username.
pub(crate) fn is_username_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Warns if `id` differs from the username. Documents may contain such an id, but the username is
/// the key.
fn note_id(reader: &mut Reader<'_>, fields: &Fields) {
    let id = reader.optional(fields, "id", Reader::id);
    let username = fields.get("username").and_then(Value::as_str);
    if let (Some(id), Some(username)) = (id, username)
        && id.as_str() != username
    {
        let (path, problems) = reader.parts();
        let problem = Problem::warning(format!("{path}.id"), "has no effect");
        problems.push(
            problem.with_value(&Value::from(id.as_str())).with_hint("the username is the id"),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> (Option<Consumer>, String) {
        let (consumer, problems) = Consumer::parse(Id::new("jack"), value, "consumers[0]");
        (consumer, problems.to_string())
    }

    #[test]
    fn a_consumer_is_read_whole() {
        let value = json!({
            "username": "jack",
            "group_id": 7,
            "plugins": {"key-auth": {"key": "very secret"}},
            "desc": "",
            "labels": {"custom_id": "c-1"},
            "create_time": 1,
            "update_time": 2.0,
        });
        let (consumer, problems) = parse(&value);
        assert_eq!(problems, "");
        let consumer = consumer.expect("no problem was found");
        assert_eq!(consumer.group_id, Some(Id::new("7")));
        assert_eq!(consumer.custom_id(), Some("c-1"));
        assert_eq!(consumer.plugins["key-auth"].conf, json!({"key": "very secret"}));
        let shown = format!("{consumer:?}");
        assert!(shown.contains("key-auth") && !shown.contains("secret"), "{shown}");

        let (bare, problems) = parse(&json!({"username": "jack", "id": "jack"}));
        assert_eq!(problems, "");
        assert_eq!(bare.expect("no problem was found").custom_id(), None);
    }

    #[test]
    fn an_id_beside_the_username_has_no_effect() {
        let (consumer, problems) = parse(&json!({"username": "jack", "id": 1}));
        assert!(consumer.is_some());
        assert_eq!(problems, "consumers[0].id: has no effect (got \"1\"); the username is the id");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let long = "a".repeat(257);
        let table = [
            (json!({}), "property \"username\" is required"),
            (json!({"username": 1}), "wrong type: expected string, got number"),
            (json!({"username": ""}), "string too short, expected at least 1, got 0"),
            (json!({"username": long}), "string too long, expected at most 256, got 257"),
            (
                json!({"username": "a.b"}),
                r#"failed to match pattern "^[a-zA-Z0-9_\-]+$" with "a.b""#,
            ),
            (json!({"username": "bob"}), "consumers[0].username: wrong username"),
            (json!({"username": "jack", "group_id": 0}), "expected 0 to be at least 1"),
            (json!({"username": "jack", "plugins": [1]}), "expected object, got array"),
            (json!({"username": "jack", "plugins": {"key-auth": 1}}), "invalid plugin conf 1"),
            (json!({"username": "jack", "name": "x"}), "unknown field \"name\""),
            (json!({"username": "jack", "labels": {"a": "b c"}}), r#"pattern "^\S+$""#),
            (json!({"username": "jack", "desc": "x".repeat(257)}), "at most 256, got 257"),
            (json!([1]), "wrong type: expected object, got array"),
        ];
        for (value, expected) in table {
            let (consumer, problems) = parse(&value);
            assert!(consumer.is_none(), "{value}");
            assert!(problems.contains(expected), "{problems}");
        }
    }
}
