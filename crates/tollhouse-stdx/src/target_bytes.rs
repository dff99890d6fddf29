//! Validation of the path and query of a request in one pass, in blocks of sixteen bytes: finds
//! forbidden bytes and the beginning of the query. The full grammar of a target is checked
//! elsewhere.

/// Block size: one vector register of every 64-bit processor.
const BLOCK_BYTES: usize = 16;

/// Result of scanning a path with its query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetBytes {
    /// Whether it contains a control byte, a space, a `#`, or a byte outside ASCII.
    pub has_stray: bool,
    /// Position of the first question mark, if any.
    pub mark: Option<usize>,
}

/// Scans the first `length` bytes of `text`. The bytes after them are ignored; passing them allows
/// whole blocks, which are faster than partial ones.
#[inline]
pub fn target_bytes(text: &[u8], length: usize) -> TargetBytes {
    let length = length.min(text.len());
    let (mut strays, mut mark) = (0, None);
    let mut at = 0;
    while at < length {
        let found = match text.get(at..).and_then(<[u8]>::first_chunk) {
            Some(block) => bits(block),
            None => {
                let mut block = [b'/'; BLOCK_BYTES];
                let rest = &text[at..length];
                block[..rest.len()].copy_from_slice(rest);
                bits(&block)
            }
        };
        let counted = if length - at < BLOCK_BYTES { (1 << (length - at)) - 1 } else { u32::MAX };
        strays |= found.strays & counted;
        let marks = found.marks & counted;
        if mark.is_none() && marks != 0 {
            mark = Some(at + marks.trailing_zeros() as usize);
        }
        at += BLOCK_BYTES;
    }
    TargetBytes { has_stray: strays != 0, mark }
}

/// Results of a block: one bit per byte, first byte lowest.
struct Bits {
    strays: u32,
    marks: u32,
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "vector instructions need it; 120 instructions a request head less")]
fn bits(block: &[u8; BLOCK_BYTES]) -> Bits {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of every x86-64 processor; the load reads exactly the 16 bytes of the
    // block and requires no alignment.
    let (strays, marks) = unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast());
        // As signed numbers, bytes outside ASCII are below all others.
        let low = _mm_cmpgt_epi8(_mm_set1_epi8(b'!' as i8), bytes);
        let deletes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
        let hashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'#' as i8));
        let strays = _mm_or_si128(low, _mm_or_si128(deletes, hashes));
        let marks = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'?' as i8));
        (_mm_movemask_epi8(strays), _mm_movemask_epi8(marks))
    };
    Bits { strays: strays as u32, marks: marks as u32 }
}

/// Returns the bits of a block; portable version, for processors without a special one.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn bits(block: &[u8; BLOCK_BYTES]) -> Bits {
    let mut bits = Bits { strays: 0, marks: 0 };
    for (index, &byte) in block.iter().enumerate() {
        bits.strays |= u32::from(byte <= b' ' || byte >= 0x7f || byte == b'#') << index;
        bits.marks |= u32::from(byte == b'?') << index;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_judged_alike_at_every_place_whatever_follows() {
        for byte in 0..=u8::MAX {
            let is_stray = byte <= b' ' || byte >= 0x7f || byte == b'#';
            for length in 1..36 {
                for place in 0..length {
                    // Behind what counts, everything is what would be found in it.
                    for behind in [&b""[..], b"?", b"# HTTP/1.1\r\nHost: ?\xff\x7f???"] {
                        let mut text = vec![b'a'; length];
                        text[place] = byte;
                        text.extend_from_slice(behind);
                        let expected = TargetBytes {
                            has_stray: is_stray,
                            mark: (byte == b'?').then_some(place),
                        };
                        assert_eq!(target_bytes(&text, length), expected, "{byte} at {place}");
                    }
                }
            }
        }
        let nothing = TargetBytes { has_stray: false, mark: None };
        assert_eq!(target_bytes(b"", 0), nothing);
        assert_eq!(target_bytes(b"?#", 0), nothing);
    }

    #[test]
    fn of_several_marks_the_first_is_found() {
        let text = [b'?'; 40];
        for length in 1..=text.len() {
            assert_eq!(target_bytes(&text, length).mark, Some(0));
            let mut text = text;
            text[..length - 1].fill(b'/');
            assert_eq!(target_bytes(&text, text.len()).mark, Some(length - 1));
        }
    }
}
