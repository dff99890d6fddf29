//! Messages of Tencent Cloud's log service, in protobuf.
//!
//! The list of groups and the group are encoded by hand, around logs that are not copied.

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, message, string};
use serde_json::{Map, Value};

/// Longest value of a field in bytes that the service accepts.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Tag of the groups in a list.
const GROUP_TAG: u32 = 1;
/// Tags of logs and source in a group.
const LOG_TAG: u32 = 1;
const SOURCE_TAG: u32 = 4;

/// Entry of an exchange.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Log {
    /// Milliseconds since 1970.
    #[prost(int64, required, tag = "1")]
    pub(super) time: i64,
    #[prost(message, repeated, tag = "2")]
    pub(super) contents: Vec<Content>,
}

/// Field of an entry.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Content {
    #[prost(string, required, tag = "1")]
    pub(super) key: String,
    #[prost(string, required, tag = "2")]
    pub(super) value: String,
}

impl Log {
    /// Converts the fields of an entry to texts.
    pub(super) fn new(unix_ms: u64, fields: Map<String, Value>) -> Self {
        let contents = fields.into_iter().map(|(key, value)| {
            let mut value = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            value.truncate(value.floor_char_boundary(VALUE_BYTES_MAX));
            Content { key, value }
        });
        Self { time: i64::try_from(unix_ms).unwrap_or(i64::MAX), contents: contents.collect() }
    }

    /// Returns the number of bytes of names and values.
    pub(super) fn bytes(&self) -> usize {
        self.contents.iter().map(|content| content.key.len() + content.value.len()).sum()
    }
}

/// Encodes a list with one group.
pub(super) fn encode(logs: &[Log], source: &str) -> Vec<u8> {
    let mut group = Vec::new();
    for log in logs {
        message::encode(LOG_TAG, log, &mut group);
    }
    string::encode(SOURCE_TAG, &source.to_owned(), &mut group);
    let mut list = Vec::with_capacity(group.len() + 16);
    encode_key(GROUP_TAG, WireType::LengthDelimited, &mut list);
    encode_varint(group.len() as u64, &mut list);
    list.extend_from_slice(&group);
    list
}
