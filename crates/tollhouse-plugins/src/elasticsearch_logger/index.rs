//! Name of an index, with times and variables.

use tollhouse_model::variable::Lookup;
use tollhouse_plugin::ConfError;
use tollhouse_stdx::civil::CivilTime;

use crate::shared::confs::text::Text;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// Number of days from one week to the next.
const WEEK_DAYS: i64 = 7;

#[derive(Debug)]
pub(super) struct IndexName(Vec<Part>);

#[derive(Debug)]
enum Part {
    /// Text and variables.
    Text(Text),
    /// Format of the time, in the letters of `strftime`.
    Time(String),
}

impl IndexName {
    /// Parses a name such as `access-{%Y.%m.%d}-$host`.
    ///
    /// # Errors
    /// If a time has an unknown conversion.
    pub(super) fn parse(text: &str) -> Result<Self, ConfError> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('{') {
            let (before, after) = (&rest[..at], &rest[at + 1..]);
            literal.push_str(before);
            // `${name}` is a variable.
            match after.find('}').filter(|_| !before.ends_with('$')) {
                Some(end) => {
                    parts.push(Part::Text(Text::parse(&std::mem::take(&mut literal))));
                    let format = &after[..end];
                    write_time(format, 0).map_err(|letter| {
                        format!("unknown conversion %{letter} in the time of index {text:?}")
                    })?;
                    parts.push(Part::Time(format.to_owned()));
                    rest = &after[end + 1..];
                }
                None => {
                    literal.push('{');
                    rest = after;
                }
            }
        }
        literal.push_str(rest);
        parts.push(Part::Text(Text::parse(&literal)));
        Ok(Self(parts))
    }

    /// Returns the name for an exchange that ended at a time.
    pub(super) fn at(&self, unix_ms: u64, variables: &dyn Lookup) -> String {
        let mut name = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => {
                    name.push_str(&String::from_utf8_lossy(&text.for_request(variables)));
                }
                // Unknown conversions were refused when the conf was parsed.
                Part::Time(format) => {
                    name.push_str(&write_time(format, unix_ms).unwrap_or_default());
                }
            }
        }
        name
    }
}

/// Formats a time in UTC.
///
/// # Errors
/// The letter of an unknown conversion.
fn write_time(format: &str, unix_ms: u64) -> Result<String, char> {
    let time = civil(unix_ms);
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let letter = letters.next().unwrap_or('%');
        match letter {
            'Y' => out.push_str(&time.year.to_string()),
            'y' => out.push_str(&format!("{:02}", time.year % 100)),
            'm' => out.push_str(&format!("{:02}", time.month)),
            'd' => out.push_str(&format!("{:02}", time.day)),
            'H' => out.push_str(&format!("{:02}", time.hour)),
            'M' => out.push_str(&format!("{:02}", time.minute)),
            'S' => out.push_str(&format!("{:02}", time.second)),
            'F' => out.push_str(&format!("{}-{:02}-{:02}", time.year, time.month, time.day)),
            'j' => out.push_str(&format!("{:03}", day_of_year(unix_ms) + 1)),
            'G' => out.push_str(&thursday(unix_ms).1.year.to_string()),
            'V' => {
                let week = day_of_year(thursday(unix_ms).0) / WEEK_DAYS + 1;
                out.push_str(&format!("{week:02}"));
            }
            '%' => out.push('%'),
            other => return Err(other),
        }
    }
    Ok(out)
}

fn civil(unix_ms: u64) -> CivilTime {
    CivilTime::from_unix_seconds(i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX))
}

/// Returns the number of days since the first of January.
fn day_of_year(unix_ms: u64) -> i64 {
    let year = civil(unix_ms).year;
    let days = (0..366).take_while(|days| {
        let earlier = unix_ms.checked_sub((days + 1) * DAY_MS);
        earlier.is_some_and(|earlier| civil(earlier).year == year)
    });
    i64::try_from(days.count()).unwrap_or(0)
}

/// Returns the Thursday of the week, which decides about its year (ISO 8601).
fn thursday(unix_ms: u64) -> (u64, CivilTime) {
    let weekday = u64::from(civil(unix_ms).weekday);
    // Days since Monday; Sunday is the last day.
    let since_monday = (weekday + 6) % 7;
    let at = (unix_ms + 3 * DAY_MS).saturating_sub(since_monday * DAY_MS);
    (at, civil(at))
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::FakeExchange;

    use super::*;

    #[test]
    fn times_and_variables_are_filled_in() {
        let request = FakeExchange::parse("GET /a HTTP/1.1\nHost: b.test\n\n", 0);
        // Friday, 1 January 2027, 00:00:07 UTC.
        let unix_ms = 1_798_761_607_000;
        for (text, expected) in [
            ("access", "access"),
            ("a-{%Y.%m.%d}", "a-2027.01.01"),
            ("{%F}-{%H%M%S}{%y}", "2027-01-01-00000727"),
            ("{%G.%V}", "2026.53"),
            ("{%j}", "001"),
            ("a-$host-${host}-{%Y}", "a-b.test-b.test-2027"),
            ("{unended", "{unended"),
            ("{100%%}", "100%"),
        ] {
            let name = IndexName::parse(text).unwrap();
            assert_eq!(name.at(unix_ms, &request), expected, "{text}");
        }
    }

    #[test]
    fn days_and_weeks_are_counted_as_in_iso_8601() {
        for (unix_ms, expected) in [
            (1_798_761_600_000 - 1, "365 2026-53"),
            (1_709_164_800_000, "060 2024-09"),
            (1_735_603_200_000, "366 2025-01"),
        ] {
            assert_eq!(write_time("%j %G-%V", unix_ms), Ok(expected.to_owned()), "{unix_ms}");
        }
    }

    #[test]
    fn an_unknown_conversion_is_refused() {
        let error = IndexName::parse("a-{%Q}").unwrap_err();
        assert_eq!(error.text(), r#"unknown conversion %Q in the time of index "a-{%Q}""#);
    }
}
