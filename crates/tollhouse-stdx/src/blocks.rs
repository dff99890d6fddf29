//! Walks short texts in blocks of one vector register: how far they go on as they should. What that means
//! is said by those who ask, in the modules beside this one.

/// Bytes that are looked at together: one vector register of every 64-bit processor.
pub(crate) const BLOCK_BYTES: usize = 16;

/// How many bytes at the start of `text` are none of those that `others` marks, one bit a byte, the first
/// byte lowest. A zero must be among them.
#[inline(always)]
pub(crate) fn prefix(text: &[u8], others: impl Fn(&[u8; BLOCK_BYTES]) -> u32) -> usize {
    let mut at = 0;
    while let Some(block) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let found = others(block);
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += BLOCK_BYTES;
    }
    if at >= text.len() {
        return text.len();
    }
    if let (true, Some(last)) = (at > 0, text.last_chunk()) {
        // The last sixteen bytes overlap those that were just looked at.
        let found = others(last);
        let found = if found == 0 { BLOCK_BYTES } else { found.trailing_zeros() as usize };
        return text.len() - BLOCK_BYTES + found;
    }
    let mut block = [0; BLOCK_BYTES];
    block[..text.len()].copy_from_slice(text);
    // The zeros behind the text are marked, so that its end is found at the latest.
    others(&block).trailing_zeros() as usize
}
