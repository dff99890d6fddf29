//! JSON format of answers about objects, in the versions of APISIX 3 and 2 ([`ApiVersion`]).

use hyper::StatusCode;
use serde_json::{Value, json};
use tollhouse_store::Entry;

use crate::options::ApiVersion;
use crate::reply::Reply;

/// Kind of write, which determines status and form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// PUT created the object.
    Created,
    Replaced,
    Posted,
    Patched,
}

/// Returns the answer to a write, without revisions.
pub(crate) fn written(version: ApiVersion, how: WriteKind, key: &str, value: Value) -> Reply {
    let status = match how {
        WriteKind::Created | WriteKind::Posted => StatusCode::CREATED,
        WriteKind::Replaced | WriteKind::Patched => StatusCode::OK,
    };
    let node = json!({"key": key, "value": value});
    match version {
        ApiVersion::V3 => Reply::json(status, &node),
        ApiVersion::V2 => {
            let action = match how {
                WriteKind::Created | WriteKind::Replaced => "set",
                WriteKind::Posted => "create",
                WriteKind::Patched => "compareAndSwap",
            };
            Reply::json(status, &json!({"action": action, "node": node}))
        }
    }
}

/// Number of deleted objects: a text, as in etcd's JSON.
const DELETED: &str = "1";

pub(crate) fn deleted(version: ApiVersion, key: &str) -> Reply {
    let body = match version {
        ApiVersion::V3 => json!({"deleted": DELETED, "key": key}),
        ApiVersion::V2 => json!({"action": "delete", "deleted": DELETED, "key": key, "node": {}}),
    };
    Reply::json(StatusCode::OK, &body)
}

/// Returns the answer to a write or read of one object.
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

/// Answer with a list, built object by object.
pub(crate) struct List {
    version: ApiVersion,
    text: String,
    is_empty: bool,
}

impl List {
    /// Starts the list of the collection with this key.
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

    /// Appends an object to the list.
    pub(crate) fn push(&mut self, entry: &Entry, value: Value) {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(',');
        }
        self.text.push_str(&node(entry, value).to_string());
    }

    /// Ends the list; `total` is the number of objects before paging.
    pub(crate) fn finish(mut self, total: usize) -> String {
        let end = match self.version {
            ApiVersion::V3 => format!(r#"],"total":{total}}}"#),
            ApiVersion::V2 => format!(r#"]}},"count":{total}}}"#),
        };
        self.text.push_str(&end);
        self.text
    }
}
