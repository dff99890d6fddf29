//! Formatting of decimal numbers into a byte buffer, faster than `fmt`.

/// Number of digits of the largest 64-bit integer.
const DIGITS_MAX: usize = 20;

/// Appends `value` in decimal digits.
#[inline]
pub(crate) fn push_number(mut value: u64, line: &mut Vec<u8>) {
    let digit = |value: u64| b'0' + (value % 10) as u8;
    match value {
        0..10 => return line.push(digit(value)),
        10..100 => return line.extend_from_slice(&[digit(value / 10), digit(value)]),
        // Nearly all numbers in this range are statuses.
        100..1_000 => {
            return line.extend_from_slice(&[digit(value / 100), digit(value / 10), digit(value)]);
        }
        _ => {}
    }
    let mut digits = [0_u8; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    while value > 0 {
        start -= 1;
        digits[start] = digit(value);
        value /= 10;
    }
    line.extend_from_slice(&digits[start..]);
}

/// Appends milliseconds as seconds with three decimals: `0.045`.
#[inline]
pub(crate) fn push_seconds(milliseconds: u64, line: &mut Vec<u8>) {
    push_number(milliseconds / 1_000, line);
    let rest = (milliseconds % 1_000) as u16;
    let digit = |value: u16| b'0' + (value % 10) as u8;
    line.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        for value in [0, 1, 9, 10, 42, 99, 100, 65_535, 1_000_000, u64::MAX] {
            let mut line = Vec::new();
            push_number(value, &mut line);
            assert_eq!(line, value.to_string().into_bytes());
        }
    }

    #[test]
    fn seconds_have_three_decimals() {
        let table: [(u64, &[u8]); 5] =
            [(0, b"0.000"), (5, b"0.005"), (45, b"0.045"), (999, b"0.999"), (61_234, b"61.234")];
        for (milliseconds, expected) in table {
            let mut line = Vec::new();
            push_seconds(milliseconds, &mut line);
            assert_eq!(line, expected);
        }
    }
}
