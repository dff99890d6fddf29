//! The Huffman code of RFC 7541 §5.2 and appendix B.
//!
//! The code is canonical: codes of the same length increase with their symbols. The lengths
//! therefore define the code, and the tables are computed from them at compile time. Decoding looks
//! up eight bits at a time, which covers all letters, digits and common punctuation; longer codes
//! are found by their length.

use super::HpackError;

/// Code length of each symbol in bits; the last one is EOS.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];

/// The end-of-string symbol: a string that contains it is rejected.
const EOS: usize = 256;
/// Length of the longest code in bits.
const LENGTH_MAX: usize = 30;
/// Number of bits used in the first lookup.
const SHORT_BITS: u32 = 8;
/// Length of the shortest code that the first lookup does not find, in bits.
const LONG_LENGTH_MIN: usize = 10;

/// All tables computed from the lengths.
struct Code {
    /// Bit pattern of each symbol, in its low bits.
    codes: [u32; 257],
    /// Symbols in the order of their codes.
    symbols: [u16; 257],
    /// The first code of each length, and below, its position in `symbols`.
    first_code: [u32; LENGTH_MAX + 1],
    first_position: [u16; LENGTH_MAX + 1],
    /// The end of each length's codes: the last code plus one.
    end_code: [u32; LENGTH_MAX + 1],
    /// Length and symbol for the next eight bits; 0 if the code is longer.
    short: [u16; 256],
}

static CODE: Code = make();

const fn make() -> Code {
    let mut code = Code {
        codes: [0; 257],
        symbols: [0; 257],
        first_code: [0; LENGTH_MAX + 1],
        first_position: [0; LENGTH_MAX + 1],
        end_code: [0; LENGTH_MAX + 1],
        short: [0; 256],
    };
    let mut next = 0_u32;
    let mut position = 0;
    let mut length = 1;
    while length <= LENGTH_MAX {
        next <<= 1;
        code.first_code[length] = next;
        code.first_position[length] = position as u16;
        let mut symbol = 0;
        while symbol <= EOS {
            if LENGTHS[symbol] as usize == length {
                code.codes[symbol] = next;
                code.symbols[position] = symbol as u16;
                fill_short(&mut code.short, next, length as u32, symbol as u16);
                next += 1;
                position += 1;
            }
            symbol += 1;
        }
        code.end_code[length] = next;
        length += 1;
    }
    // A complete code leaves no code unused.
    assert!(next == 1 << LENGTH_MAX && position == 257);
    code
}

const fn fill_short(short: &mut [u16; 256], code: u32, length: u32, symbol: u16) {
    if length > SHORT_BITS {
        return;
    }
    let spare = SHORT_BITS - length;
    let mut index = code << spare;
    let end = (code + 1) << spare;
    while index < end {
        short[index as usize] = (length as u16) << 8 | symbol;
        index += 1;
    }
}

/// Returns the maximum decoded length of a string of `encoded_bytes`: no code is shorter than five
/// bits.
pub(crate) fn decoded_bytes_max(encoded_bytes: usize) -> usize {
    encoded_bytes * 8 / 5
}

/// Decodes `input` into `out`, which must have at least [`decoded_bytes_max`] bytes, and returns
/// the number of bytes written.
pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, HpackError> {
    // Bits not yet decoded, from the top; the bits below are zero.
    let mut window = 0_u64;
    let mut bits = 0_u32;
    let mut rest = input;
    let mut written = 0;
    loop {
        if bits < LENGTH_MAX as u32 {
            refill(&mut window, &mut bits, &mut rest);
        }
        let short = CODE.short[(window >> 56) as usize];
        let (length, symbol) = if short != 0 {
            (u32::from(short >> 8), short as u8)
        } else {
            let (length, symbol) = long_code(window);
            if symbol == EOS as u16 && length <= bits {
                return Err(HpackError::Huffman);
            }
            (length, symbol as u8)
        };
        if length > bits {
            break;
        }
        out[written] = symbol;
        written += 1;
        window <<= length;
        bits -= length;
    }
    // The remaining bits are padding: fewer than eight bits, all ones.
    let padding = if bits == 0 { 0 } else { window >> (64 - bits) };
    if bits > 7 || padding != (1 << bits) - 1 {
        return Err(HpackError::Huffman);
    }
    Ok(written)
}

