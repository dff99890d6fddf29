//! Certificates as PEM text, and conversion to version 1 (RFC 5280 §4.1.2.1). `openssl x509 -req`
//! writes version 1 if it is given no extensions; rcgen only writes version 3.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const SEQUENCE: u8 = 0x30;
const BITS: u8 = 0x03;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// Returns the certificate without version and extensions, with a new signature by `sign`.
///
/// # Panics
///
/// If `certificate` is not DER.
pub fn version_one(certificate: &[u8], sign: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let fields = elements(elements(certificate)[0].1);
    let mut signed = Vec::new();
    for (tag, _, whole) in elements(fields[0].1) {
        if tag != VERSION && tag != EXTENSIONS {
            signed.extend_from_slice(whole);
        }
    }
    let signed = element(SEQUENCE, &signed);
    let mut bits = vec![0];
    bits.extend(sign(&signed));
    let content = [&signed[..], fields[1].2, &element(BITS, &bits)].concat();
    element(SEQUENCE, &content)
}

/// Encodes bytes as PEM, in lines of 64 characters (RFC 7468 §2).
pub fn pem(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----");
    for (place, character) in body.chars().enumerate() {
        if place % 64 == 0 {
            out.push('\n');
        }
        out.push(character);
    }
    format!("{out}\n-----END {label}-----\n")
}

/// Splits DER into elements: tag, content, and whole bytes of each.
fn elements(mut bytes: &[u8]) -> Vec<(u8, &[u8], &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let octets = if bytes[1] < 0x80 { 0 } else { usize::from(bytes[1] & 0x7f) };
        let length = match octets {
            0 => usize::from(bytes[1]),
            _ => bytes[2..2 + octets].iter().fold(0, |sum, octet| sum << 8 | usize::from(*octet)),
        };
        let (whole, rest) = bytes.split_at(2 + octets + length);
        found.push((whole[0], &whole[2 + octets..], whole));
        bytes = rest;
    }
    found
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("certificates are short").to_be_bytes();
    let mut out = match content.len() {
        0..0x80 => vec![tag, length[1]],
        0x80..0x100 => vec![tag, 0x81, length[1]],
        _ => vec![tag, 0x82, length[0], length[1]],
    };
    out.extend_from_slice(content);
    out
}
