//! JSON like that of Go's encoder: safe to embed in HTML, with exponents only for very small and
//! very large numbers.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

/// Serializes a value on one line.
pub fn to_text(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Go);
    value.serialize(&mut serializer).expect("plain data has text keys, and memory takes any text");
    String::from_utf8(bytes).expect("JSON is text")
}

/// Formatter of `serde_json`: compact layout, with texts and numbers written as in Go.
struct Go;

impl Formatter for Go {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        const PLAIN: std::ops::Range<f64> = 1e-6..1e21;
        if value == 0.0 || PLAIN.contains(&value.abs()) {
            return write!(writer, "{value}");
        }
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                write!(writer, "{digits}e+{exponent}")
            }
            _ => writer.write_all(text.as_bytes()),
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        let is_special = |letter: char| matches!(letter, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
        while let Some(at) = rest.find(is_special) {
            let (before, from) = rest.split_at(at);
            let letter = from.chars().next().unwrap_or_default();
            write!(writer, "{before}\\u{:04x}", u32::from(letter))?;
            rest = &from[letter.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_numbers_are_written_as_in_go() {
        for (value, expected) in [
            (json!("<a>&\u{2028}\"\n"), r#""\u003ca\u003e\u0026\u2028\"\n""#),
            (json!(20.0), "20"),
            (json!(0.000_012_3), "0.0000123"),
            (json!(1.5e-7), "1.5e-7"),
            (json!(1e21), "1e+21"),
            (json!({"a": [1, {}], "b": []}), r#"{"a":[1,{}],"b":[]}"#),
        ] {
            assert_eq!(to_text(&value), expected);
        }
    }
}
