//! Units of wrk: a value that exceeds 85 % of the next unit is printed in that unit.

/// Fraction of a unit from which on that unit is used.
const NEXT_UNIT_FROM: f64 = 0.85;

/// Formats a short time: `139.00us`, `0.91ms`, `1.07s`.
pub(crate) fn microseconds(value: f64) -> String {
    if value >= 1e6 {
        return scaled(value / 1e6, 60.0, "s", &["m"], 2);
    }
    scaled(value, 1e3, "us", &["ms"], 2)
}

/// Formats the time of a run: `30s`, `2m`.
pub(crate) fn seconds(value: f64) -> String {
    scaled(value, 60.0, "s", &["m"], 0)
}

/// Formats a count with a decimal prefix, such as `24.51k`.
pub(crate) fn metric(value: f64) -> String {
    scaled(value, 1e3, "", &["k", "M", "G", "T"], 2)
}

/// Formats bytes without the `B`: `14.05M`.
pub(crate) fn binary(value: f64) -> String {
    scaled(value, 1024.0, "", &["K", "M", "G", "T"], 2)
}

fn scaled(value: f64, scale: f64, base: &str, units: &[&str], digits: usize) -> String {
    let (mut value, mut unit) = (value, base);
    for next in units {
        if value < scale * NEXT_UNIT_FROM {
            break;
        }
        value /= scale;
        unit = next;
    }
    format!("{value:.digits$}{unit}")
}

/// Aligns to the right so that digits are below each other. Units with fewer than two letters are
/// followed by blanks.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let letters = text.bytes().rev().take(2).filter(u8::is_ascii_alphabetic).count();
    let blanks = 2 - letters;
    format!("{text:>width$}{:blanks$}", "", width = width - blanks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_they_change_in_wrk() {
        for (value, expected) in [
            (0.0, "0.00us"),
            (849.0, "849.00us"),
            (850.0, "0.85ms"),
            (12_920.0, "12.92ms"),
            (999_990.0, "999.99ms"),
            (1e6, "1.00s"),
            (50.9e6, "50.90s"),
            (51e6, "0.85m"),
            (7.2e9, "120.00m"),
        ] {
            assert_eq!(microseconds(value), expected);
        }
        for (value, expected) in
            [(1.0, "1s"), (50.0, "50s"), (52.0, "1m"), (3_120.0, "52m"), (10_800.0, "180m")]
        {
            assert_eq!(seconds(value), expected);
        }
        for (value, expected) in [(0.0, "0.00"), (849.0, "849.00"), (56_200.0, "56.20k")] {
            assert_eq!(metric(value), expected);
        }
        for (value, expected) in [(0.0, "0.00"), (900.0, "0.88K"), (14.05 * 1048576.0, "14.05M")] {
            assert_eq!(binary(value), expected);
        }
    }

    #[test]
    fn digits_stand_below_each_other() {
        for (text, expected) in [
            ("0.93ms", "  0.93ms"),
            ("24.51k", " 24.51k "),
            ("0.00", "  0.00  "),
            ("1.07s", "  1.07s "),
        ] {
            assert_eq!(padded(text, 8), expected);
        }
    }
}
