//! The `grpc-timeout` field: up to eight digits and a unit (gRPC's PROTOCOL-HTTP2).

use std::time::Duration;

/// Maximum number of digits by the grammar.
const DIGITS_MAX: usize = 8;

/// Parses the value of the field; `None` if it violates the grammar.
pub fn parse(field: &[u8]) -> Option<Duration> {
    let (unit, digits) = field.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(number * 3_600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_the_grammar_or_are_refused() {
        for (field, expected) in [
            ("20S", Some(Duration::from_secs(20))),
            ("1H", Some(Duration::from_secs(3_600))),
            ("2M", Some(Duration::from_secs(120))),
            ("19999999u", Some(Duration::from_micros(19_999_999))),
            ("0n", Some(Duration::ZERO)),
            ("5m", Some(Duration::from_millis(5))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("123456789S", None),
            ("S", None),
            ("", None),
            ("5", None),
            ("-5S", None),
            ("5s", None),
        ] {
            assert_eq!(parse(field.as_bytes()), expected, "{field}");
        }
    }
}
