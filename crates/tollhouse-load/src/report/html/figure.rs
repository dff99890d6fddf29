//! How figures are written: one function for numbers, and the units on top of it. The page's script
//! has the same rule for the figures under a pointer.

/// What stands where nothing is known.
pub(super) const UNKNOWN: &str = "–";

/// A number with as many digits as tell something: three decimals below 1, two below 100, one below
/// 1,000, then whole with separators.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let decimals = match value.abs() {
        size if size < 0.000_5 => 0,
        size if size < 0.999_5 => 3,
        size if size < 99.995 => 2,
        size if size < 999.95 => 1,
        _ => 0,
    };
    grouped(value, decimals)
}

/// A count: whole, with separators.
pub(super) fn count(value: u64) -> String {
    grouped(value as f64, 0)
}

fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut text = String::with_capacity(plain.len() + whole.len() / 3 + 1);
    if value < 0.0 && plain.bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
        text.push('−');
    }
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

/// Nanoseconds as milliseconds, without the unit: a column's head has it.
pub(super) fn milliseconds(nanoseconds: f64) -> String {
    number(nanoseconds / 1e6)
}

/// A time in running text, with its unit.
pub(super) fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds.abs() {
        size if size >= 1e9 => (nanoseconds / 1e9, "s"),
        size if size >= 1e5 || size == 0.0 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e3, "µs"),
    };
    format!("{}\u{a0}{unit}", number(value))
}

/// A size with its unit.
pub(super) fn bytes(size_bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = size_bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = if unit == 0 { count(size_bytes) } else { number(value) };
    format!("{text}\u{a0}{}", UNITS[unit])
}

/// A share of one, in percent.
pub(super) fn percent(share: f64) -> String {
    if share.is_finite() && share > 0.0 && share < 0.000_005 {
        return "<0.001\u{a0}%".to_owned();
    }
    format!("{}\u{a0}%", number(share * 100.0))
}

/// A ratio, `1` being equal.
pub(super) fn ratio(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    format!("{}×", grouped(value, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_tell_something() {
        for (value, expected) in [
            (0.0, "0"),
            (0.000_01, "0"),
            (0.0934, "0.093"),
            (1.0, "1.00"),
            (19.81, "19.81"),
            (402.9, "402.9"),
            (999.96, "1,000"),
            (28_998.2, "28,998"),
            (1_234_567.8, "1,234,568"),
            (-1.5, "−1.50"),
            (-0.000_1, "0"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(number(value), expected, "{value}");
        }
    }

    #[test]
    fn units_follow_the_size() {
        assert_eq!(time(93_000.0), "93.00\u{a0}µs");
        assert_eq!(time(20_920_000.0), "20.92\u{a0}ms");
        assert_eq!(time(1_043_330_000.0), "1.04\u{a0}s");
        assert_eq!(bytes(156), "156\u{a0}B");
        assert_eq!(bytes(43_200_000), "41.20\u{a0}MiB");
        assert_eq!(percent(0.0), "0\u{a0}%");
        assert_eq!(percent(0.000_001), "<0.001\u{a0}%");
        assert_eq!(percent(0.2431), "24.31\u{a0}%");
        assert_eq!(ratio(0.934), "0.93×");
        assert_eq!(ratio(f64::INFINITY), "–");
    }
}
