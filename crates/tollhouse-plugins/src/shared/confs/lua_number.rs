//! Numbers in Lua's text form, for signatures over such texts.

/// Number of significant digits that Lua prints.
const DIGITS: i32 = 14;

/// Formats a number with at most 14 significant digits, like C's `%.14g`.
pub(crate) fn lua_number(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:.*e}", DIGITS as usize - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent).unsigned_abs() as usize;
        return without_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs())
}

/// Removes trailing zeros of a fraction, and its point if nothing is left.
fn without_zeros(text: &str) -> &str {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_lua_writes_them() {
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (100.0, "100"),
            (0.367_148_642_621_43, "0.36714864262143"),
            (0.1 + 0.2, "0.3"),
            (1_700_000_000.0, "1700000000"),
            (99_999_999_999_999.0, "99999999999999"),
            (1e14, "1e+14"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(lua_number(number), expected);
        }
    }
}
