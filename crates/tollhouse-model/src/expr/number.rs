//! Conversion of text to numbers in conditions: decimal with an exponent, or hexadecimal, with
//! surrounding blanks. `inf` and `nan` are not numbers.

/// Maximum length of a text that is converted, in bytes. Conversion costs the length of the text,
/// and no useful number is longer.
const NUMBER_BYTES_MAX: usize = 64;

/// Converts a text; `None` if it is not a number.
pub(super) fn number_of(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    if text.len() > NUMBER_BYTES_MAX {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hexadecimal) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return hexadecimal_of(hexadecimal).map(|number| sign * number);
    }
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    digits.parse::<f64>().ok().map(|number| sign * number)
}

fn hexadecimal_of(digits: &str) -> Option<f64> {
    if digits.is_empty() {
        return None;
    }
    digits.chars().try_fold(0.0, |number, digit| {
        digit.to_digit(16).map(|digit| number * 16.0 + f64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_other_texts_are_not() {
        for (text, expected) in [
            ("0", Some(0.0)),
            ("12", Some(12.0)),
            ("-1.5", Some(-1.5)),
            ("+3", Some(3.0)),
            (" 7\t", Some(7.0)),
            ("1e3", Some(1000.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("0x1F", Some(31.0)),
            ("-0Xa", Some(-10.0)),
            ("007", Some(7.0)),
            ("", None),
            (" ", None),
            ("-", None),
            (".", None),
            ("0x", None),
            ("0xg", None),
            ("--1", None),
            ("+-1", None),
            ("12a", None),
            ("1 2", None),
            ("1e", None),
            ("inf", None),
            ("-infinity", None),
            ("nan", None),
        ] {
            assert_eq!(number_of(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(number_of(b"\xff"), None);
        assert_eq!(number_of(&[b'1'; NUMBER_BYTES_MAX + 1]), None);
    }
}
