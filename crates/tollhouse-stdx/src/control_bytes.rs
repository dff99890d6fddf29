//! Finds the first control byte of a text, sixteen bytes at a time.
//!
//! Meant for lines of some dozens of bytes: too short for a call to a search routine, too long to go
//! byte by byte.

/// Bytes that are looked at together: one vector register of every 64-bit processor.
const BLOCK_BYTES: usize = 16;

/// Where the first ASCII control byte stands: anything below space, or DEL.
#[inline]
pub fn control_position(bytes: &[u8]) -> Option<usize> {
    control_position_from(bytes, 0)
}

/// The same among the bytes from `start` on; counted from the start of `bytes`.
#[inline(always)]
pub fn control_position_from(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while let Some(block) = block_at(bytes, at) {
        let controls = control_bits(block);
        if controls != 0 {
            return Some(at + controls.trailing_zeros() as usize);
        }
        at += BLOCK_BYTES;
    }
    control_position_behind_blocks(bytes, at, at > start)
}

/// The same among the less than sixteen bytes from `at` on; `has_block` says that as many before them
/// have been looked at. Apart from the loop, which is worth being part of whoever calls it.
#[inline(never)]
fn control_position_behind_blocks(bytes: &[u8], at: usize, has_block: bool) -> Option<usize> {
    let rest = bytes.get(at..)?;
    if rest.is_empty() {
        return None;
    }
    if let (true, Some(last)) = (has_block, bytes.last_chunk()) {
        // The last sixteen bytes overlap those that were just looked at and have none.
        let controls = control_bits(last);
        let position = bytes.len() - BLOCK_BYTES + controls.trailing_zeros() as usize;
        return (controls != 0).then_some(position);
    }
    position_in_less_than_a_block(rest).map(|found| at + found)
}

/// The block at `at`. Asked for one after the other, blocks cost less than an iterator over them has
/// to prepare: texts are short.
#[inline]
fn block_at(bytes: &[u8], at: usize) -> Option<&[u8; BLOCK_BYTES]> {
    bytes.get(at..)?.first_chunk()
}

/// The same in fewer than sixteen bytes: eight from the front, eight up to the end.
#[inline]
fn position_in_less_than_a_block(bytes: &[u8]) -> Option<usize> {
    let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return bytes.iter().position(u8::is_ascii_control);
    };
    let found = control_byte_of_eight(first);
    found.or_else(|| control_byte_of_eight(last).map(|found| bytes.len() - 8 + found))
}

/// Where the first control byte of eight stands.
#[inline]
fn control_byte_of_eight(bytes: &[u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);
    const DELETES: u64 = u64::from_ne_bytes([0x7f; 8]);
    const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);
    let word = u64::from_le_bytes(*bytes);
    // A subtraction borrows from the byte above only where the byte itself is found, so that the
    // lowest mark is always true.
    let below = word.wrapping_sub(SPACES) & !word;
    let difference = word ^ DELETES;
    let deletes = difference.wrapping_sub(ONES) & !difference;
    let marks = (below | deletes) & HIGH_BITS;
    (marks != 0).then_some(marks.trailing_zeros() as usize / 8)
}

/// One bit a byte, the first byte lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "vector instructions need it; 250 instructions a request head less")]
fn control_bits(block: &[u8; BLOCK_BYTES]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of every x86-64 processor, the load reads exactly the 16 bytes of the
    // block, and it asks for no alignment.
    unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast());
        let below = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        let deletes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
        _mm_movemask_epi8(_mm_or_si128(below, deletes)) as u32
    }
}

/// The same where those instructions are not to be had.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn control_bits(block: &[u8; BLOCK_BYTES]) -> u32 {
    let bytes = block.iter().enumerate();
    bytes.fold(0, |bits, (index, byte)| bits | (u32::from(byte.is_ascii_control()) << index))
}

#[cfg(test)]
mod tests {
    use super::control_position;

    #[test]
    fn every_byte_is_found_alike_at_every_place() {
        for byte in 0..=u8::MAX {
            for length in 1..40 {
                for place in 0..length {
                    let mut text = [b'a'; 40];
                    text[place] = byte;
                    let expected = byte.is_ascii_control().then_some(place);
                    let found = control_position(&text[..length]);
                    assert_eq!(found, expected, "{byte} at {place} of {length}");
                }
            }
        }
        assert_eq!(control_position(b""), None);
    }

    #[test]
    fn of_two_the_first_is_found() {
        for length in 2..40 {
            for first in 0..length - 1 {
                for second in first + 1..length {
                    for (one, other) in [(b'\n', 0x7f), (0x7f, b'\n'), (0, 0x80), (0x7f, 0xff)] {
                        let mut text = [b'a'; 40];
                        text[first] = one;
                        text[second] = other;
                        assert_eq!(control_position(&text[..length]), Some(first));
                    }
                }
            }
        }
    }
}
