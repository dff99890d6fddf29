//! Figure formats of the page: those common to all report texts, and those only tables need: times
//! in one unit per column, signed differences, ratios. The page's script formats tooltips by the
//! same rules.

pub(super) use crate::report::figure::{NONE as UNKNOWN, bytes, count, memory, percent, time};

/// Formats a number with four digits, thousands separators and sign.
pub(super) fn number(value: f64) -> String {
    let size = crate::report::figure::rate(value.abs());
    match value {
        _ if size == "0.000" => "0".to_owned(),
        value if value < 0.0 => format!("−{size}"),
        _ => size,
    }
}

/// Formats nanoseconds as milliseconds without the unit, which is in the column's heading.
pub(super) fn milliseconds(nanoseconds: f64) -> String {
    number(nanoseconds / 1e6)
}

/// Removes zero decimals, because tools that print whole milliseconds have no more precision.
pub(super) fn as_printed(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.bytes().all(|digit| digit == b'0') { whole.to_owned() } else { text.to_owned() }
}

/// Formats a difference with its sign.
pub(super) fn signed(difference: f64, text: fn(f64) -> String) -> String {
    let size = text(difference.abs());
    match difference {
        _ if size == "0" => size,
        difference if difference < 0.0 => format!("−{size}"),
        _ => format!("+{size}"),
    }
}

/// Formats a share in percent with two digits, such as `4.2 %`, `16 %` or `−1.0 %`.
pub(super) fn whole_percent(share: f64) -> String {
    let percent = share * 100.0;
    let sign = if percent < 0.0 { "−" } else { "" };
    match percent.abs() {
        size if !size.is_finite() => UNKNOWN.to_owned(),
        size if size < 0.05 => "0 %".to_owned(),
        size if size < 9.95 => format!("{sign}{size:.1} %"),
        size => format!("{sign}{} %", count(size.round() as u64)),
    }
}

/// Formats a relative difference in percent with its sign, such as `+54 %`.
pub(super) fn change(difference: f64) -> String {
    let text = whole_percent(difference);
    let is_positive = difference > 0.0 && difference.is_finite() && text != "0 %";
    if is_positive { format!("+{text}") } else { text }
}

/// Formats a number of cores with two decimals, the precision of sampling.
pub(super) fn cores(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { UNKNOWN.to_owned() }
}

/// Formats a ratio, such as `1.00×` for equality, with one more digit close to 1.
pub(super) fn ratio(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    match value {
        value if (value - 1.0).abs() < 0.01 => format!("{value:.3}×"),
        value if value >= 99.995 => format!("{}×", number(value)),
        value => format!("{value:.2}×"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_sign_and_nothing_is_0() {
        for (value, expected) in [
            (0.0, "0"),
            (0.000_01, "0"),
            (0.0934, "0.093"),
            (19.81, "19.81"),
            (402.9, "402.9"),
            (28_998.2, "28,998"),
            (-1.5, "−1.500"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), expected, "{value}");
        }
    }

    #[test]
    fn differences_and_ratios_read_as_such() {
        assert_eq!(signed(1_200_000.0, milliseconds), "+1.200");
        assert_eq!(signed(-20_920_000.0, time), "−20.92 ms");
        assert_eq!(signed(0.0, milliseconds), "0");
        assert_eq!(as_printed("2.000"), "2");
        assert_eq!(as_printed("0.110"), "0.110");
        assert_eq!(as_printed("1,000"), "1,000");
        assert_eq!(
            [0.54, -0.161, 0.0421, 0.0001, 12.5].map(change),
            ["+54 %", "−16 %", "+4.2 %", "0 %", "+1,250 %"]
        );
        assert_eq!(ratio(0.934), "0.93×");
        assert_eq!(ratio(0.996), "0.996×");
        assert_eq!(ratio(1_234.0), "1,234×");
        assert_eq!(ratio(f64::INFINITY), "–");
    }
}
