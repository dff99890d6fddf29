//! Finds the first control byte of a text, sixteen bytes at a time.
//!
//! Meant for lines of some dozens of bytes: too short for a call to a search routine, too long to go
//! byte by byte.

/// Where the first ASCII control byte stands: anything below space, or DEL.
#[inline]
pub fn control_position(bytes: &[u8]) -> Option<usize> {
    let (blocks, rest) = bytes.as_chunks::<16>();
    for (index, block) in blocks.iter().enumerate() {
        let controls = control_bits(block);
        if controls != 0 {
            return Some(index * 16 + controls.trailing_zeros() as usize);
        }
    }
    let found = rest.iter().position(u8::is_ascii_control)?;
    Some(blocks.len() * 16 + found)
}

/// One bit a byte, the first byte lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "vector instructions need it; 250 instructions a request head less")]
fn control_bits(block: &[u8; 16]) -> u32 {
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
fn control_bits(block: &[u8; 16]) -> u32 {
    let bytes = block.iter().enumerate();
    bytes.fold(0, |bits, (index, byte)| bits | (u32::from(byte.is_ascii_control()) << index))
}

#[cfg(test)]
mod tests {
    use super::control_position;

    #[test]
    fn every_byte_is_judged_alike_at_every_place() {
        for byte in 0..=u8::MAX {
            for place in 0..40 {
                let mut text = [b'a'; 40];
                text[place] = byte;
                let expected = byte.is_ascii_control().then_some(place);
                assert_eq!(control_position(&text), expected, "{byte} at {place}");
            }
        }
        assert_eq!(control_position(b""), None);
    }
}
