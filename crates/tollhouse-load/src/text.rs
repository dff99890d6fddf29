//! How durations and sizes are written in plans and results: as text that people write.
//!
//! Results hold nanoseconds as integers; only what a person configures is text.

use std::time::Duration;

const MICROSECOND: Duration = Duration::from_micros(1);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// Reads a duration such as `30s`, `1m30s`, `1.5ms`, `90us`, `250ns`; a plain number is seconds.
///
/// # Errors
/// Says what is wrong with the text, for its author.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    for (suffix, unit) in [("us", MICROSECOND), ("µs", MICROSECOND), ("ns", NANOSECOND)] {
        if let Some(number) = text.trim().strip_suffix(suffix) {
            return small_duration(number.trim(), unit);
        }
    }
    if let Some(number) = text.trim().strip_suffix("ms").filter(|number| number.contains('.')) {
        return small_duration(number.trim(), Duration::from_millis(1));
    }
    tollhouse_stdx::duration::parse(text).map_err(|error| error.to_string())
}

fn small_duration(number: &str, unit: Duration) -> Result<Duration, String> {
    let value = number.parse::<f64>().ok().filter(|value| *value >= 0.0);
    let scaled = value.map(|value| Duration::try_from_secs_f64(unit.as_secs_f64() * value));
    match scaled {
        Some(Ok(duration)) => Ok(duration),
        _ => Err(format!("{number:?} does not begin with a number; write for example 90us")),
    }
}

/// Writes a duration so that [`parse_duration`] reads it back, to the nanosecond.
pub fn format_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds.is_multiple_of(1_000_000) {
        return tollhouse_stdx::duration::format(duration);
    }
    if nanoseconds.is_multiple_of(1_000) {
        return format!("{}us", nanoseconds / 1_000);
    }
    format!("{nanoseconds}ns")
}

/// A `Duration` as text such as `30s`, for `#[serde(with = "…")]`.
pub(crate) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        super::parse_duration(&text).map_err(D::Error::custom)
    }
}

/// The same for a duration that may be absent.
pub(crate) mod optional_duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::duration::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| super::parse_duration(&text).map_err(D::Error::custom)).transpose()
    }
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
            let duration = parse_duration(text).expect(text);
            assert_eq!(duration.as_nanos(), nanoseconds, "{text}");
            assert_eq!(format_duration(duration), again);
        }
    }

    #[test]
    fn a_wrong_duration_is_an_error() {
        for text in ["", "us", "-1us", "1e400us", "5 parsecs"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
