//! Formatting of names, texts, numbers and types in messages. The format is that of the schema
//! library of APISIX, which prints them as Lua does.

use std::fmt::Write;

use crate::json::Kind;

/// Maximum length of a text quoted in a message, in characters. Handwritten fields are shorter, and
/// a large rejected body must not fill the response.
const QUOTED_CHARS_MAX: usize = 1024;

const DIGITS: i32 = 14;

/// Quotes a text and escapes quotes, backslashes and control characters.
pub(super) fn quoted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(QUOTED_CHARS_MAX) + 2);
    shown.push('"');
    for letter in text.chars().take(QUOTED_CHARS_MAX) {
        match letter {
            '"' | '\\' | '\n' => shown.extend(['\\', letter]),
            control if control.is_ascii_control() => {
                write!(shown, "\\{}", control as u32).expect("writing to a string cannot fail");
            }
            plain => shown.push(plain),
        }
    }
    shown.push('"');
    shown
}

/// Returns the text without quotes, truncated to `QUOTED_CHARS_MAX`.
pub(super) fn plain(text: &str) -> &str {
    text.char_indices().nth(QUOTED_CHARS_MAX).map_or(text, |(end, _)| &text[..end])
}

/// Formats a number with at most `DIGITS` significant digits: `1`, `0.5`, `1e+20`.
pub(super) fn number(value: f64) -> String {
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    if (-4..DIGITS).contains(&exponent) {
        // The exponent is below `DIGITS`, so the difference is not negative.
        let decimals = (DIGITS - 1 - exponent) as usize;
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Returns the Lua type name of a value. Lists and objects are both `table`, and null is
/// `userdata`.
pub(super) fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "userdata",
        Kind::Boolean => "boolean",
        Kind::Number => "number",
        Kind::Text => "string",
        Kind::List | Kind::Object => "table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_lua_quotes_them() {
        let table = [
            ("a b", r#""a b""#),
            (r#"a"b"#, r#""a\"b""#),
            (r"^\S+$", r#""^\\S+$""#),
            ("a\nb", "\"a\\\nb\""),
            ("a\tb\0", r#""a\9b\0""#),
            ("é", "\"é\""),
        ];
        for (text, expected) in table {
            assert_eq!(quoted(text), expected);
        }
        assert_eq!(quoted(&"é".repeat(5000)).chars().count(), QUOTED_CHARS_MAX + 2);
        assert_eq!(plain(&"é".repeat(5000)).chars().count(), QUOTED_CHARS_MAX);
        assert_eq!(plain("é"), "é");
    }

    #[test]
    fn numbers_have_fourteen_digits() {
        let table = [
            (0.0, "0"),
            (1.0, "1"),
            (-5.0, "-5"),
            (100.0, "100"),
            (0.5, "0.5"),
            (0.1 + 0.2, "0.3"),
            (65_536.0, "65536"),
            (4_294_967_296.0, "4294967296"),
            (1e14, "1e+14"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (18_446_744_073_709_551_615.0, "1.844674407371e+19"),
        ];
        for (value, expected) in table {
            assert_eq!(number(value), expected);
        }
    }
}
