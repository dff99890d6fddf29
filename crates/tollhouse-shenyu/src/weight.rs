//! Cost of parsing JSON, estimated before parsing. A parsed value takes some seventy bytes, so that
//! a value of two characters grows about forty-fold. The estimate does not check that the text is
//! JSON.

/// Maximum number of values in a body that is parsed. They take some megabytes, and a few
/// milliseconds of a worker thread.
const BODY_VALUES_MAX: usize = 1 << 16;

/// Estimates the number of values in a JSON text from the separators outside strings; never too
/// low.
#[must_use]
pub fn values_at_most(text: &[u8]) -> usize {
    let mut count = 1;
    let mut in_string = false;
    let mut is_escaped = false;
    for &byte in text {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
        } else {
            match byte {
                b'"' => in_string = true,
                b',' | b'[' | b'{' => count += 1,
                _ => {}
            }
        }
    }
    count
}

/// Whether a body has at most `BODY_VALUES_MAX` values, so that it may be parsed.
#[must_use]
pub fn is_light(body: &[u8]) -> bool {
    // Each value takes at least two bytes.
    body.len() <= 2 * BODY_VALUES_MAX || values_at_most(body) <= BODY_VALUES_MAX
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn count(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
            Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
            _ => 1,
        }
    }

    #[test]
    fn no_value_is_overlooked_and_strings_are_one() {
        for (text, expected) in [
            ("1", 1),
            ("\"a,b[c{\"", 1),
            (r#""a\",b""#, 1),
            (r#""a\\""#, 1),
            ("[1,1,1]", 4),
            ("[]", 2),
            (r#"{"a":[1,{"b":",,"}],"c":null}"#, 6),
            (r#"["\\\"",2]"#, 3),
        ] {
            let value: Value = serde_json::from_str(text).expect("JSON");
            assert!(values_at_most(text.as_bytes()) >= count(&value), "{text}");
            assert_eq!(values_at_most(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn long_texts_of_few_values_are_light() {
        assert!(is_light(format!("[\"{}\"]", ",".repeat(1 << 20)).as_bytes()));
        assert!(!is_light(format!("[1{}]", ",1".repeat(1 << 20)).as_bytes()));
        assert!(is_light(format!("[1{}]", ",1".repeat(1 << 10)).as_bytes()));
    }
}
