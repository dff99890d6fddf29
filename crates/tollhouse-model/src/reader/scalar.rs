//! Texts, numbers, booleans and lists of unique items. Errors use the wording of APISIX's schemas.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Number, Value};

use super::Reader;
use crate::limits::{PROBLEM_VALUE_CHARS_MAX, SECONDS_MAX};

/// First integer from which a 64-bit float no longer represents every integer exactly (2^53).
pub(crate) const FLOAT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

impl Reader<'_> {
    pub(crate) fn wrong_type(&mut self, value: &Value, expected: &str) {
        let reason = format!("wrong type: expected {expected}, got {}", type_name(value));
        let hint = match value {
            Value::Null => "leave the field out instead of giving null",
            Value::String(text) if expected != "object" && expected != "array" => {
                quoted_scalar_hint(text)
            }
            _ => "",
        };
        self.error(value, reason, hint);
    }

    pub(crate) fn text<'v>(&mut self, value: &'v Value) -> Option<&'v str> {
        let Value::String(text) = value else {
            self.wrong_type(value, "string");
            return None;
        };
        Some(text)
    }

    /// Reads a text with a length in `chars`, counted in Unicode scalar values.
    pub(crate) fn text_within<'v>(
        &mut self,
        value: &'v Value,
        chars: RangeInclusive<usize>,
    ) -> Option<&'v str> {
        let text = self.text(value)?;
        let reason = length_problem(text, &chars);
        if let Some(reason) = reason {
            self.error(value, reason, "");
            return None;
        }
        Some(text)
    }

    /// Reads a text that must not appear in any message.
    pub(crate) fn secret_within<'v>(
        &mut self,
        value: &'v Value,
        chars: RangeInclusive<usize>,
    ) -> Option<&'v str> {
        let reason = match value {
            Value::String(text) => match length_problem(text, &chars) {
                None => return Some(text),
                Some(reason) => reason,
            },
            _ => format!("wrong type: expected string, got {}", type_name(value)),
        };
        self.error_unquoted(reason, "");
        None
    }

    /// Reads an integer, which may be written as a float (`3.0`).
    pub(crate) fn integer(&mut self, value: &Value, range: RangeInclusive<i64>) -> Option<i64> {
        let Value::Number(number) = value else {
            self.wrong_type(value, "integer");
            return None;
        };
        let Some(integer) = whole(number) else {
            // A number beyond 64 bits is whole, so the reported fault is its size and not its type.
            let huge = number.as_f64().is_some_and(|float| float.abs() >= FLOAT_INTEGER_MAX);
            if huge {
                let shown = number_text(number);
                let reason = format!("expected {shown} to be at most {}", range.end());
                self.error(value, reason, "");
            } else {
                self.wrong_type(value, "integer");
            }
            return None;
        };
        if integer < *range.start() {
            let reason = format!("expected {integer} to be at least {}", range.start());
            self.error(value, reason, "");
            return None;
        }
        if integer > *range.end() {
            let reason = format!("expected {integer} to be at most {}", range.end());
            self.error(value, reason, "");
            return None;
        }
        Some(integer)
    }

    pub(crate) fn boolean(&mut self, value: &Value) -> Option<bool> {
        let Value::Bool(boolean) = value else {
            self.wrong_type(value, "boolean");
            return None;
        };
        Some(*boolean)
    }

    pub(crate) fn seconds_above_zero(&mut self, value: &Value) -> Option<Duration> {
        let seconds = self.seconds(value)?;
        if seconds.is_zero() {
            let shown = value.as_number().map(number_text).unwrap_or_default();
            self.error(value, format!("expected {shown} to be greater than 0"), "");
            return None;
        }
        Some(seconds)
    }

    /// Reads seconds, zero included, with a resolution of nanoseconds.
    pub(crate) fn seconds(&mut self, value: &Value) -> Option<Duration> {
        let Value::Number(number) = value else {
            self.wrong_type(value, "number");
            return None;
        };
        let seconds = number.as_f64().unwrap_or(f64::INFINITY);
        let shown = number_text(number);
        if seconds < 0.0 {
            self.error(value, format!("expected {shown} to be at least 0"), "");
            return None;
        }
        if seconds > SECONDS_MAX {
            self.error(value, format!("expected {shown} to be at most {SECONDS_MAX}"), "");
            return None;
        }
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Reads one of a closed set of words.
    pub(crate) fn one_of<T: Copy>(&mut self, value: &Value, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(value)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let hint = format!("use one of {}", known.join(", "));
            self.error(value, "matches none of the enum values", &hint);
        }
        found
    }

    /// Reads a list without equal items.
    pub(crate) fn unique_list<'v>(&mut self, value: &'v Value) -> Option<&'v [Value]> {
        let items = self.list(value)?;
        let mut seen = HashMap::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            if let Some(first) = seen.insert(item, index) {
                let reason = format!(
                    "expected unique items but items {} and {} are equal",
                    first + 1,
                    index + 1
                );
                self.error(value, reason, "");
                return None;
            }
        }
        Some(items)
    }

    /// Reads a list without equal items that is not empty.
    pub(crate) fn unique_list_not_empty<'v>(&mut self, value: &'v Value) -> Option<&'v [Value]> {
        let items = self.unique_list(value)?;
        if items.is_empty() {
            self.error(value, "expect array to have at least 1 items", "leave the field out");
            return None;
        }
        Some(items)
    }
}

/// Returns the message for a text that does not match a pattern.
pub(crate) fn pattern_reason(pattern: &str, text: &str) -> String {
    let shown: String = text.chars().take(PROBLEM_VALUE_CHARS_MAX).collect();
    format!("failed to match pattern \"{pattern}\" with \"{shown}\"")
}

/// Returns the type name of a value, as in schemas.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn whole(number: &Number) -> Option<i64> {
    if let Some(integer) = number.as_i64() {
        return Some(integer);
    }
    let float = number.as_f64()?;
    let exact = float.fract() == 0.0 && float.abs() < FLOAT_INTEGER_MAX;
    // In range because of the check above, so the conversion is exact.
    exact.then_some(float as i64)
}

/// Formats a number without a trailing `.0`.
fn number_text(number: &Number) -> String {
    whole(number).map_or_else(|| number.to_string(), |integer| integer.to_string())
}

fn length_problem(text: &str, chars: &RangeInclusive<usize>) -> Option<String> {
    let count = text.chars().count();
    if count < *chars.start() {
        return Some(format!("string too short, expected at least {}, got {count}", chars.start()));
    }
    if count > *chars.end() {
        return Some(format!("string too long, expected at most {}, got {count}", chars.end()));
    }
    None
}

fn quoted_scalar_hint(text: &str) -> &'static str {
    let scalar = text == "true" || text == "false" || text.parse::<f64>().is_ok();
    if scalar { "remove the quotes" } else { "" }
}
