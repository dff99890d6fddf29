//! The shape of answers about objects: the present one, and the one that older clients know.

use hyper::StatusCode;
use serde_json::{Value, json};
use tollhouse_store::Entry;

use crate::options::ApiVersion;
use crate::reply::Reply;

/// How an object was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// By PUT, where there was none.
    Created,
    /// By PUT, in the place of another.
    Replaced,
    Posted,
    Patched,
}

/// The answer to a write; it tells no revisions.
pub(crate) fn written(version: ApiVersion, how: Written, key: &str, value: Value) -> Reply {
    let status = match how {
        Written::Created | Written::Posted => StatusCode::CREATED,
        Written::Replaced | Written::Patched => StatusCode::OK,
    };
    let node = json!({"key": key, "value": value});
    match version {
        ApiVersion::V3 => Reply::json(status, &node),
        ApiVersion::V2 => {
            let action = match how {
                Written::Created | Written::Replaced => "set",
                Written::Posted => "create",
                Written::Patched => "compareAndSwap",
            };
            Reply::json(status, &json!({"action": action, "node": node}))
        }
    }
}

/// How many objects were deleted, as etcd's JSON has whole numbers: as text.
const DELETED: &str = "1";

/// The answer to a deletion.
pub(crate) fn deleted(version: ApiVersion, key: &str) -> Reply {
    let body = match version {
        ApiVersion::V3 => json!({"deleted": DELETED, "key": key}),
        ApiVersion::V2 => json!({"action": "delete", "deleted": DELETED, "key": key, "node": {}}),
    };
    Reply::json(StatusCode::OK, &body)
}

/// The answer to the question for one object.
pub(crate) fn one(version: ApiVersion, entry: &Entry, value: Value) -> Value {
    let node = node(entry, value);
    match version {
        ApiVersion::V3 => node,
        ApiVersion::V2 => json!({"action": "get", "count": 1, "node": node}),
    }
}

fn node(entry: &Entry, value: Value) -> Value {
    json!({
        "key": entry.key,
        "value": value,
        "createdIndex": entry.create_revision.0,
        "modifiedIndex": entry.mod_revision.0,
    })
}

/// The answer to the question for a list, written object by object.
pub(crate) struct List {
    version: ApiVersion,
    text: String,
    is_empty: bool,
}

impl List {
    /// Of the collection of that key.
    pub(crate) fn new(version: ApiVersion, key: &str) -> Self {
        let text = match version {
            ApiVersion::V3 => r#"{"list":["#.to_owned(),
            ApiVersion::V2 => {
                let key = Value::from(key);
                format!(r#"{{"action":"get","node":{{"key":{key},"dir":true,"nodes":["#)
            }
        };
        Self { version, text, is_empty: true }
    }

    /// Another object.
    pub(crate) fn push(&mut self, entry: &Entry, value: Value) {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(',');
        }
        self.text.push_str(&node(entry, value).to_string());
    }

    /// The text; `total` is how many there were before paging.
    pub(crate) fn finish(mut self, total: usize) -> String {
        let end = match self.version {
            ApiVersion::V3 => format!(r#"],"total":{total}}}"#),
            ApiVersion::V2 => format!(r#"]}},"count":{total}}}"#),
        };
        self.text.push_str(&end);
        self.text
    }
}
