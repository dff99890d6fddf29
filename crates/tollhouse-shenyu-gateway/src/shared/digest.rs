//! MD5 (RFC 1321) and HMAC-MD5 (RFC 2104), for old signature schemes only: MD5 is broken.

use md5::{Digest as _, Md5};

/// Block size in bytes.
const BLOCK_BYTES: usize = 64;

/// Returns the digest of the concatenated parts.
pub(crate) fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut digest = Md5::new();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize().into()
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
