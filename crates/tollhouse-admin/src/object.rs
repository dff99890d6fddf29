//! Helpers for JSON objects.

use serde_json::{Map, Value};
use tollhouse_model::REVISION_FIELDS;

pub(crate) type Fields = Map<String, Value>;

/// Removes the revision fields: clients may send them, but the store assigns them.
pub(crate) fn drop_revisions(fields: &mut Fields) {
    for name in REVISION_FIELDS {
        fields.shift_remove(name);
    }
}

/// Returns an id as text, from a JSON string or number.
pub(crate) fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(match number.as_f64() {
            Some(float) if !number.is_i64() && !number.is_u64() && float.fract() == 0.0 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        }),
        _ => None,
    }
}

/// Returns the id in the field `name`, as text.
pub(crate) fn id_of(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(id_text)
}

/// Returns the type name of a value in error messages. The names are those of Lua, as in APISIX.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        // lua-cjson decodes `null` as light userdata.
        Value::Null => "userdata",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_text_or_numbers() {
        let table = [
            (json!("a"), Some("a")),
            (json!(1), Some("1")),
            (json!(1.0), Some("1")),
            (json!(1.5), Some("1.5")),
            (json!(null), None),
            (json!([1]), None),
        ];
        for (value, expected) in table {
            assert_eq!(id_text(&value).as_deref(), expected, "{value}");
        }
    }
}
