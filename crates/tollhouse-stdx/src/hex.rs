//! Hexadecimal text of ids, in both directions.

/// Number of bytes that are written at once: their digits fill a vector register.
const BLOCK_BYTES: usize = 8;

/// Writes two lower-case digits for each byte.
#[inline(always)]
pub fn write<const N: usize>(bytes: &[u8; N], out: &mut [[u8; 2]; N]) {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    let (block_pairs, rest_pairs) = out.as_chunks_mut::<BLOCK_BYTES>();
    for (block, pairs) in blocks.iter().zip(block_pairs) {
        *pairs = block_digits(block);
    }
    for (byte, pair) in rest.iter().zip(rest_pairs) {
        *pair = byte_digits(*byte);
    }
}

#[inline(always)]
fn byte_digits(byte: u8) -> [u8; 2] {
    let digit = |half: u8| half + if half > 9 { b'a' - 10 } else { b'0' };
    [digit(byte >> 4), digit(byte & 0xf)]
}

/// Returns the digits of eight bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "vector instructions need it; half the instructions of a table")]
fn block_digits(block: &[u8; BLOCK_BYTES]) -> [[u8; 2]; BLOCK_BYTES] {
    use std::arch::x86_64::{
        _mm_add_epi8, _mm_and_si128, _mm_cmpgt_epi8, _mm_loadl_epi64, _mm_set1_epi8,
        _mm_srli_epi16, _mm_storeu_si128, _mm_unpacklo_epi8,
    };
    /// Distance between the digit after `9` and `a`.
    const LETTERS: i8 = (b'a' - b'0') as i8 - 10;
    let mut digits = [[0; 2]; BLOCK_BYTES];
    // SAFETY: SSE2 is part of every x86-64 processor; the load reads exactly the 8 bytes of the
    // block, the store writes exactly the 16 digits, and neither requires an alignment.
    unsafe {
        let bytes = _mm_loadl_epi64(block.as_ptr().cast());
        let pairs = _mm_unpacklo_epi8(_mm_srli_epi16::<4>(bytes), bytes);
        let halves = _mm_and_si128(pairs, _mm_set1_epi8(0xf));
        let letters = _mm_cmpgt_epi8(halves, _mm_set1_epi8(9));
        let text = _mm_add_epi8(halves, _mm_set1_epi8(b'0' as i8));
        let text = _mm_add_epi8(text, _mm_and_si128(letters, _mm_set1_epi8(LETTERS)));
        _mm_storeu_si128(digits.as_mut_ptr().cast(), text);
    }
    digits
}

/// Returns the digits of eight bytes; portable version, for processors without a special one.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn block_digits(block: &[u8; BLOCK_BYTES]) -> [[u8; 2]; BLOCK_BYTES] {
    block.map(byte_digits)
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
            for digits in [to_text(&[byte; 3]), to_text(&[byte; 21])] {
                assert_eq!(digits, format!("{byte:02x}").repeat(digits.len() / 2));
            }
        }
    }

    #[test]
    fn bytes_are_written_in_their_order() {
        let bytes: [u8; 16] = [
            0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba,
            0xdc, 0xfe,
        ];
        assert_eq!(to_text(&bytes), "0123456789abcdef1032547698badcfe");
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
