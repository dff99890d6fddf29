//! Hexadecimal text of ids.

/// Writes two lower-case digits for each byte. The length of `bytes` is a multiple of four, and
/// `out` is twice as long.
#[inline]
pub fn write(bytes: &[u8], out: &mut [u8]) {
    for (four, digits) in bytes.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<8>().0) {
        *digits = eight_digits(u32::from_be_bytes(*four));
    }
}

/// Digits of a number, computed for all of them at once.
#[inline]
fn eight_digits(number: u32) -> [u8; 8] {
    // One half-byte in each byte, the most significant first.
    let spread = u64::from(number);
    let spread = (spread << 16 | spread) & 0x0000_ffff_0000_ffff;
    let spread = (spread << 8 | spread) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread << 4 | spread) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in each byte that becomes a letter, which is 39 places behind the digits.
    let letters = ((spread + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (spread + 0x3030_3030_3030_3030 + letters * 0x27).to_be_bytes()
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
        let mut out = [0; 16];
        write(&[0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef], &mut out);
        assert_eq!(&out, b"0123456789abcdef");
    }
}
