//! Dates in Go's layouts, in UTC: `2006-01-02T15:04:05Z07:00` and the like.

use std::fmt::Write;

use tollhouse_stdx::civil::CivilTime;

const NANOSECONDS_A_SECOND: i64 = 1_000_000_000;
/// Layout of RFC 3339, used by `.Timestamp`.
pub const RFC_3339: &str = "2006-01-02T15:04:05Z07:00";
/// English month names, as Go's layouts print them.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Elements of a layout. An element precedes its own prefixes, so that the first match is the
/// longest.
const PARTS: [&str; 26] = [
    "January", "Jan", "Monday", "Mon", "MST", "2006", "-07:00", "-0700", "-07", "Z07:00", "Z0700",
    "01", "02", "03", "04", "05", "06", "15", "_2", "PM", "pm", "1", "2", "3", "4", "5",
];

/// Appends an instant (nanoseconds of Unix time) in a layout.
pub fn format(unix_ns: i64, layout: &str, out: &mut String) {
    let time = CivilTime::from_unix_seconds(unix_ns.div_euclid(NANOSECONDS_A_SECOND));
    let fraction = unix_ns.rem_euclid(NANOSECONDS_A_SECOND);
    let mut rest = layout;
    while let Some(first) = rest.chars().next() {
        if let Some(digits) = fraction_digits(rest) {
            put_fraction(fraction, first, &rest[1..=digits], out);
            rest = &rest[digits + 1..];
        } else if let Some(part) = PARTS.iter().find(|part| begins_with(rest, part)) {
            put_part(part, &time, out);
            rest = &rest[part.len()..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
}

/// Whether a layout element begins here. `Jan` is a month in `Jan 2`, but not in `Janet`.
fn begins_with(rest: &str, part: &str) -> bool {
    let Some(after) = rest.strip_prefix(part) else { return false };
    let is_short_name = part == "Jan" || part == "Mon";
    !(is_short_name && after.starts_with(|letter: char| letter.is_ascii_lowercase()))
}

/// Returns the number of fraction digits, if the layout has a fraction such as `.000` or `,999`
/// here.
fn fraction_digits(rest: &str) -> Option<usize> {
    let digits = rest.strip_prefix(['.', ','])?;
    let digit = digits.chars().next().filter(|digit| matches!(digit, '0' | '9'))?;
    let count = digits.len() - digits.trim_start_matches(digit).len();
    let goes_on = digits[count..].starts_with(|letter: char| letter.is_ascii_digit());
    (!goes_on && count <= 9).then_some(count)
}

fn put_fraction(fraction: i64, separator: char, layout: &str, out: &mut String) {
    let digits = format!("{fraction:09}");
    let digits = &digits[..layout.len().min(digits.len())];
    if layout.starts_with('0') {
        out.push(separator);
        out.push_str(digits);
        return;
    }
    let significant = digits.trim_end_matches('0');
    if !significant.is_empty() {
        out.push(separator);
        out.push_str(significant);
    }
}

fn put_part(part: &str, time: &CivilTime, out: &mut String) {
    let month = MONTHS[usize::from(time.month.saturating_sub(1)) % MONTHS.len()];
    let day = DAYS[usize::from(time.weekday) % DAYS.len()];
    let hour_of_12 = match time.hour % 12 {
        0 => 12,
        hour => hour,
    };
    // Writing to a `String` cannot fail.
    let _ = match part {
        "January" => out.write_str(month),
        "Jan" => out.write_str(&month[..3]),
        "Monday" => out.write_str(day),
        "Mon" => out.write_str(&day[..3]),
        "MST" => out.write_str("UTC"),
        "2006" => write!(out, "{:04}", time.year),
        "06" => write!(out, "{:02}", time.year % 100),
        "01" => write!(out, "{:02}", time.month),
        "1" => write!(out, "{}", time.month),
        "02" => write!(out, "{:02}", time.day),
        "_2" => write!(out, "{:>2}", time.day),
        "2" => write!(out, "{}", time.day),
        "15" => write!(out, "{:02}", time.hour),
        "03" => write!(out, "{hour_of_12:02}"),
        "3" => write!(out, "{hour_of_12}"),
        "04" => write!(out, "{:02}", time.minute),
        "4" => write!(out, "{}", time.minute),
        "05" => write!(out, "{:02}", time.second),
        "5" => write!(out, "{}", time.second),
        "PM" => out.write_str(if time.hour < 12 { "AM" } else { "PM" }),
        "pm" => out.write_str(if time.hour < 12 { "am" } else { "pm" }),
        "-07:00" => out.write_str("+00:00"),
        "-0700" => out.write_str("+0000"),
        "-07" => out.write_str("+00"),
        // `Z07:00` and `Z0700` print `Z` for UTC.
        _ => out.write_str("Z"),
    };
}
