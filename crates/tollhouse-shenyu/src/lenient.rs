//! Deserializers as lenient as Java's: `null` counts as absent, and numbers and booleans may be
//! quoted.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Value;

/// Reads a value; `null` yields the type's default.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a whole number, quoted or not; `None` for `null` and blank text.
pub fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        value => match whole(&value) {
            Some(number) => Ok(Some(number)),
            None => Err(D::Error::custom("expected a whole number")),
        },
    }
}

/// Reads an optional whole number. Any other value yields `None` instead of an error.
pub fn hint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(whole(&Value::deserialize(deserializer)?))
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads an optional boolean. As with Java's `Boolean.parseBoolean`, every text but `true` is
/// false, such as the `undefined` of ShenYu's dashboard. Values of other types yield `None`.
pub fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Bool(value) => Some(value),
        Value::String(text) => Some(text.trim().eq_ignore_ascii_case("true")),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    })
}

/// Reads a boolean, quoted or not; `None` for `null`.
pub fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(value)),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
        _ => Err(D::Error::custom("expected true or false")),
    }
}

/// Reads text. Numbers and booleans are taken as written, because forms send some members either
/// way.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        value @ (Value::Number(_) | Value::Bool(_)) => Ok(Some(value.to_string())),
        Value::Array(_) | Value::Object(_) => Err(D::Error::custom("expected text")),
    }
}

/// Reads a boolean; `null` is true.
pub fn or_true<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(boolean(deserializer)?.unwrap_or(true))
}

/// Reads a boolean; `null` is false.
pub fn or_false<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(boolean(deserializer)?.unwrap_or(false))
}

/// Reads a whole number; `null` is 0.
pub fn or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(integer(deserializer)?.unwrap_or(0))
}
