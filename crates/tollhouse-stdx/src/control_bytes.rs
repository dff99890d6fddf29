//! Search for control bytes: for the first one in a text, in blocks of sixteen bytes, or for all of
//! them, if they delimit the lines of the text.
//!
//! Optimized for lines of some dozens of bytes: too short for the overhead of a search routine, too
//! long for a loop over bytes.

/// Block size: one vector register of every 64-bit processor.
const BLOCK_BYTES: usize = 16;

/// Number of bytes that [`Controls`] examines at once: one bit each in a word.
const STRIDE_BYTES: usize = 64;

/// Iterator over the control bytes of a growing text. Each byte is examined only once, regardless
/// of the number of control bytes: the part after the end of a line has usually been examined
/// already.
#[derive(Debug, Clone, Copy, Default)]
pub struct Controls {
    /// Control bytes not yet returned: one bit per byte from `base` on, first byte lowest.
    left: u64,
    /// Position of the lowest bit of `left`.
    base: usize,
    /// Number of bytes that were examined.
    seen: usize,
}

impl Controls {
    /// Returns the position of the next control byte; `None` if the text has no further one. The
    /// text may only grow between calls.
    #[inline(always)]
    pub fn next(&mut self, text: &[u8]) -> Option<usize> {
        while self.left == 0 {
            self.base = self.seen;
            let rest = text.get(self.seen..).unwrap_or_default();
            if let Some(stride) = rest.first_chunk() {
                self.left = stride_bits(stride);
                self.seen += STRIDE_BYTES;
            } else {
                self.left = bits_of_less_than_a_stride(rest);
                self.seen += rest.len();
                if self.left == 0 {
                    return None;
                }
            }
        }
        let position = self.base + self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(position)
    }

    /// Skips the byte after the last returned one, which the caller knows to be a control byte too.
    #[inline(always)]
    pub fn skip_adjacent(&mut self) {
        if self.left == 0 {
            // The byte is the first one not yet examined.
            self.seen += 1;
        } else {
            self.left &= self.left - 1;
        }
    }

    /// Puts back position `at`, which was returned last and ends the text. The next call returns it
    /// again, once the text has grown.
    #[inline]
    pub fn put_back(&mut self, at: usize) {
        self.left = 0;
        self.seen = at;
    }
}

/// Returns one bit per byte of a stride, set for control bytes, first byte lowest.
#[inline(always)]
fn stride_bits(stride: &[u8; STRIDE_BYTES]) -> u64 {
    let (blocks, _) = stride.as_chunks::<BLOCK_BYTES>();
    let shifted = |index: usize| u64::from(control_bits(&blocks[index])) << (index * BLOCK_BYTES);
    shifted(0) | shifted(1) | shifted(2) | shifted(3)
}

/// Returns one bit per byte, set for control bytes. `rest` is the end of a text, shorter than the
/// number of bytes examined at once.
#[inline(never)]
fn bits_of_less_than_a_stride(rest: &[u8]) -> u64 {
    let (blocks, end) = rest.as_chunks::<BLOCK_BYTES>();
    let mut bits = 0;
    for (index, block) in blocks.iter().enumerate() {
        bits |= u64::from(control_bits(block)) << (index * BLOCK_BYTES);
    }
    if !end.is_empty() {
        // Padded with spaces, which are not control bytes.
        let mut block = [b' '; BLOCK_BYTES];
        block[..end.len()].copy_from_slice(end);
        bits |= u64::from(control_bits(&block)) << (blocks.len() * BLOCK_BYTES);
    }
    bits
}

/// Returns the position of the first ASCII control byte: below space, or DEL.
#[inline]
pub fn control_position(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(block) = block_at(bytes, at) {
        let controls = control_bits(block);
        if controls != 0 {
            return Some(at + controls.trailing_zeros() as usize);
        }
        at += BLOCK_BYTES;
    }
    control_position_behind_blocks(bytes, at)
}

