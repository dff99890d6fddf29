//! Hexadecimal text of ids, in both directions.

/// Digits of each byte.
static PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [digits[byte >> 4], digits[byte & 0xf]];
        byte += 1;
    }
    pairs
};

/// Writes two lower-case digits for each byte, with three instructions for both.
#[inline(always)]
pub fn write<const N: usize>(bytes: &[u8; N], out: &mut [[u8; 2]; N]) {
    for (byte, pair) in bytes.iter().zip(out) {
        *pair = PAIRS[usize::from(*byte)];
    }
}

/// Replaces digits of a text of fixed length from position `at` on, two for each byte. A text that
/// is too short stays as it is. With a constant position, this costs no check.
#[inline(always)]
pub fn write_in<const N: usize, const T: usize>(text: &mut [u8; T], at: usize, bytes: &[u8; N]) {
    let (pairs, _) = text.get_mut(at..).unwrap_or_default().as_chunks_mut::<2>();
    if let Some(pairs) = pairs.first_chunk_mut::<N>() {
        write(bytes, pairs);
    }
}

/// Returns the digits of `bytes`.
pub fn to_text<const N: usize>(bytes: &[u8; N]) -> String {
    let mut digits = [[0; 2]; N];
    write(bytes, &mut digits);
    String::from_utf8_lossy(digits.as_flattened()).into_owned()
}

/// Decodes exactly `N` bytes.
///
/// Returns `None` for another length or a byte that is not a digit. Upper-case digits are accepted
/// if `letters` says so.
#[inline]
pub fn read<const N: usize>(text: &[u8], letters: Letters) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0], letters)? << 4 | digit(pair[1], letters)?;
    }
    Some(bytes)
}

/// Letters that are accepted as digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// Lower case only, as in W3C trace contexts.
    Lower,
    /// Both cases, as in B3.
    AnyCase,
}

#[inline]
fn digit(byte: u8, letters: Letters) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' if letters == Letters::AnyCase => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_decoded_in_the_accepted_case_only() {
        for (text, letters, expected) in [
            ("00ff", Letters::Lower, Some([0, 255])),
            ("00FF", Letters::Lower, None),
            ("00Ff", Letters::AnyCase, Some([0, 255])),
            ("00f", Letters::AnyCase, None),
            ("00fg", Letters::AnyCase, None),
            ("00ff00", Letters::Lower, None),
        ] {
            assert_eq!(read::<2>(text.as_bytes(), letters), expected, "{text}");
        }
    }

    #[test]
    fn every_byte_is_written_as_it_is_read() {
        for byte in 0..=u8::MAX {
            assert_eq!(to_text(&[byte; 3]), format!("{byte:02x}").repeat(3));
        }
    }

    #[test]
    fn only_the_digits_of_a_place_are_replaced() {
        let mut text = *b"<0000>";
        write_in(&mut text, 1, &[0xab, 0x01]);
        assert_eq!(&text, b"<ab01>");
        write_in(&mut text, 3, &[0xff, 0xff]);
        write_in(&mut text, 9, &[0xff]);
        assert_eq!(&text, b"<ab01>");
    }
}
