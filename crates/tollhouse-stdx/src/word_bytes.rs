//! Scan for the end of a word in header and host names, in blocks of sixteen bytes.

use crate::blocks::{BLOCK_BYTES, prefix};

/// Returns the length of the longest prefix of `text` of ASCII letters, digits, `-`, `.` and `_`,
/// which nearly all header and host names consist of. Further permitted bytes are left to the
/// grammar of the name.
#[inline]
pub fn word_bytes(text: &[u8]) -> usize {
    prefix(text, other_bits)
}

/// Returns one bit per byte, set for all other bytes, first byte lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "vector instructions need it; 500 instructions a request head less")]
fn other_bits(block: &[u8; BLOCK_BYTES]) -> u32 {
    use std::arch::x86_64::{
        _mm_add_epi8, _mm_andnot_si128, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_loadu_si128,
        _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    /// Returns the offset that maps `first` to the least signed number, so that one comparison
    /// tests a range.
    const fn to_least(first: u8) -> i8 {
        0x80_u8.wrapping_sub(first) as i8
    }
    const LETTERS: i8 = i8::MIN + (b'z' - b'a' + 1) as i8;
    const DASH_TO_NINE: i8 = i8::MIN + (b'9' - b'-' + 1) as i8;
    // SAFETY: SSE2 is part of every x86-64 processor; the load reads exactly the 16 bytes of the
    // block and requires no alignment.
    let words = unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast());
        let folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
        let letters = _mm_cmplt_epi8(
            _mm_add_epi8(folded, _mm_set1_epi8(to_least(b'a'))),
            _mm_set1_epi8(LETTERS),
        );
        // `-`, `.`, `/` and the digits are consecutive.
        let row = _mm_cmplt_epi8(
            _mm_add_epi8(bytes, _mm_set1_epi8(to_least(b'-'))),
            _mm_set1_epi8(DASH_TO_NINE),
        );
        let row = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'/' as i8)), row);
        let underscores = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'_' as i8));
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letters, row), underscores)) as u32
    };
    !words & 0xffff
}

/// Returns the bits of bytes outside words; portable version, for processors without a special one.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn other_bits(block: &[u8; BLOCK_BYTES]) -> u32 {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let bytes = block.iter().enumerate();
    bytes.fold(0, |bits, (index, byte)| bits | (u32::from(!is_word(*byte)) << index))
}

#[cfg(test)]
mod tests {
    use super::word_bytes;

    #[test]
    fn every_byte_ends_a_word_or_does_not_at_every_place() {
        for byte in 0..=u8::MAX {
            let is_word = byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            for length in 1..40 {
                for place in 0..length {
                    let mut text = [b'a'; 40];
                    text[place] = byte;
                    let expected = if is_word { length } else { place };
                    assert_eq!(
                        word_bytes(&text[..length]),
                        expected,
                        "{byte} at {place} of {length}"
                    );
                }
            }
        }
        assert_eq!(word_bytes(b""), 0);
    }
}
