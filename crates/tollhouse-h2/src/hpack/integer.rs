//! Integers with a prefix (RFC 7541 §5.1).

use super::HpackError;

/// Maximum number of octets after the prefix: 28 bits, far more than any accepted length or index.
/// Longer encodings overflow or pad with zeros (RFC 7541 §5.1 allows rejecting both).
const CONTINUATION_OCTETS_MAX: usize = 4;

/// Reads the integer that starts in the low `prefix_bits` of the first byte. Returns its value and
/// length in bytes.
#[inline]
pub(crate) fn decode(bytes: &[u8], prefix_bits: u32) -> Result<(u32, usize), HpackError> {
    let mask = (1_u32 << prefix_bits) - 1;
    let first = u32::from(*bytes.first().ok_or(HpackError::Truncated)?) & mask;
    if first < mask {
        return Ok((first, 1));
    }
    decode_continued(&bytes[1..], mask)
}

fn decode_continued(bytes: &[u8], mask: u32) -> Result<(u32, usize), HpackError> {
    let mut value = mask;
    for (position, byte) in bytes.iter().take(CONTINUATION_OCTETS_MAX).enumerate() {
        value += u32::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Ok((value, position + 2));
        }
    }
    let is_short = bytes.len() < CONTINUATION_OCTETS_MAX;
    Err(if is_short { HpackError::Truncated } else { HpackError::IntegerOverflow })
}

/// Appends `value` with `flags` in the bits above the prefix.
#[inline]
pub(crate) fn encode(out: &mut Vec<u8>, prefix_bits: u32, flags: u8, value: u32) {
    let mask = (1_u32 << prefix_bits) - 1;
    if value < mask {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_rfc_are_read_and_written() {
        // RFC 7541 appendix C.1.
        for (value, prefix_bits, bytes) in
            [(10, 5, &[10_u8][..]), (1337, 5, &[31, 154, 10]), (42, 8, &[42])]
        {
            assert_eq!(decode(bytes, prefix_bits), Ok((value, bytes.len())));
            let mut out = Vec::new();
            encode(&mut out, prefix_bits, 0, value);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn every_prefix_reads_what_it_wrote() {
        for prefix_bits in 4..=8 {
            for value in (0..300).chain([16_383, 16_384, 65_535, 1 << 20, (1 << 28) - 1]) {
                let mut out = Vec::new();
                encode(&mut out, prefix_bits, 0, value);
                assert_eq!(decode(&out, prefix_bits), Ok((value, out.len())));
                let cut = decode(&out[..out.len() - 1], prefix_bits);
                assert_eq!(cut, Err(HpackError::Truncated));
            }
        }
    }

    #[test]
    fn long_integers_are_an_overflow() {
        for bytes in [
            &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00][..],
            &[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] {
            assert_eq!(decode(bytes, 5), Err(HpackError::IntegerOverflow));
        }
    }
}
