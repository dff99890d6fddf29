//! The few fields of a certificate that the libraries keep to themselves, read from its DER form
//! (ITU-T X.690; RFC 5280 §4.1).
//!
//! The certificate has been found well formed by then; what is met otherwise gives `None`.

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

const SECONDS_A_DAY: i64 = 86_400;

/// First and last second that a certificate is good for, in Unix time.
pub(super) fn validity(certificate: &[u8]) -> Option<(i64, i64)> {
    let (outer, _) = field(certificate, SEQUENCE)?;
    let (body, _) = field(outer, SEQUENCE)?;
    let after_version = field(body, VERSION).map_or(body, |(_, rest)| rest);
    let (_serial, rest) = field(after_version, INTEGER)?;
    let (_signature, rest) = field(rest, SEQUENCE)?;
    let (_issuer, rest) = field(rest, SEQUENCE)?;
    let (times, _) = field(rest, SEQUENCE)?;
    let (not_before, rest) = time(times)?;
    let (not_after, _) = time(rest)?;
    Some((not_before, not_after))
}

/// The key itself of a `SubjectPublicKeyInfo`.
pub(super) fn public_key(info: &[u8]) -> Option<&[u8]> {
    let (body, _) = field(info, SEQUENCE)?;
    let (_algorithm, rest) = field(body, SEQUENCE)?;
    let (bits, _) = field(rest, BIT_STRING)?;
    // A key fills its bytes: no bits of the last one are unused.
    bits.strip_prefix(&[0])
}

/// The content of the field that `input` begins with, and what follows it.
fn field(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = input.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => {
            let (&[length], rest) = rest.split_first_chunk::<1>()?;
            (usize::from(length), rest)
        }
        0x82 => {
            let (&length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(length)), rest)
        }
        // A certificate of 64 KiB and more is none that anybody would send.
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// The time that `input` begins with, and what follows it.
fn time(input: &[u8]) -> Option<(i64, &[u8])> {
    if let Some((text, rest)) = field(input, GENERALIZED_TIME) {
        let (year, text) = digits(text, 4)?;
        return Some((seconds(year, text)?, rest));
    }
    let (text, rest) = field(input, UTC_TIME)?;
    let (year, text) = digits(text, 2)?;
    // RFC 5280 §4.1.2.5.1: two digits are of 1950 to 2049.
    let century = if year >= 50 { 1900 } else { 2000 };
    Some((seconds(century + year, text)?, rest))
}

/// Unix time of `MMDDHHMMSSZ` in a year.
fn seconds(year: i64, text: &[u8]) -> Option<i64> {
    let (month, text) = digits(text, 2)?;
    let (day, text) = digits(text, 2)?;
    let (hour, text) = digits(text, 2)?;
    let (minute, text) = digits(text, 2)?;
    let (second, text) = digits(text, 2)?;
    let sane = (1..=12).contains(&month) && (1..=31).contains(&day);
    if text != b"Z" || !sane || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let of_day = hour * 3_600 + minute * 60 + second;
    Some(days(year, month, day) * SECONDS_A_DAY + of_day)
}

/// Days from 1970-01-01 to a date. Years are counted from March, so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn digits(text: &[u8], count: usize) -> Option<(i64, &[u8])> {
    let (number, rest) = text.split_at_checked(count)?;
    let value = number.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    });
    Some((value?, rest))
}

#[cfg(test)]
mod tests {
    use tollhouse_stdx::civil::CivilTime;

    use super::*;

    fn tagged(tag: u8, text: &str) -> Vec<u8> {
        let length = u8::try_from(text.len()).expect("a time is short");
        [&[tag, length], text.as_bytes()].concat()
    }

    #[test]
    fn times_of_both_forms_are_read() {
        let table = [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (UTC_TIME, "500101000000Z", Some(-631_152_000)),
            (UTC_TIME, "000229120000Z", Some(951_825_600)),
            (GENERALIZED_TIME, "20000229120000Z", Some(951_825_600)),
            (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
            (GENERALIZED_TIME, "200002291200Z", None),
            (UTC_TIME, "001329120000Z", None),
            (UTC_TIME, "000229240000Z", None),
            (UTC_TIME, "000229120000", None),
            (UTC_TIME, "0002291200xxZ", None),
            (UTC_TIME, "", None),
            (INTEGER, "000229120000Z", None),
        ];
        for (tag, text, expected) in table {
            let input = tagged(tag, text);
            assert_eq!(time(&input).map(|(seconds, _)| seconds), expected, "{text}");
        }
    }

    #[test]
    fn dates_are_the_reverse_of_the_clocks() {
        for unix_s in (0..4_000_000_000_i64).step_by(86_400 * 13 + 7) {
            let date = CivilTime::from_unix_seconds(unix_s);
            let found = days(date.year.into(), date.month.into(), date.day.into());
            assert_eq!(found, unix_s / SECONDS_A_DAY, "{date:?}");
        }
    }

    #[test]
    fn what_is_cut_short_is_nothing() {
        let info = [0x30, 0x07, 0x30, 0x00, 0x03, 0x03, 0x00, 0xab, 0xcd];
        assert_eq!(public_key(&info), Some(&[0xab, 0xcd][..]));
        for length in 0..info.len() {
            assert_eq!(public_key(&info[..length]), None, "{length}");
            assert_eq!(validity(&info[..length]), None, "{length}");
        }
        assert_eq!(field(&[0x30, 0x81], SEQUENCE), None);
        assert_eq!(field(&[0x30, 0x82, 0, 1, 9], SEQUENCE), Some((&[9][..], &[][..])));
        assert_eq!(field(&[0x30, 0x84, 0, 0, 0, 0], SEQUENCE), None);
    }
}
