//! HTTP dates: parsing of all three forms, and formatting for cookies.

use tollhouse_stdx::civil::CivilTime;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/// Last year that cookie dates show with two digits.
const SHORT_YEAR_MAX: u16 = 2037;
/// Two-digit years below this value belong to the 21st century.
const CENTURY_BREAK: u32 = 70;

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` or
/// `Sun Nov  6 08:49:37 1994`. Returns seconds since 1970; the weekday is not checked. The layout
/// is that of RFC 9110 §5.6.7: one space between parts, two digits for days and times.
pub(crate) fn parse_http_date(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let mut words = text.split(' ');
    let mut list = [""; 6];
    let count = list.iter_mut().zip(&mut words).map(|(place, word)| *place = word).count();
    if words.next().is_some() {
        return None;
    }
    let (day, month, year, time) = match &list[..count] {
        [weekday, day, month, year, time, "GMT"] if weekday.ends_with(',') => {
            (digits(day, 2)?, *month, long_year(year)?, *time)
        }
        [weekday, date, time, "GMT"] if weekday.ends_with(',') => {
            let mut parts = date.splitn(3, '-');
            let (day, month) = (parts.next()?, parts.next()?);
            (digits(day, 2)?, month, short_year(parts.next()?)?, *time)
        }
        [_, month, "", day, time, year] => (digits(day, 1)?, *month, long_year(year)?, *time),
        [_, month, day, time, year] => (digits(day, 2)?, *month, long_year(year)?, *time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| *name == month)? as u32 + 1;
    if day == 0 || day > days_of(month, year) {
        return None;
    }
    Some(days_since_1970(year, month, day) * 86_400 + seconds_of_day(time)?)
}

/// Formats a date for `Expires` of a cookie: `Thu, 18-Nov-10 11:27:35 GMT`.
pub(crate) fn cookie_date(unix_seconds: i64) -> String {
    let time = CivilTime::from_unix_seconds(unix_seconds);
    let weekday = WEEKDAYS[usize::from(time.weekday) % WEEKDAYS.len()];
    let month = MONTHS[usize::from(time.month.max(1) - 1) % MONTHS.len()];
    let (day, hour, minute, second) = (time.day, time.hour, time.minute, time.second);
    let year = if time.year > SHORT_YEAR_MAX { time.year } else { time.year % 100 };
    format!("{weekday}, {day:02}-{month}-{year:02} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Parses a decimal number of exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn long_year(text: &str) -> Option<u32> {
    digits(text, 4).filter(|year| *year >= 1970)
}

fn short_year(text: &str) -> Option<u32> {
    digits(text, 2).map(|year| if year < CENTURY_BREAK { 2000 + year } else { 1900 + year })
}

fn seconds_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':').map(|part| digits(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = hour < 24 && minute < 60 && second < 60 && parts.next().is_none();
    is_time.then(|| i64::from(hour * 3_600 + minute * 60 + second))
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(month: u32, year: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: u32, month: u32, day: u32) -> i64 {
    let years: u32 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let months: u32 = (1..month).map(|month| days_of(month, year)).sum();
    i64::from(years + months + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_are_read() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_http_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse_http_date(b"Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
    }

    #[test]
    fn anything_else_is_no_date() {
        for text in [
            "",
            "adfsdf",
            "1700000000",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 99999 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37:00 GMT",
            "Sun, 06 Nov 1994 -1:49:37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov  1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
        ] {
            assert_eq!(parse_http_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn cookies_have_short_years_while_they_can() {
        assert_eq!(cookie_date(1_290_079_655), "Thu, 18-Nov-10 11:27:35 GMT");
        assert_eq!(cookie_date(2_208_988_800), "Sun, 01-Jan-2040 00:00:00 GMT");
    }
}
