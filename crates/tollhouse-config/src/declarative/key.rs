//! Kind and id of an item in a document.
//!
//! Most items contain their id. Consumers are identified by their username. Credentials are listed
//! among the consumers and have an id of the form `<username>/credentials/<id>`.

use serde_json::Value;
use tollhouse_model::limits::NAME_CHARS_MAX;
use tollhouse_model::{Credential, Id, Kind, Problem, Problems};

/// Fields of an item that determine its id.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) id: Option<Value>,
    /// Field `username`, the id of consumers; ignored in other kinds.
    pub(super) username: Option<Value>,
}

impl Head {
    /// Reads the fields from a parsed item.
    pub(super) fn from_item(item: &Value) -> Self {
        Self { id: item.get("id").cloned(), username: item.get("username").cloned() }
    }
}

/// Returns the kinds of items that a list may contain.
pub(super) fn kinds_in(list: Kind) -> impl Iterator<Item = Kind> {
    let further = (list == Kind::Consumer).then_some(Kind::Credential);
    std::iter::once(list).chain(further)
}

/// Returns the name of the id field of this kind for error messages.
pub(super) fn called(kind: Kind) -> &'static str {
    match kind {
        Kind::Consumer => "username",
        Kind::Credential => "credential id",
        _ => "id",
    }
}

/// Determines kind and id of an item; `None` if the id is invalid, which is reported at `path`.
pub(super) fn parse(
    list: Kind,
    index: usize,
    head: &Head,
    path: &str,
    problems: &mut Problems,
) -> Option<(Kind, Id)> {
    let given = head.id.as_ref().and_then(Value::as_str);
    match (list, given) {
        (Kind::Consumer, Some(key)) if Credential::split_key(key).is_some() => {
            return Some((Kind::Credential, Id::new(key)));
        }
        (Kind::Consumer, _) => {
            if let Some(username) = head.username.as_ref().and_then(name) {
                return Some((Kind::Consumer, Id::new(username)));
            }
        }
        // The part after the slash of `vault/1` is validated with the object.
        (Kind::Secret, Some(key)) if key.contains('/') => return Some((list, Id::new(key))),
        (Kind::PluginMetadata, _) if head.id.is_none() => {
            let problem = Problem::error(path, "missing plugin name");
            problems.push(problem.with_hint("give the plugin's name as the id"));
            return None;
        }
        _ => {}
    }
    let id = match &head.id {
        None => id_from_place(index),
        Some(id) => Id::parse(id, &format!("{path}.id"), problems)?,
    };
    Some((list, id))
}

/// Returns the id of an item without one, from its index in the list.
pub(super) fn id_from_place(index: usize) -> Id {
    Id::new(format!("arr_{}", index + 1))
}

/// Returns the value as a username; `None` if it is not a text, is empty, or is too long for an id.
/// Its characters are validated later, with the whole object.
fn name(value: &Value) -> Option<&str> {
    let text = value.as_str()?;
    (!text.is_empty() && text.chars().count() <= NAME_CHARS_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(list: Kind, item: Value) -> String {
        let mut problems = Problems::new();
        match parse(list, 2, &Head::from_item(&item), "p", &mut problems) {
            Some((kind, id)) => format!("{kind} {id}"),
            None => problems.to_string(),
        }
    }

    #[test]
    fn items_are_kept_under_what_names_them() {
        let table = [
            (Kind::Route, json!({"id": 7, "username": "jack"}), "routes 7"),
            (Kind::Route, json!({}), "routes arr_3"),
            (Kind::Consumer, json!({"username": "jack"}), "consumers jack"),
            (Kind::Consumer, json!({"username": "jack", "id": 7}), "consumers jack"),
            (Kind::Consumer, json!({"username": 7}), "consumers arr_3"),
            (Kind::Consumer, json!({"username": "", "id": "x"}), "consumers x"),
            (Kind::Consumer, json!({}), "consumers arr_3"),
            (
                Kind::Consumer,
                json!({"id": "jack/credentials/c1"}),
                "credentials jack/credentials/c1",
            ),
            (Kind::Secret, json!({"id": "vault/1"}), "secrets vault/1"),
            (Kind::Secret, json!({"id": "1"}), "secrets 1"),
            (Kind::PluginMetadata, json!({"id": "http-logger"}), "plugin_metadata http-logger"),
            (
                Kind::PluginMetadata,
                json!({"log_format": {}}),
                "p: missing plugin name; give the plugin's name as the id",
            ),
        ];
        for (list, item, expected) in table {
            assert_eq!(key(list, item), expected);
        }
        assert!(key(Kind::Route, json!({"id": "a/b"})).contains("failed to match pattern"));
    }
}
