//! Protos: protocol-buffers definitions that transcoding plugins refer to by id.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::limits::PROTO_CHARS_MAX;
use crate::reader::{Fields, Reader, Unknown};
use crate::{Id, Problems};

/// gRPC service definition that passed validation, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proto {
    pub id: Id,
    /// The text of a `.proto` file, or a descriptor set in base64.
    pub content: String,
    /// Display name; not used by the gateway.
    pub name: Option<String>,
    /// Description; not used by the gateway.
    pub desc: Option<String>,
    /// Labels for people and tools; not used by the gateway.
    pub labels: BTreeMap<String, String>,
}

const FIELDS: [&str; 5] = ["id", "content", "name", "desc", "labels"];

impl Proto {
    /// Parses a document; returns `None` if any problem is an error.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let proto = reader
            .record(value, &FIELDS, Unknown::Refused)
            .and_then(|fields| read(&mut reader, id, fields));
        (proto.filter(|_| !problems.has_errors()), problems)
    }
}

fn read(reader: &mut Reader<'_>, id: Id, fields: &Fields) -> Option<Proto> {
    reader.own_keys(fields, Some(&id));
    let description = reader.description(fields);
    let content = reader.required(fields, "content", |reader, value| {
        reader.text_within(value, 1..=PROTO_CHARS_MAX)
    })?;
    Some(Proto {
        id,
        content: content.to_owned(),
        name: description.name,
        desc: description.desc,
        labels: description.labels,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> (Option<Proto>, String) {
        let (proto, problems) = Proto::parse(Id::new("1"), value, "protos[0]");
        (proto, problems.to_string())
    }

    #[test]
    fn content_is_kept_as_it_stands() {
        let text = "syntax = \"proto3\";\npackage a;\n";
        let (proto, problems) = parse(&json!({"id": "1", "content": text, "name": "n"}));
        assert_eq!(problems, "");
        assert_eq!(proto.expect("no problem was found").content, text);
        assert!(parse(&json!({"content": "é".repeat(PROTO_CHARS_MAX)})).0.is_some());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let table = [
            (json!({}), "property \"content\" is required"),
            (json!({"content": ""}), "string too short, expected at least 1, got 0"),
            (
                json!({"content": "x".repeat(PROTO_CHARS_MAX + 1)}),
                "string too long, expected at most 1048576, got 1048577",
            ),
            (json!({"content": {}}), "wrong type: expected string, got object"),
            (json!({"content": "x", "contents": 1}), "unknown field \"contents\""),
        ];
        for (value, expected) in table {
            let (proto, problems) = parse(&value);
            assert!(proto.is_none());
            assert!(problems.contains(expected), "{problems}");
        }
    }
}
