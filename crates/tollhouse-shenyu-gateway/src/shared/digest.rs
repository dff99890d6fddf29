//! MD5 (RFC 1321) and HMAC-MD5 (RFC 2104), for old signature schemes only: MD5 is broken.

/// Block size of the digest in bytes.
const BLOCK_BYTES: usize = 64;

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// Returns the digest of the concatenated parts.
pub(crate) fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut message: Vec<u8> = parts.concat();
    let bits = (message.len() as u64).wrapping_mul(8);
    message.push(0x80);
    message.resize(message.len().next_multiple_of(BLOCK_BYTES), 0);
    if message.len() - parts.iter().map(|part| part.len()).sum::<usize>() < 9 {
        message.resize(message.len() + BLOCK_BYTES, 0);
    }
    let length_at = message.len() - 8;
    message[length_at..].copy_from_slice(&bits.to_le_bytes());

    let constants = constants();
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in message.chunks_exact(BLOCK_BYTES) {
        absorb(&mut state, block, &constants);
    }
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

pub(crate) fn hmac_md5(key: &[u8], message: &[u8]) -> [u8; 16] {
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..16].copy_from_slice(&md5(&[key]));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = md5(&[&block.map(|byte| byte ^ 0x36), message]);
    md5(&[&block.map(|byte| byte ^ 0x5c), &inner])
}

/// Encodes bytes as upper-case hexadecimal digits.
pub(crate) fn upper_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Computes the constants of RFC 1321 §3.4: the integer part of 2^32 times |sin(i)|, i from 1 to
/// 64.
fn constants() -> [u32; 64] {
    let mut i = 0.0_f64;
    [(); 64].map(|()| {
        i += 1.0;
        // Always below 2^32, because the sine of a whole number is never exactly 1.
        (i.sin().abs() * 4_294_967_296.0) as u32
    })
}

fn absorb(state: &mut [u32; 4], block: &[u8], constants: &[u32; 64]) {
    let mut words = [0_u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for (step, constant) in constants.iter().enumerate() {
        let (mixed, word) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sum = a.wrapping_add(mixed).wrapping_add(*constant).wrapping_add(words[word]);
        let rotated = sum.rotate_left(SHIFTS[step / 16][step % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(rotated));
    }
    for (kept, added) in state.iter_mut().zip([a, b, c, d]) {
        *kept = kept.wrapping_add(added);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_of_rfc_1321() {
        let cases = [
            ("", "D41D8CD98F00B204E9800998ECF8427E"),
            ("a", "0CC175B9C0F1B6A831C399E269772661"),
            ("abc", "900150983CD24FB0D6963F7D28E17F72"),
            ("message digest", "F96B697D7CB7938D525A2F31AAF161D0"),
            ("abcdefghijklmnopqrstuvwxyz", "C3FCD3D76192E4007DFB496CCA67E13B"),
            (&"1234567890".repeat(8), "57EDF4A22BE3C955AC49DA2E2107B67A"),
        ];
        for (text, digest) in cases {
            assert_eq!(upper_hex(&md5(&[text.as_bytes()])), digest, "{text}");
        }
    }

    #[test]
    fn md5_does_not_depend_on_parts_and_takes_every_length() {
        let text = [b'x'; 200];
        for length in 0..text.len() {
            let whole = md5(&[&text[..length]]);
            assert_eq!(md5(&[&text[..length / 2], &text[length / 2..length]]), whole);
        }
    }

    #[test]
    fn hmac_md5_of_rfc_2104() {
        let cases: [(&[u8], &[u8], &str); 3] = [
            (&[0x0b; 16], b"Hi There", "9294727A3638BB1C13F48EF8158BFC9D"),
            (b"Jefe", b"what do ya want for nothing?", "750C783E6AB0B503EAA86E310A5DB738"),
            (&[0xaa; 16], &[0xdd; 50], "56BE34521D144C88DBB8C733F0E8B3F6"),
        ];
        for (key, message, digest) in cases {
            assert_eq!(upper_hex(&hmac_md5(key, message)), digest);
        }
    }
}
