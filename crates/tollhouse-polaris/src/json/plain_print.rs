//! Writing counterpart of `plain.rs`: a message as Go's `encoding/json` would write its struct.
//! Unset fields, and fields unknown to the schema, are left out.

use crate::schema::schema_name;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, MessageDescriptor, Value};
use serde_json::{Map, Value as Json};

use super::read::ReadError;

/// Converts a message to the JSON that [`read_plain`](super::read_plain) reads.
///
/// # Errors
/// If the bytes cannot be decoded as this message.
pub fn print_plain(descriptor: &MessageDescriptor, bytes: &[u8]) -> Result<Json, ReadError> {
    let read = DynamicMessage::decode(descriptor.clone(), bytes);
    Ok(message(&read.map_err(|error| ReadError::new(error.to_string()))?))
}

/// Converts a message to canonical protobuf JSON, with enums by name and without unset fields.
///
/// # Errors
/// If the bytes cannot be decoded as this message, or contain an `Any` of an unknown type.
pub fn print_sparse(descriptor: &MessageDescriptor, bytes: &[u8]) -> Result<Json, ReadError> {
    let read = DynamicMessage::decode(descriptor.clone(), bytes);
    let read = read.map_err(|error| ReadError::new(error.to_string()))?;
    serde_json::to_value(&read).map_err(|error| ReadError::new(error.to_string()))
}

fn message(read: &DynamicMessage) -> Json {
    let set = read.fields().map(|(field, value)| (schema_name(&field), whole(&field, value)));
    Json::Object(set.collect())
}

fn whole(field: &FieldDescriptor, value: &Value) -> Json {
    match value {
        Value::List(items) => items.iter().map(single).collect(),
        Value::Map(pairs) if field.is_map() => {
            let mut pairs: Vec<_> =
                pairs.iter().map(|(key, value)| (key_text(key), single(value))).collect();
            // Sorted, so that equal messages give equal texts.
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            Json::Object(Map::from_iter(pairs))
        }
        value => single(value),
    }
}

fn single(value: &Value) -> Json {
    match value {
        Value::Bool(flag) => (*flag).into(),
        Value::I32(number) | Value::EnumNumber(number) => (*number).into(),
        Value::I64(number) => (*number).into(),
        Value::U32(number) => (*number).into(),
        Value::U64(number) => (*number).into(),
        Value::F32(number) => f64::from(*number).into(),
        Value::F64(number) => (*number).into(),
        Value::String(text) => text.as_str().into(),
        Value::Bytes(bytes) => BASE64.encode(bytes).into(),
        Value::Message(read) => message(read),
        // Never happens, because protobuf does not nest lists or maps.
        Value::List(_) | Value::Map(_) => Json::Null,
    }
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(flag) => flag.to_string(),
        MapKey::I32(number) => number.to_string(),
        MapKey::I64(number) => number.to_string(),
        MapKey::U32(number) => number.to_string(),
        MapKey::U64(number) => number.to_string(),
        MapKey::String(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::descriptors;
    use crate::json::read_plain;

    fn again(name: &str, json: &Json) -> Json {
        let descriptor = descriptors().get_message_by_name(name).expect("it is declared");
        let bytes = read_plain(&descriptor, json).expect("it is sound");
        print_plain(&descriptor, &bytes).expect("it is a message")
    }

    #[test]
    fn what_go_writes_is_written_as_it_was_read() {
        let limit = json!({
            "id": {"value": "l1"}, "priority": {}, "resource": 1,
            "labels": {"a": {"type": 1, "value": {"value": "1"}}, "b": {}},
            "amounts": [{"maxAmount": {"value": 10}, "validDuration": {"seconds": 1, "nanos": 5}}],
        });
        let written = again("v1.Rule", &limit);
        assert_eq!(written, limit);
        let group = json!({"entries": [{"type": "t", "selector": {"type_url": "u/v1.X", "value": "AQI="}}]});
        assert_eq!(again("v1.LaneGroup", &group), group);
    }

    #[test]
    fn the_protocols_own_json_leaves_out_what_is_unset() {
        let descriptor =
            descriptors().get_message_by_name("v1.RuleRoutingConfig").expect("it is declared");
        let json = json!({"destinations": [{"service": "orders", "weight": 7}]});
        let bytes = read_plain(&descriptor, &json).expect("it is sound");
        assert_eq!(print_sparse(&descriptor, &bytes).expect("it is a message"), json);
    }
}
