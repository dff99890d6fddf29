//! Rows of tables: JSON objects whose members are read leniently, because clients in five languages
//! write them differently.

use serde_json::{Map, Value};

/// Object with all its members, including those that this build does not know.
pub(crate) type Row = Map<String, Value>;

/// Returns a member as text; numbers and booleans as they are written. `None` if it is absent,
/// `null`, an array or an object.
pub(crate) fn text(row: &Row, name: &str) -> Option<String> {
    match row.get(name)? {
        Value::String(text) => Some(text.clone()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns a member as [`text`] does, but `None` for blank text.
pub(crate) fn filled(row: &Row, name: &str) -> Option<String> {
    text(row, name).filter(|text| !text.trim().is_empty())
}

/// Returns a member that contains JSON as text. Some clients send the structure itself, which is
/// converted to text.
pub(crate) fn document(row: &Row, name: &str) -> Option<String> {
    match row.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// Returns a member as a boolean; accepts text and numbers as [`flag_of`] does.
pub(crate) fn flag(row: &Row, name: &str) -> Option<bool> {
    match row.get(name)? {
        Value::Bool(value) => Some(*value),
        Value::String(text) => flag_of(text),
        Value::Number(number) => number.as_i64().map(|number| number != 0),
        _ => None,
    }
}

/// Parses a boolean: `true` or `false` in any case, or `1` or `0`.
pub(crate) fn flag_of(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Returns a member as a whole number, quoted or not.
pub(crate) fn number(row: &Row, name: &str) -> Option<i64> {
    match row.get(name)? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Lists the objects of an array member; other elements are skipped.
pub(crate) fn rows<'a>(row: &'a Row, name: &str) -> impl Iterator<Item = &'a Row> + use<'a> {
    row.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// Returns the texts of an array, or a single text as a list of one.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        Value::Array(values) => values.iter().filter_map(one).collect(),
        value => one(value).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_read_as_every_client_writes_them() {
        let value = json!({"a": "8080", "b": "true", "c": "", "d": null, "e": {"x": 1}, "f": 7, "g": false});
        let row = value.as_object().unwrap();
        assert_eq!(number(row, "a"), Some(8080));
        assert_eq!(flag(row, "b"), Some(true));
        assert_eq!(flag(row, "c"), None);
        assert_eq!(filled(row, "c"), None);
        assert_eq!(text(row, "d"), None);
        assert_eq!(document(row, "e").as_deref(), Some(r#"{"x":1}"#));
        assert_eq!(text(row, "f").as_deref(), Some("7"));
        assert_eq!(flag(row, "g"), Some(false));
    }
}
