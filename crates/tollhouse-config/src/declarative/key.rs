//! What an item of a document is kept under: its kind and id.
//!
//! Most items say their id. Consumers are told by their username; their credentials stand among
//! them, told by an id of the form `<username>/credentials/<id>`.

use serde_json::Value;
use tollhouse_model::limits::NAME_CHARS_MAX;
use tollhouse_model::{Credential, Id, Kind, Problem, Problems};

/// The fields of an item that say what it is kept under.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) id: Option<Value>,
    /// Read for consumers only.
    pub(super) username: Option<Value>,
}

impl Head {
    /// Of an item that has been read whole.
    pub(super) fn from_item(item: &Value) -> Self {
        Self { id: item.get("id").cloned(), username: item.get("username").cloned() }
    }
}

/// The kinds of items that a list may hold.
pub(super) fn kinds_in(list: Kind) -> impl Iterator<Item = Kind> {
    let further = (list == Kind::Consumer).then_some(Kind::Credential);
    std::iter::once(list).chain(further)
}

/// How people call what an item of this kind is kept under.
pub(super) fn called(kind: Kind) -> &'static str {
    match kind {
        Kind::Consumer => "username",
        Kind::Credential => "credential id",
        _ => "id",
    }
}

/// Kind and id of an item; `None` where its id is bad, which is said at `path`.
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
        // `vault/1`: what is left of the slash is judged with the object.
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

/// The id of an item that says none, by its place in the list.
pub(super) fn id_from_place(index: usize) -> Id {
    Id::new(format!("arr_{}", index + 1))
}

/// A username that can stand as an id; whether it is a good one is judged with the object.
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
