//! Identifiers of objects: a string of 1 to 64 characters, or an integer written as one.

use std::fmt;

use serde_json::Value;
use smol_str::SmolStr;

use crate::limits::ID_CHARS_MAX;
use crate::problem::{Problem, Problems};
use crate::reader::{FLOAT_INTEGER_MAX, pattern_reason, type_name};

/// Pattern of valid ids, as in APISIX's schema.
const PATTERN: &str = "^[a-zA-Z0-9-_.]+$";

/// The id of a route, service, upstream, …; cheap to clone, ordered as text. Up to 23 bytes are
/// stored inline, so that comparing ids follows no pointer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(SmolStr);

impl Id {
    /// Wraps text that the caller has checked; the `parse` functions check documents.
    pub fn new(text: impl Into<SmolStr>) -> Self {
        Self(text.into())
    }

    /// Reads an id from a document; reports problems at `path`.
    pub fn parse(value: &Value, path: &str, problems: &mut Problems) -> Option<Self> {
        match text_of(value) {
            Ok(text) => Some(Self::new(text)),
            Err(NotAnId(reason)) => {
                let hint = "an id is 1 to 64 of a-z, A-Z, 0-9, - _ . or an integer from 1";
                problems.push(Problem::error(path, reason).with_value(value).with_hint(hint));
                None
            }
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a value is not an id, in the words of a schema.
struct NotAnId(String);

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

fn text_of(value: &Value) -> Result<String, NotAnId> {
    match value {
        Value::String(text) => match reason_against(text) {
            None => Ok(text.clone()),
            Some(reason) => Err(NotAnId(reason)),
        },
        Value::Number(number) => {
            // Floats from this limit on are not exact integers.
            let exact = |float: &f64| float.fract() == 0.0 && *float < FLOAT_INTEGER_MAX;
            let float = number.as_f64().filter(exact);
            let integer = number.as_u64().or(float.map(|float| float as u64));
            match integer {
                Some(0) => Err(NotAnId(format!("expected {number} to be at least 1"))),
                Some(integer) => Ok(integer.to_string()),
                None => Err(NotAnId("wrong type: expected integer, got number".to_owned())),
            }
        }
        _ => {
            let got = type_name(value);
            Err(NotAnId(format!("wrong type: expected one of string, integer, got {got}")))
        }
    }
}

fn reason_against(text: &str) -> Option<String> {
    let count = text.chars().count();
    if count == 0 {
        return Some("string too short, expected at least 1, got 0".to_owned());
    }
    if count > ID_CHARS_MAX {
        return Some(format!("string too long, expected at most {ID_CHARS_MAX}, got {count}"));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (!text.bytes().all(allowed)).then(|| pattern_reason(PATTERN, text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_short_texts_or_positive_integers() {
        let table = [
            (json!("a-B_9.z"), Some("a-B_9.z")),
            (json!(1), Some("1")),
            (json!(3.0), Some("3")),
            (json!("a".repeat(64)), Some(&*"a".repeat(64))),
            (json!("a".repeat(65)), None),
            (json!(""), None),
            (json!("a b"), None),
            (json!("é"), None),
            (json!(0), None),
            (json!(-4), None),
            (json!(-4.0), None),
            (json!(1.5), None),
            (json!(null), None),
            (json!(["a"]), None),
        ]
        .map(|(value, expected)| (value, expected.map(str::to_owned)));
        for (value, expected) in table {
            let mut problems = Problems::new();
            let id = Id::parse(&value, "id", &mut problems);
            assert_eq!(id.as_ref().map(Id::as_str), expected.as_deref(), "{value}");
            assert_eq!(problems.len(), usize::from(expected.is_none()), "{value}");
        }
    }
}
