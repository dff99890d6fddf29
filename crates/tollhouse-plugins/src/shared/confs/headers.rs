//! Header changes in a conf, for requests and answers: either `{"add": …, "set": …, "remove":
//! […]}`, or the older form, a map of headers to set.

use serde_json::{Map, Value};
use tollhouse_plugin::ConfError;

use crate::shared::confs::lua_number::lua_number;

/// Whether a conf has the newer form.
pub(crate) fn is_structured(headers: &Map<String, Value>) -> bool {
    let is_table = |name| headers.get(name).is_some_and(|v: &Value| v.is_object() || v.is_array());
    is_table("add") || is_table("set") || is_table("remove")
}

/// Returns names with values; values that are neither text nor number are skipped.
pub(crate) fn pairs(map: Option<&Value>) -> Vec<(String, String)> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(name, value)| Some((name.clone(), text_of(value)?))).collect()
}

/// Returns names, each with its value or list of values.
pub(crate) fn lists(map: Option<&Value>) -> Vec<(String, Vec<String>)> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    let values = |value: &Value| match value {
        Value::Array(values) => values.iter().filter_map(text_of).collect(),
        value => text_of(value).into_iter().collect(),
    };
    map.map(|(name, value)| (name.clone(), values(value))).collect()
}

/// Returns a header's value as text, with numbers as Lua prints them.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => number.as_f64().map(lua_number),
        _ => None,
    }
}

/// Returns the names in a list.
pub(crate) fn names(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Checks a map of the older form for faults that the schema cannot express.
pub(crate) fn check_map(headers: &Map<String, Value>) -> Result<(), ConfError> {
    for (name, value) in headers {
        if text_of(value).is_none() {
            return Err("invalid type as header value".into());
        }
        if name.is_empty() {
            return Err("invalid field length in header".into());
        }
    }
    Ok(())
}

/// Whether a name is valid in a header line.
pub(crate) fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

/// Whether a value is valid in a header line.
pub(crate) fn is_value(value: &str) -> bool {
    value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// Returns the schema of a map from names to texts or numbers.
pub(crate) fn map_schema() -> Value {
    serde_json::json!({
        "type": "object",
        "minProperties": 1,
        "patternProperties": {
            "^[^:]+$": { "oneOf": [{ "type": "string" }, { "type": "number" }] },
        },
    })
}

/// Returns the schema of a map from names to values: a text, a number, or a list of texts and
/// numbers.
pub(crate) fn lists_schema() -> Value {
    let one = serde_json::json!([{ "type": "string" }, { "type": "number" }]);
    let list = serde_json::json!({ "type": "array", "minItems": 1, "items": { "oneOf": one } });
    serde_json::json!({
        "type": "object",
        "minProperties": 1,
        "patternProperties": { "^[^:]+$": { "oneOf": [one[0], one[1], list] } },
    })
}

/// Returns the schema of a list of names.
pub(crate) fn names_schema() -> Value {
    serde_json::json!({
        "type": "array",
        "minItems": 1,
        "items": { "type": "string", "pattern": "^[^:]+$" },
    })
}