/// Searches the fewer than sixteen bytes from `at` on, which whole blocks precede. Separate from the loop, so that the loop can be inlined.
#[inline(never)]
fn control_position_behind_blocks(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    if rest.is_empty() {
        return None;
    }
    if let (true, Some(last)) = (at > 0, bytes.last_chunk()) {
        // The last block overlaps the previous one, which has no control byte.
        let controls = control_bits(last);
        let position = bytes.len() - BLOCK_BYTES + controls.trailing_zeros() as usize;
        return (controls != 0).then_some(position);
    }
    position_in_less_than_a_block(rest).map(|found| at + found)
}

/// Returns the block at `at`. For short texts, this is cheaper than preparing an iterator over
/// blocks.
#[inline]
fn block_at(bytes: &[u8], at: usize) -> Option<&[u8; BLOCK_BYTES]> {
    bytes.get(at..)?.first_chunk()
}

/// Searches fewer than sixteen bytes: eight from the front, eight up to the end.
#[inline]
fn position_in_less_than_a_block(bytes: &[u8]) -> Option<usize> {
    let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return bytes.iter().position(u8::is_ascii_control);
    };
    let found = control_byte_of_eight(first);
    found.or_else(|| control_byte_of_eight(last).map(|found| bytes.len() - 8 + found))
}

/// Returns the position of the first control byte among eight.
#[inline]
fn control_byte_of_eight(bytes: &[u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);
    const DELETES: u64 = u64::from_ne_bytes([0x7f; 8]);
    const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);
    let word = u64::from_le_bytes(*bytes);
    // A subtraction borrows from the byte above only if the byte itself is a match, so that the
    // lowest mark is always correct.
    let below = word.wrapping_sub(SPACES) & !word;
    let difference = word ^ DELETES;
    let deletes = difference.wrapping_sub(ONES) & !difference;
    let marks = (below | deletes) & HIGH_BITS;
    (marks != 0).then_some(marks.trailing_zeros() as usize / 8)
}

/// Returns one bit per byte, set for control bytes, first byte lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "vector instructions need it; 250 instructions a request head less")]
fn control_bits(block: &[u8; BLOCK_BYTES]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of every x86-64 processor; the load reads exactly the 16 bytes of the
    // block and requires no alignment.
    unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast());
        let below = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        let deletes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
        _mm_movemask_epi8(_mm_or_si128(below, deletes)) as u32
    }
}

/// Returns the bits of control bytes in a block; portable version, for processors without a special
/// one.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn control_bits(block: &[u8; BLOCK_BYTES]) -> u32 {
    let bytes = block.iter().enumerate();
    bytes.fold(0, |bits, (index, byte)| bits | (u32::from(byte.is_ascii_control()) << index))
}

#[cfg(test)]
mod tests {
    use super::{Controls, control_position};

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
    fn all_of_a_text_are_handed_out_in_order_however_it_arrives() {
        let mut text = [b'a'; 300];
        let controls = [0, 1, 15, 16, 62, 63, 64, 65, 127, 128, 200, 255, 256, 298, 299];
        for at in controls {
            text[at] = if at % 2 == 0 { b'\n' } else { 0x7f };
        }
        text[70] = 0xff;
        for step in 1..=text.len() {
            let mut scan = Controls::default();
            let mut found = Vec::new();
            let mut end = 0;
            while end < text.len() {
                end = text.len().min(end + step);
                while let Some(at) = scan.next(&text[..end]) {
                    found.push(at);
                }
            }
            assert_eq!(found, controls, "{step} at a time");
        }
    }

    #[test]
    fn one_that_is_put_back_comes_again_with_what_follows() {
        let mut scan = Controls::default();
        assert_eq!(scan.next(b"ab\r"), Some(2));
        scan.put_back(2);
        let found: Vec<usize> = std::iter::from_fn(|| scan.next(b"ab\r\nc\r")).collect();
        assert_eq!(found, [2, 3, 5]);
        assert_eq!(scan.next(b"ab\r\nc\rd"), None);
    }

    #[test]
    fn a_pair_is_stepped_over_wherever_it_stands() {
        for at in 0..150 {
            let mut text = [b'a'; 200];
            text[at..at + 2].copy_from_slice(b"\r\n");
            text[at + 3] = b'\r';
            let mut scan = Controls::default();
            assert_eq!(scan.next(&text), Some(at));
            scan.skip_adjacent();
            assert_eq!(scan.next(&text), Some(at + 3));
            assert_eq!(scan.next(&text), None);
        }
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
