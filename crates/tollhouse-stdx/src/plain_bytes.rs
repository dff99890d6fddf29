//! Scan for the part of a text that needs no escaping in quotes, in blocks of sixteen bytes. The
//! caller escapes the other bytes.

use crate::blocks::{BLOCK_BYTES, prefix};

/// Returns the length of the longest prefix of `text` of printable ASCII without quotes and
/// backslashes.
#[inline]
pub fn plain_bytes(text: &[u8]) -> usize {
    prefix(text, other_bits)
}

/// Returns one bit per byte, set for all other bytes, first byte lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(
    unsafe_code,
    reason = "vector instructions need it; 150 instructions a line of a log less"
)]
fn other_bits(block: &[u8; BLOCK_BYTES]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of every x86-64 processor; the load reads exactly the 16 bytes of the
    // block and requires no alignment.
    unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast());
        // As signed numbers, bytes outside ASCII are below all others.
        let low = _mm_cmpgt_epi8(_mm_set1_epi8(b' ' as i8), bytes);
        let deletes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        let others = _mm_or_si128(_mm_or_si128(low, deletes), _mm_or_si128(quotes, backslashes));
        _mm_movemask_epi8(others) as u32
    }
}

/// Returns the bits of bytes that are not plain; portable version, for processors without a special
/// one.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn other_bits(block: &[u8; BLOCK_BYTES]) -> u32 {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    let bytes = block.iter().enumerate();
    bytes.fold(0, |bits, (index, byte)| bits | (u32::from(!is_plain(*byte)) << index))
}

#[cfg(test)]
mod tests {
    use super::plain_bytes;

    #[test]
    fn every_byte_is_plain_or_is_not_at_every_place() {
        for byte in 0..=u8::MAX {
            let is_plain = matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte);
            for length in 1..40 {
                for place in 0..length {
                    let mut text = [b'a'; 40];
                    text[place] = byte;
                    let expected = if is_plain { length } else { place };
                    assert_eq!(plain_bytes(&text[..length]), expected, "{byte} at {place}");
                }
            }
        }
        assert_eq!(plain_bytes(b""), 0);
    }
}
