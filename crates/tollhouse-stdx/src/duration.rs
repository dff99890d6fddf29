//! Parser and formatter for durations: `500ms`, `60s`, `1m30s`, and plain numbers of seconds.

use std::time::Duration;

use thiserror::Error;

/// Reason why a text is not a valid duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("a duration is missing; write a number with a unit, such as 60s")]
    Empty,
    /// A part does not begin with a number.
    #[error("{0:?} does not begin with a number; write for example 1m30s")]
    NoNumber(String),
    #[error("unknown unit {0:?}; use ms, s, m, h or d")]
    UnknownUnit(String),
    /// The units do not descend, as in `30s1m`, or a later part has no unit.
    #[error("{0:?} has its units out of order; write the largest first, each once")]
    OutOfOrder(String),
    #[error("{0:?} is longer than a hundred years")]
    TooLong(String),
}

/// Maximum duration in milliseconds (100 years of 365 days). Sums with it cannot overflow, and a
/// larger number indicates a wrong unit.
const DURATION_MS_MAX: u64 = 100 * 365 * DAY_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const SECOND_MS: u64 = 1_000;

/// Maximum number of characters of an invalid text repeated in a message.
const QUOTED_CHARS_MAX: usize = 40;

/// Units with their milliseconds, longest first.
const UNITS: [(&str, u64); 5] =
    [("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS), ("ms", 1)];

/// Parses a duration with millisecond precision; a plain number means seconds and may have a
/// fraction.
///
/// # Errors
/// If the text is invalid; the message is for its author.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut total_ms: u64 = 0;
    let mut smallest_unit_ms = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_at(rest, |letter| !letter.is_ascii_digit() && letter != '.');
        let (unit, after) = split_at(after, |letter| letter.is_ascii_digit());
        let unit_ms = match unit.trim() {
            "" if number.len() == text.len() => SECOND_MS,
            "" => return Err(DurationError::OutOfOrder(quoted(text))),
            unit => unit_ms(unit).ok_or_else(|| DurationError::UnknownUnit(quoted(unit)))?,
        };
        // Units must descend, each at most once: `5s 1m` is more likely a mistake than a sum.
        if unit_ms >= smallest_unit_ms {
            return Err(DurationError::OutOfOrder(quoted(text)));
        }
        smallest_unit_ms = unit_ms;
        let part_ms = part_ms(number, unit_ms).ok_or_else(|| part_error(number, text))?;
        total_ms = total_ms.saturating_add(part_ms);
        rest = after;
    }
    if total_ms > DURATION_MS_MAX {
        return Err(DurationError::TooLong(quoted(text)));
    }
    Ok(Duration::from_millis(total_ms))
}

/// Returns the whole milliseconds of a duration, at most `u64::MAX`. Cheaper than
/// [`Duration::as_millis`], which computes with 128 bits.
#[inline]
pub fn to_ms(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000).saturating_add(u64::from(duration.subsec_millis()))
}

/// Formats a duration with millisecond precision, largest unit first: `1m30s`, `500ms`, `0s`.
pub fn format(duration: Duration) -> String {
    let mut rest_ms = to_ms(duration);
    if rest_ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, unit_ms) in UNITS {
        if rest_ms >= unit_ms {
            text.push_str(&(rest_ms / unit_ms).to_string());
            text.push_str(name);
            rest_ms %= unit_ms;
        }
    }
    text
}

fn unit_ms(name: &str) -> Option<u64> {
    UNITS.into_iter().find(|(known, _)| *known == name).map(|(_, unit_ms)| unit_ms)
}

/// Multiplies a decimal number by the unit, rounded down to milliseconds; `None` if it is invalid
/// or too large.
fn part_ms(number: &str, unit_ms: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return None;
    }
    let whole_ms = whole.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    let mut fraction_ms = 0;
    let mut place_ms = unit_ms;
    for digit in fraction.bytes() {
        place_ms /= 10;
        fraction_ms += u64::from(digit - b'0') * place_ms;
    }
    whole_ms.checked_add(fraction_ms)
}

fn part_error(number: &str, text: &str) -> DurationError {
    let is_number = number.bytes().all(|digit| digit.is_ascii_digit()) && !number.is_empty();
    if is_number {
        return DurationError::TooLong(quoted(text));
    }
    DurationError::NoNumber(quoted(text))
}

fn split_at(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        let table = [
            ("0", Ok(0)),
            ("60", Ok(60_000)),
            ("0.5", Ok(500)),
            ("500ms", Ok(500)),
            ("60s", Ok(60_000)),
            (" 60 s ", Ok(60_000)),
            ("1.5s", Ok(1_500)),
            ("1m30s", Ok(90_000)),
            ("1h", Ok(3_600_000)),
            ("1d1h1m1s1ms", Ok(90_061_001)),
            ("", Err(DurationError::Empty)),
            ("s", Err(DurationError::NoNumber("s".into()))),
            ("-1s", Err(DurationError::UnknownUnit("-".into()))),
            ("1..5s", Err(DurationError::NoNumber("1..5s".into()))),
            ("1.s", Err(DurationError::NoNumber("1.s".into()))),
            ("1 fortnight", Err(DurationError::UnknownUnit("fortnight".into()))),
            ("30s1m", Err(DurationError::OutOfOrder("30s1m".into()))),
            ("1m1m", Err(DurationError::OutOfOrder("1m1m".into()))),
            ("1m30", Err(DurationError::OutOfOrder("1m30".into()))),
            ("99999999999999999999s", Err(DurationError::TooLong("99999999999999999999s".into()))),
            ("36501d", Err(DurationError::TooLong("36501d".into()))),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn a_written_duration_reads_back() {
        let table = [
            (0, "0s"),
            (500, "500ms"),
            (1_500, "1s500ms"),
            (60_000, "1m"),
            (90_000, "1m30s"),
            (90_061_001, "1d1h1m1s1ms"),
        ];
        for (milliseconds, text) in table {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(format(duration), text);
            assert_eq!(parse(text), Ok(duration));
        }
    }
}