/// Reads as many whole bytes into the window as fit.
#[inline(always)]
fn refill(window: &mut u64, bits: &mut u32, rest: &mut &[u8]) {
    if let Some(chunk) = rest.first_chunk::<8>() {
        *window |= u64::from_be_bytes(*chunk) >> *bits;
        let taken = (63 - *bits) / 8;
        *rest = &rest[taken as usize..];
        *bits += taken * 8;
        // A partly read byte will be read again, so its bits are cleared.
        *window &= !0 << (64 - *bits);
        return;
    }
    while *bits <= 56 {
        let Some((&byte, after)) = rest.split_first() else { return };
        *window |= u64::from(byte) << (56 - *bits);
        *bits += 8;
        *rest = after;
    }
}

/// Returns the length and symbol of the code at the top of `window`, which has at least ten bits.
fn long_code(window: u64) -> (u32, u16) {
    let mut length = LONG_LENGTH_MIN;
    loop {
        let code = (window >> (64 - length)) as u32;
        // The code is complete, so it is found at some length.
        if code < CODE.end_code[length] || length == LENGTH_MAX {
            let offset = code - CODE.first_code[length];
            let position = usize::from(CODE.first_position[length]) + offset as usize;
            return (length as u32, CODE.symbols[position]);
        }
        length += 1;
    }
}

/// Returns the length of `text` when encoded, in bytes.
pub(crate) fn encoded_bytes(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends `text` in Huffman code, padded to whole bytes.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    // Bits not yet written, at the bottom; fewer than 32 between symbols.
    let mut window = 0_u64;
    let mut bits = 0_u32;
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        window = window << length | u64::from(CODE.codes[usize::from(byte)]);
        bits += length;
        if bits >= 32 {
            bits -= 32;
            out.extend_from_slice(&((window >> bits) as u32).to_be_bytes());
        }
    }
    while bits >= 8 {
        bits -= 8;
        out.push((window >> bits) as u8);
    }
    if bits > 0 {
        out.push((window << (8 - bits)) as u8 | 0xff >> bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = vec![0; decoded_bytes_max(input.len())];
        let length = decode(input, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), encoded_bytes(text));
        out
    }

    #[test]
    fn codes_are_those_of_the_rfc() {
        for (symbol, code) in [
            (0, 0x1ff8),
            (b'\n'.into(), 0x3fff_fffc),
            (b' '.into(), 0x14),
            (b'0'.into(), 0x0),
            (b'a'.into(), 0x3),
            (b'z'.into(), 0x7b),
            (b'{'.into(), 0x7ffe),
            (128, 0xfffe6),
            (249, 0xfff_fffe),
            (255, 0x3ff_ffee),
            (EOS, 0x3fff_ffff),
        ] {
            assert_eq!(CODE.codes[symbol], code, "{symbol}");
        }
    }

    #[test]
    fn each_byte_survives() {
        for byte in 0..=u8::MAX {
            for count in 1..20 {
                let text = vec![byte; count];
                assert_eq!(decoded(&encoded(&text)), Ok(text));
            }
        }
    }

    #[test]
    fn bad_endings_are_refused() {
        // `0` is five zero bits. Cases: eight bits of padding, zero padding, a complete EOS and a
        // partial one.
        for input in
            [&[0x07, 0xff][..], &[0x00], &[0x00, 0x00], &[0xff, 0xff, 0xff, 0xff], &[0xff], &[0xfe]]
        {
            let is_refused = decoded(input) == Err(HpackError::Huffman);
            // Two zero bytes are three times `0`, followed by a zero bit.
            assert!(is_refused, "{input:x?}");
        }
        assert_eq!(decoded(&[0x07]), Ok(b"0".to_vec()));
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn any_text_survives(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(decoded(&encoded(&text)), Ok(text));
        }

        #[test]
        fn what_is_decoded_encodes_to_the_same(input in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(text) = decoded(&input) {
                prop_assert_eq!(encoded(&text), input);
            }
        }
    }
}
