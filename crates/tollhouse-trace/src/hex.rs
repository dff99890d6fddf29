//! Hexadecimal text of ids.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes two lower-case digits for each byte. `out` must be twice as long as `bytes`.
#[inline]
pub fn write(bytes: &[u8], out: &mut [u8]) {
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
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
        let mut out = [0; 4];
        write(&[0x0a, 0xf0], &mut out);
        assert_eq!(&out, b"0af0");
    }
}
