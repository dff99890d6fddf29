//! JSON as Go's `encoding/json` writes the struct of a message: wrappers are objects with a
//! `value`, durations have seconds and nanoseconds, an `Any` has base64 bytes, enums are numbers.
//! Polaris stores rules in its database in this form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use serde_json::Value as Json;

use super::read::{ReadError, options};

/// Encodes a message from such JSON. Unknown fields are ignored.
///
/// # Errors
/// If a value does not fit the type of its field.
pub fn read_plain(descriptor: &MessageDescriptor, json: &Json) -> Result<Vec<u8>, ReadError> {
    Ok(message(descriptor, json)?.encode_to_vec())
}

fn message(descriptor: &MessageDescriptor, json: &Json) -> Result<DynamicMessage, ReadError> {
    let Json::Object(fields) = json else {
        // The canonical protobuf JSON, which some versions write: the bare value of a wrapper, or a
        // duration as text.
        let read =
            DynamicMessage::deserialize_with_options(descriptor.clone(), json.clone(), &options());
        return read.map_err(|error| ReadError::new(error.to_string()));
    };
    let mut read = DynamicMessage::new(descriptor.clone());
    for (name, json) in fields {
        let Some(field) = field_of(descriptor, name) else { continue };
        if !json.is_null() {
            read.set_field(&field, whole(&field, json)?);
        }
    }
    Ok(read)
}

/// Returns the field of a name, in any spelling.
fn field_of(descriptor: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    let by_name = descriptor.get_field_by_name(name);
    by_name.or_else(|| descriptor.fields().find(|field| plain(field.name()) == plain(name)))
}

fn whole(field: &FieldDescriptor, json: &Json) -> Result<Value, ReadError> {
    if field.is_map() {
        let (Json::Object(pairs), Kind::Message(entry)) = (json, field.kind()) else {
            return Err(unfit(field, json));
        };
        let value_field = entry.map_entry_value_field();
        let pairs = pairs
            .iter()
            .map(|(key, json)| Ok((MapKey::String(key.clone()), single(&value_field, json)?)));
        return Ok(Value::Map(pairs.collect::<Result<_, ReadError>>()?));
    }
    if field.is_list() {
        let Json::Array(items) = json else { return Err(unfit(field, json)) };
        let items = items.iter().map(|json| single(field, json));
        return Ok(Value::List(items.collect::<Result<_, _>>()?));
    }
    single(field, json)
}

fn single(field: &FieldDescriptor, json: &Json) -> Result<Value, ReadError> {
    let read = match field.kind() {
        Kind::Message(descriptor) => return Ok(Value::Message(message(&descriptor, json)?)),
        Kind::Bool => json.as_bool().map(Value::Bool),
        Kind::String => json.as_str().map(|text| Value::String(text.to_owned())),
        Kind::Bytes => {
            let bytes = json.as_str().and_then(|text| BASE64.decode(text).ok());
            bytes.map(|bytes| Value::Bytes(bytes.into()))
        }
        Kind::Float => json.as_f64().map(|number| Value::F32(number as f32)),
        Kind::Double => json.as_f64().map(Value::F64),
        Kind::Enum(descriptor) => match json.as_str() {
            Some(name) => descriptor.get_value_by_name(name).map(|it| it.number()),
            None => signed(json).and_then(|number| i32::try_from(number).ok()),
        }
        .map(Value::EnumNumber),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            signed(json).and_then(|number| i32::try_from(number).ok()).map(Value::I32)
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => signed(json).map(Value::I64),
        Kind::Uint32 | Kind::Fixed32 => {
            unsigned(json).and_then(|number| u32::try_from(number).ok()).map(Value::U32)
        }
        Kind::Uint64 | Kind::Fixed64 => unsigned(json).map(Value::U64),
    };
    read.ok_or_else(|| unfit(field, json))
}

fn signed(json: &Json) -> Option<i64> {
    json.as_i64().or_else(|| json.as_str()?.parse().ok())
}

fn unsigned(json: &Json) -> Option<u64> {
    json.as_u64().or_else(|| json.as_str()?.parse().ok())
}

fn unfit(field: &FieldDescriptor, json: &Json) -> ReadError {
    let what = match json {
        Json::Null => "nothing",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    };
    ReadError::new(format!("{what} is not a value of {}", field.full_name()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{descriptors, v1};

    fn read<M: Message + Default>(name: &str, json: &Json) -> Result<M, ReadError> {
        let descriptor = descriptors().get_message_by_name(name).expect("it is declared");
        let bytes = read_plain(&descriptor, json)?;
        Ok(M::decode(&bytes[..]).expect("it is a message"))
    }

    #[test]
    fn wrappers_durations_maps_and_enums_are_read_as_go_writes_them() {
        let json = json!({
            "name": {"value": "limit"}, "resource": 1, "priority": {"value": 3}, "disable": {},
            "amounts": [{"maxAmount": {"value": 10}, "validDuration": {"seconds": 1, "nanos": 5}}],
            "labels": {"zone": {"type": 1, "value": {"value": "a"}}}, "newer": [1, 2],
            "regex_combine": {"value": true}, "action": null,
        });
        let rule: v1::Rule = read("v1.Rule", &json).expect("it is sound");
        let told = (rule.name.as_deref(), rule.resource, rule.priority);
        assert_eq!(told, (Some("limit"), 1, Some(3)));
        let told = (rule.disable, rule.regex_combine, rule.action);
        assert_eq!(told, (Some(false), Some(true), None));
        assert_eq!(rule.amounts[0].max_amount, Some(10));
        let duration = rule.amounts[0].valid_duration.expect("it has one");
        assert_eq!((duration.seconds, duration.nanos), (1, 5));
        assert_eq!(rule.labels["zone"].value.as_deref(), Some("a"));
    }

    #[test]
    fn the_protocols_own_json_is_read_where_it_stands_instead() {
        let json = json!({"name": "limit", "amounts": [{"max_amount": 10, "validDuration": "1s"}]});
        let rule: v1::Rule = read("v1.Rule", &json).expect("it is sound");
        assert_eq!((rule.name.as_deref(), rule.amounts[0].max_amount), (Some("limit"), Some(10)));
        assert_eq!(rule.amounts[0].valid_duration.expect("it has one").seconds, 1);
    }

    #[test]
    fn an_any_has_its_bytes_in_base64() {
        let selector = json!({"type_url": "u/v1.X", "value": "AQI="});
        let json = json!({"entries": [{"type": "t", "selector": selector}]});
        let group: v1::LaneGroup = read("v1.LaneGroup", &json).expect("it is sound");
        let selector = group.entries[0].selector.clone().expect("it has one");
        assert_eq!((selector.type_url.as_str(), &selector.value[..]), ("u/v1.X", &[1, 2][..]));
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_place() {
        let table = [
            (json!({"amounts": {}}), "v1.Rule.amounts"),
            (json!({"amounts": [{"maxAmount": {"value": -1}}]}), "UInt32Value.value"),
            (json!({"labels": []}), "v1.Rule.labels"),
            (json!({"resource": "NONE"}), "v1.Rule.resource"),
        ];
        for (json, place) in table {
            let error =
                read::<v1::Rule>("v1.Rule", &json).expect_err("it does not fit").to_string();
            assert!(error.contains(place), "{json}: {error}");
        }
    }
}
