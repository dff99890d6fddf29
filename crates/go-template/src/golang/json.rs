//! JSON the way Go's encoder writes it: safe to stand in HTML, numbers with an exponent only where they
//! are very small or very large.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

/// In one line.
pub fn compact(value: &impl Serialize) -> String {
    written(value, CompactFormatter)
}

/// With two spaces a level.
pub fn indented(value: &impl Serialize) -> String {
    written(value, PrettyFormatter::new())
}

fn written(value: &impl Serialize, layout: impl Formatter) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Go(layout));
    value.serialize(&mut serializer).expect("plain data has text keys, and memory takes any text");
    String::from_utf8(bytes).expect("JSON is text")
}

/// A layout with Go's spelling of texts and numbers.
struct Go<F>(F);

impl<F: Formatter> Formatter for Go<F> {
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

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_numbers_are_spelled_as_in_go() {
        for (value, expected) in [
            (json!("<a>&\u{2028}\"\n"), r#""\u003ca\u003e\u0026\u2028\"\n""#),
            (json!(20.0), "20"),
            (json!(0.000_012_3), "0.0000123"),
            (json!(1.5e-7), "1.5e-7"),
            (json!(1e21), "1e+21"),
            (json!({"a": [1, {}], "b": []}), r#"{"a":[1,{}],"b":[]}"#),
        ] {
            assert_eq!(compact(&value), expected);
        }
        assert_eq!(indented(&json!({"a": [1]})), "{\n  \"a\": [\n    1\n  ]\n}");
    }
}
