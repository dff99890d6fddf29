//! Durations with nanosecond precision, as used in load tests: `90us`, `1.5ms`, and all forms of
//! [`crate::duration`].

use std::time::Duration;

const MICROSECOND: Duration = Duration::from_micros(1);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// Parses a duration such as `30s`, `1m30s`, `1.5ms`, `90us`, `250ns`; a plain number means
/// seconds.
///
/// # Errors
/// If the text is invalid; the message is for its author.
pub fn parse(text: &str) -> Result<Duration, String> {
    for (suffix, unit) in [("us", MICROSECOND), ("µs", MICROSECOND), ("ns", NANOSECOND)] {
        if let Some(number) = text.trim().strip_suffix(suffix) {
            return small_duration(number.trim(), unit);
        }
    }
    if let Some(number) = text.trim().strip_suffix("ms").filter(|number| number.contains('.')) {
        return small_duration(number.trim(), Duration::from_millis(1));
    }
    crate::duration::parse(text).map_err(|error| error.to_string())
}

fn small_duration(number: &str, unit: Duration) -> Result<Duration, String> {
    let value = number.parse::<f64>().ok().filter(|value| *value >= 0.0);
    let scaled = value.map(|value| Duration::try_from_secs_f64(unit.as_secs_f64() * value));
    match scaled {
        Some(Ok(duration)) => Ok(duration),
        _ => Err(format!("{number:?} does not begin with a number; write for example 90us")),
    }
}

/// Formats a duration so that [`parse`] returns it unchanged, to the nanosecond.
pub fn format(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds.is_multiple_of(1_000_000) {
        return crate::duration::format(duration);
    }
    if nanoseconds.is_multiple_of(1_000) {
        return format!("{}us", nanoseconds / 1_000);
    }
    format!("{nanoseconds}ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_to_the_nanosecond_and_written_back() {
        for (text, nanoseconds, again) in [
            ("30s", 30_000_000_000, "30s"),
            ("1m30s", 90_000_000_000, "1m30s"),
            ("1.5ms", 1_500_000, "1500us"),
            ("90us", 90_000, "90us"),
            ("2.5µs", 2_500, "2500ns"),
            ("250ns", 250, "250ns"),
            ("2", 2_000_000_000, "2s"),
        ] {
            let duration = parse(text).expect(text);
            assert_eq!(duration.as_nanos(), nanoseconds, "{text}");
            assert_eq!(format(duration), again);
        }
    }

    #[test]
    fn a_wrong_duration_is_an_error() {
        for text in ["", "us", "-1us", "1e400us", "5 parsecs"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
