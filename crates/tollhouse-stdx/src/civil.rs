//! Conversion of Unix seconds to date and time in UTC, and their textual forms for HTTP, ISO 8601
//! and access logs.
//!
//! Own arithmetic, because the hot path needs only fixed texts once a second and no time zones.

/// Length of an HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const HTTP_DATE_BYTES: usize = 29;

/// Length of an ISO 8601 date with seconds: `1994-11-06T08:49:37+00:00`.
pub const ISO_DATE_BYTES: usize = 25;

/// Length of a date in access logs: `06/Nov/1994:08:49:37 +0000`.
pub const LOG_DATE_BYTES: usize = 26;

const SECONDS_A_DAY: i64 = 86_400;
/// Number of days from 0000-03-01 to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_468;
/// Number of days in 400 years, the period of the calendar.
const DAYS_AN_ERA: i64 = 146_097;
const WEEKDAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
/// First second of the year 10000; later times are shown as the second before.
const SECONDS_END: i64 = 253_402_300_800;

/// Date and time in UTC, in the proleptic Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CivilTime {
    /// Year, 0 to 9999.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59; leap seconds do not exist in Unix time.
    pub second: u8,
    /// Day of the week; 0 is Sunday.
    pub weekday: u8,
}

impl CivilTime {
    /// Converts a Unix time. Times outside 1970 to 9999 are clamped.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        let seconds = seconds.clamp(0, SECONDS_END - 1);
        let days = seconds / SECONDS_A_DAY;
        let of_day = seconds % SECONDS_A_DAY;
        // Years are counted from March, so that the leap day is the last day.
        let from_march = days + DAYS_TO_EPOCH;
        let era = from_march / DAYS_AN_ERA;
        let of_era = from_march % DAYS_AN_ERA;
        let year_of_era =
            (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (DAYS_AN_ERA - 1)) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        Self {
            year: small(year),
            month: small(month) as u8,
            day: small(day) as u8,
            hour: small(of_day / 3_600) as u8,
            minute: small(of_day / 60 % 60) as u8,
            second: small(of_day % 60) as u8,
            weekday: small((days + 4) % 7) as u8,
        }
    }

    /// Formats as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
    pub fn http_date(&self) -> [u8; HTTP_DATE_BYTES] {
        let mut text = *b"Sun, 00 Jan 0000 00:00:00 GMT";
        text[..3].copy_from_slice(self.weekday_name());
        put_two(&mut text, 5, self.day);
        text[8..11].copy_from_slice(self.month_name());
        put_year(&mut text, 12, self.year);
        self.put_time(&mut text, 17);
        text
    }

    /// Formats the time as in access logs: `06/Nov/1994:08:49:37 +0000`.
    pub fn log_date(&self) -> [u8; LOG_DATE_BYTES] {
        let mut text = *b"00/Jan/0000:00:00:00 +0000";
        put_two(&mut text, 0, self.day);
        text[3..6].copy_from_slice(self.month_name());
        put_year(&mut text, 7, self.year);
        self.put_time(&mut text, 12);
        text
    }

    /// Formats the time by ISO 8601: `1994-11-06T08:49:37+00:00`.
    pub fn iso_date(&self) -> [u8; ISO_DATE_BYTES] {
        let mut text = *b"0000-00-00T00:00:00+00:00";
        put_year(&mut text, 0, self.year);
        put_two(&mut text, 5, self.month);
        put_two(&mut text, 8, self.day);
        self.put_time(&mut text, 11);
        text
    }

    fn put_time(&self, text: &mut [u8], at: usize) {
        put_two(text, at, self.hour);
        put_two(text, at + 3, self.minute);
        put_two(text, at + 6, self.second);
    }

    fn weekday_name(&self) -> &'static [u8; 3] {
        WEEKDAYS[usize::from(self.weekday) % WEEKDAYS.len()]
    }

    fn month_name(&self) -> &'static [u8; 3] {
        MONTHS[usize::from(self.month.saturating_sub(1)) % MONTHS.len()]
    }
}

/// Narrows a field, which is below 10,000 because the time is clamped.
fn small(value: i64) -> u16 {
    u16::try_from(value).unwrap_or(0)
}

fn put_two(text: &mut [u8], at: usize, value: u8) {
    text[at] = b'0' + value / 10 % 10;
    text[at + 1] = b'0' + value % 10;
}

fn put_year(text: &mut [u8], at: usize, year: u16) {
    put_two(text, at, small(i64::from(year / 100)) as u8);
    put_two(text, at + 2, small(i64::from(year % 100)) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_times_become_http_dates() {
        let table = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (68_169_599, "Mon, 28 Feb 1972 23:59:59 GMT"),
            (68_169_600, "Tue, 29 Feb 1972 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (978_307_199, "Sun, 31 Dec 2000 23:59:59 GMT"),
            (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
            (2_147_483_648, "Tue, 19 Jan 2038 03:14:08 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (SECONDS_END - 1, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (i64::MIN, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ];
        for (seconds, expected) in table {
            let text = CivilTime::from_unix_seconds(seconds).http_date();
            assert_eq!(std::str::from_utf8(&text), Ok(expected), "{seconds}");
        }
    }

    #[test]
    fn log_and_iso_dates_say_the_same() {
        let time = CivilTime::from_unix_seconds(784_111_777);
        assert_eq!(&time.log_date(), b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(&time.iso_date(), b"1994-11-06T08:49:37+00:00");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut previous = CivilTime::from_unix_seconds(0);
        for day in 1..150_000 {
            let next = CivilTime::from_unix_seconds(day * SECONDS_A_DAY);
            assert_eq!(next.weekday, (previous.weekday + 1) % 7);
            let leap = previous.year.is_multiple_of(4)
                && (!previous.year.is_multiple_of(100) || previous.year.is_multiple_of(400));
            let days_of_month = match previous.month {
                2 => 28 + u8::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let expected = if previous.day < days_of_month {
                (previous.year, previous.month, previous.day + 1)
            } else if previous.month < 12 {
                (previous.year, previous.month + 1, 1)
            } else {
                (previous.year + 1, 1, 1)
            };
            assert_eq!((next.year, next.month, next.day), expected);
            previous = next;
        }
    }
}
