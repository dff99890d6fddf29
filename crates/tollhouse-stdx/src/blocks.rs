//! Scans short texts in blocks of one vector register for the first byte outside a set. The
//! neighbouring modules define the sets.

/// Block size: one vector register of every 64-bit processor.
pub(crate) const BLOCK_BYTES: usize = 16;

/// Returns the length of the longest prefix of `text` without a byte that `others` marks. `others`
/// returns one bit per byte, first byte lowest, and must mark zero bytes.
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
        // The last block overlaps the previous one.
        let found = others(last);
        let found = if found == 0 { BLOCK_BYTES } else { found.trailing_zeros() as usize };
        return text.len() - BLOCK_BYTES + found;
    }
    let mut block = [0; BLOCK_BYTES];
    block[..text.len()].copy_from_slice(text);
    // The padding zeros are marked, so that the end of the text is always found.
    others(&block).trailing_zeros() as usize
}
