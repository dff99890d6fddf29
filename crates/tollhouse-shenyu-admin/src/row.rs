//! A row of a table: a JSON object whose members are read as leniently as clients of five languages
//! write them.

use serde_json::{Map, Value};

/// One object, with what this build does not know of it.
pub(crate) type Row = Map<String, Value>;

/// A member as text; numbers and truth as they are written. `None` where absent, `null` or a structure.
pub(crate) fn text(row: &Row, name: &str) -> Option<String> {
    match row.get(name)? {
        Value::String(text) => Some(text.clone()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// As [`text`], but blank is absent.
pub(crate) fn filled(row: &Row, name: &str) -> Option<String> {
    text(row, name).filter(|text| !text.trim().is_empty())
}

/// A member that holds JSON written as text. Clients that send the structure itself mean its text.
pub(crate) fn document(row: &Row, name: &str) -> Option<String> {
    match row.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// A member as truth; text counts by its word.
pub(crate) fn flag(row: &Row, name: &str) -> Option<bool> {
    match row.get(name)? {
        Value::Bool(value) => Some(*value),
        Value::String(text) => flag_of(text),
        Value::Number(number) => number.as_i64().map(|number| number != 0),
        _ => None,
    }
}

/// What a text says as truth, by its word or as a number.
pub(crate) fn flag_of(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// A member as a whole number, in quotes or not.
pub(crate) fn number(row: &Row, name: &str) -> Option<i64> {
    match row.get(name)? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The objects of a list; what is no object is left out.
pub(crate) fn rows<'a>(row: &'a Row, name: &str) -> impl Iterator<Item = &'a Row> + use<'a> {
    row.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// The texts of a list, or of one text that stands in its place.
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
