//! Formatting of numbers, times and JSON as in Go. Templates use these functions, as do emulations
//! of Go tools, whose output must equal that of the original.

pub mod date;
pub mod json;

use std::fmt::Write;
use std::time::Duration;

/// Appends a number as Go's `%v` does: the shortest digits that read back to this number, with an
/// exponent below 0.0001 and from a million on.
pub fn put_float(number: f64, out: &mut String) {
    const PLAIN: std::ops::Range<f64> = 1e-4..1e6;
    let magnitude = number.abs();
    if magnitude == 0.0 || PLAIN.contains(&magnitude) || !number.is_finite() {
        write!(out, "{number}").expect("a string takes any text");
    } else {
        put_exponent(&format!("{number:e}"), out);
    }
}

/// Appends a number that Rust has formatted with an exponent in Go's notation: `1e21` becomes
/// `1e+21`, `1e-5` becomes `1e-05`.
pub fn put_exponent(written: &str, out: &mut String) {
    let (digits, exponent) = written.split_once('e').unwrap_or((written, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    write!(out, "{digits}e{sign}{exponent:0>2}").expect("a string takes any text");
}

/// Formats a number as Go's `%v` does.
pub fn float(number: f64) -> String {
    let mut out = String::new();
    put_float(number, &mut out);
    out
}

/// Formats a duration as Go does: `0s`, `300ms`, `1.5s`, `1m30s`, `1h0m0s`.
pub fn duration(time: Duration) -> String {
    let nanoseconds = time.as_nanos();
    if nanoseconds == 0 {
        return "0s".into();
    }
    let units = [(1_000, "ns", 1.0), (1_000_000, "µs", 1e3), (1_000_000_000, "ms", 1e6)];
    for (below, unit, scale) in units {
        if nanoseconds < below {
            return format!("{}{unit}", nanoseconds as f64 / scale);
        }
    }
    let (minutes, seconds) = (time.as_secs() / 60, time.as_secs() % 60);
    let seconds = if time.subsec_nanos() == 0 {
        format!("{seconds}s")
    } else {
        let fraction = format!("{:09}", time.subsec_nanos());
        format!("{seconds}.{}s", fraction.trim_end_matches('0'))
    };
    match (minutes / 60, minutes % 60) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_the_largest_units() {
        for (nanoseconds, expected) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (300_000_000, "300ms"),
            (1_500_000_000, "1.5s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanoseconds)), expected);
        }
    }

    #[test]
    fn numbers_have_exponents_where_go_has_them() {
        for (number, expected) in [
            (0.0, "0"),
            (20.0, "20"),
            (0.000_1, "0.0001"),
            (0.000_01, "1e-05"),
            (999_999.5, "999999.5"),
            (1e6, "1e+06"),
            (6_792_877.0, "6.792877e+06"),
        ] {
            assert_eq!(float(number), expected);
        }
    }
}
