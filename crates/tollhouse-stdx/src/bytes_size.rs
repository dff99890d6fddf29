//! Parser and formatter for sizes in bytes: `8KiB`, `8k`, `1MiB`, `1048576`.
//!
//! All units are powers of 1,024, as in nginx and most configuration files. `KB` is rejected
//! because its meaning is disputed.

use thiserror::Error;

/// Reason why a text is not a valid size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizeError {
    #[error("a size is missing; write a number with a unit, such as 8KiB")]
    Empty,
    /// The text does not begin with a whole number.
    #[error("{0:?} does not begin with a whole number; write for example 8KiB")]
    NoNumber(String),
    #[error("unknown unit {0:?}; use B, KiB, MiB, GiB or k, m, g")]
    UnknownUnit(String),
    /// The size does not fit into 64 bits.
    #[error("{0:?} is more than the largest size")]
    TooLarge(String),
}

/// Maximum number of characters of an invalid text repeated in a message.
const QUOTED_CHARS_MAX: usize = 40;

/// Units by descending size, in their printed form.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Parses a size. Units are case-insensitive and may follow a space.
///
/// # Errors
/// If the text is invalid; the message is for its author.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SizeError::Empty);
    }
    let digits_end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    if digits.is_empty() {
        return Err(SizeError::NoNumber(quoted(text)));
    }
    let unit = unit.trim_start();
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(SizeError::UnknownUnit(quoted(unit))),
    };
    let number: Option<u64> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| SizeError::TooLarge(quoted(text)))
}

/// Formats a size in the largest unit without a fraction: `8KiB`, `1500B`.
pub fn format(bytes: u64) -> String {
    let whole = |unit: u64| bytes != 0 && bytes.is_multiple_of(unit);
    let (name, unit) = UNITS.into_iter().find(|(_, unit)| whole(*unit)).unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let table = [
            ("0", Ok(0)),
            ("1048576", Ok(1 << 20)),
            ("512B", Ok(512)),
            ("8KiB", Ok(8 << 10)),
            ("8k", Ok(8 << 10)),
            (" 8 kib ", Ok(8 << 10)),
            ("1MiB", Ok(1 << 20)),
            ("10m", Ok(10 << 20)),
            ("2G", Ok(2 << 30)),
            ("", Err(SizeError::Empty)),
            ("  ", Err(SizeError::Empty)),
            ("KiB", Err(SizeError::NoNumber("KiB".into()))),
            ("-1", Err(SizeError::NoNumber("-1".into()))),
            ("1.5MiB", Err(SizeError::UnknownUnit(".5MiB".into()))),
            ("8KB", Err(SizeError::UnknownUnit("KB".into()))),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(SizeError::TooLarge("18446744073709551616".into()))),
            ("17179869184GiB", Err(SizeError::TooLarge("17179869184GiB".into()))),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_written_size_reads_back() {
        let table = [
            (0, "0B"),
            (1, "1B"),
            (1_500, "1500B"),
            (8 << 10, "8KiB"),
            (1 << 20, "1MiB"),
            (5 << 30, "5GiB"),
            (u64::MAX, "18446744073709551615B"),
        ];
        for (bytes, text) in table {
            assert_eq!(format(bytes), text);
            assert_eq!(parse(text), Ok(bytes));
        }
    }
}
