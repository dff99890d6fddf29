//! Formatting of figures for people: times, rates, counts, sizes. All texts of a report use these
//! functions, so that a figure has one form everywhere. Machine-readable files hold plain numbers.

/// Placeholder for a figure that is unknown or meaningless.
pub const NONE: &str = "–";

/// Formats a time in nanoseconds with up to four significant digits: `843.0 µs`, `19.37 ms`,
/// `1.043 s`.
pub fn time(nanoseconds: f64) -> String {
    if !nanoseconds.is_finite() || nanoseconds < 0.0 {
        return NONE.into();
    }
    match nanoseconds {
        value if value < 999.5 => format!("{value:.0} ns"),
        value if value < 999_950.0 => format!("{} µs", digits(value / 1e3)),
        value if value < 999_950_000.0 => format!("{} ms", digits(value / 1e6)),
        value if value < 120e9 => format!("{} s", digits(value / 1e9)),
        value => {
            let seconds = (value / 1e9).round() as u64;
            format!("{} min {:02} s", seconds / 60, seconds % 60)
        }
    }
}

/// Formats a duration on a human scale: `0.4 s`, `12.0 s`, `3 min 05 s`.
pub fn seconds(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 99.95 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    match (whole / 3_600, whole / 60 % 60, whole % 60) {
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

/// Formats a rate per second: whole above 1000, otherwise with four digits.
pub fn rate(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return NONE.into();
    }
    if value >= 999.5 { count(value.round() as u64) } else { digits(value) }
}

/// Formats a count with thousands separators: `1,234,567`.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut text = String::with_capacity(plain.len() + plain.len() / 3);
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a size in steps of 1000, as is usual for network rates: `812 B`, `2.05 KB`, `14.2 MB`.
pub fn bytes(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return NONE.into();
    }
    match value {
        value if value < 999.5 => format!("{value:.0} B"),
        value if value < 999_500.0 => format!("{} KB", three_digits(value / 1e3)),
        value if value < 999_500_000.0 => format!("{} MB", three_digits(value / 1e6)),
        value => format!("{} GB", three_digits(value / 1e9)),
    }
}

/// Formats a memory size in steps of 1024, as memory tools do: `12.4 MiB`.
pub fn memory(value: u64) -> String {
    let value = value as f64;
    match value {
        value if value < 1_023.5 => format!("{value:.0} B"),
        value if value < 1_023.5 * 1_024.0 => format!("{} KiB", three_digits(value / 1_024.0)),
        value if value < 1_023.5 * 1_048_576.0 => {
            format!("{} MiB", three_digits(value / 1_048_576.0))
        }
        value => format!("{} GiB", three_digits(value / 1_073_741_824.0)),
    }
}

/// Formats a share (0 to 1) in percent; a nonzero share never appears as zero.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        value if !value.is_finite() || value < 0.0 => NONE.into(),
        0.0 => "0 %".into(),
        value if value < 0.001 => "< 0.001 %".into(),
        value if value < 1.0 => format!("{value:.3} %"),
        value if value < 99.95 => format!("{value:.1} %"),
        // Rounded down, so that 99.9996 % does not appear as all.
        value if value < 100.0 => format!("{:.3} %", (value * 1e3).floor() / 1e3),
        value => format!("{value:.0} %"),
    }
}

/// Returns the name of a percentile: `p50`, `p99.9`.
pub fn percentile_name(percent: f64) -> String {
    format!("p{percent}")
}

/// Formats with four digits, at least one before the decimal point.
fn digits(value: f64) -> String {
    match value {
        value if value >= 999.95 => format!("{value:.0}"),
        value if value >= 99.995 => format!("{value:.1}"),
        value if value >= 9.9995 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_four_digits_and_the_unit_that_suits() {
        for (nanoseconds, text) in [
            (0.0, "0 ns"),
            (250.0, "250 ns"),
            (999.6, "1.000 µs"),
            (1_500.0, "1.500 µs"),
            (843_000.0, "843.0 µs"),
            (999_960.0, "1.000 ms"),
            (19_370_000.0, "19.37 ms"),
            (402_900_000.0, "402.9 ms"),
            (1_043_330_000.0, "1.043 s"),
            (61e9, "61.00 s"),
            (3_600e9, "60 min 00 s"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(time(nanoseconds), text);
        }
    }

    #[test]
    fn waiting_is_told_in_the_units_of_clocks() {
        for (seconds, text) in
            [(0.44, "0.4 s"), (30.0, "30.0 s"), (180.0, "3 min 00 s"), (7_384.0, "2 h 03 min")]
        {
            assert_eq!(super::seconds(std::time::Duration::from_secs_f64(seconds)), text);
        }
    }

    #[test]
    fn counts_and_rates_and_sizes_read_well() {
        for (value, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(value), text);
        }
        for (value, text) in
            [(0.5, "0.500"), (20_472.95, "20,473"), (999.7, "1,000"), (512.34, "512.3")]
        {
            assert_eq!(rate(value), text);
        }
        for (value, text) in
            [(12.0, "12 B"), (2_048.0, "2.05 KB"), (999_600.0, "1.00 MB"), (14.24e6, "14.2 MB")]
        {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(memory(13_002_342), "12.4 MiB");
        assert_eq!(memory(512), "512 B");
    }

    #[test]
    fn a_share_never_reads_as_nothing_or_all_when_it_is_not() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.000_001, "< 0.001 %"),
            (0.000_5, "0.050 %"),
            (0.12, "12.0 %"),
            (0.999_999_99, "99.999 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }
}
