//! Times and sizes in Go's notation.

use std::time::Duration;

/// Largest count; larger values could overflow.
pub(super) const COUNT_MAX: u64 = 999_999_999;

const TIME_UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
];
/// Maximum time, a hundred years in nanoseconds; sums of such times do not overflow.
const NANOSECONDS_MAX: f64 = 100.0 * 365.0 * 86_400.0 * 1e9;

const SIZE_UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("kb", 1_000),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
];

/// Parses a time such as `300ms` or `1m30.5s`; `0` needs no unit.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    if text == "0" || text.is_empty() {
        return Ok(Duration::ZERO);
    }
    let wrong =
        || format!("`{text}` is not a time; write it with units, such as 300ms, 10s, 1m30s");
    let mut nanoseconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let (number, after) =
            rest.split_at(rest.find(|letter| !is_number(letter)).ok_or_else(wrong)?);
        let end = after.find(is_number).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let number = number.parse::<f64>().map_err(|_| wrong())?;
        let (_, scale) = TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        nanoseconds += number * scale;
        rest = after;
    }
    if nanoseconds > NANOSECONDS_MAX {
        return Err(format!("`{text}` is longer than a hundred years"));
    }
    Ok(Duration::from_nanos(nanoseconds.round() as u64))
}

/// Parses a size such as `4194304`, `10MB` or `4 MiB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size, such as 4194304, 10MB or 4MiB");
    let end =
        text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.' || letter == ','));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let number = number.replace(',', "").parse::<f64>().map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_lowercase();
    let (_, scale) = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let size = number * *scale as f64;
    if !size.is_finite() || size > u64::MAX as f64 {
        return Err(wrong());
    }
    Ok(size as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_reads_them() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("10s", 10_000_000_000),
            ("1m30.5s", 90_500_000_000),
            ("1.5h", 5_400_000_000_000),
            ("250us", 250_000),
            ("250µs", 250_000),
            (".5ms", 500_000),
            ("7ns", 7),
        ] {
            assert_eq!(time(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
        for text in ["10", "s", "10 s", "-1s", "1x", "1.2.3s", "9999999999h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_units() {
        for (text, size) in [("10", 10), ("10MB", 10_000_000), ("4 MiB", 4 << 20), ("1.5k", 1_500)]
        {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "MB", "10 parsecs", "1e9"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
