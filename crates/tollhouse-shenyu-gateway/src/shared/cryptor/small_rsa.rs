//! RSA with keys of 512 to 2047 bits, which Java accepts and the system's cryptography library
//! refuses. Keys of this size can be broken with enough machines; the only use for them is to go on
//! with rules written for ShenYu. Arithmetic is not in constant time: private operations are
//! blinded instead (RFC 8017 §5.1.2, Kocher 1996).

use aws_lc_rs::rand;
use num_bigint::BigUint;

/// Accepted sizes of a modulus in bits: from Java's minimum to below the minimum of the system's
/// cryptography library.
const BITS: std::ops::Range<u64> = 512..2048;

/// Bytes of padding in each block (RFC 8017 §7.2.1): two at the start, at least eight at random,
/// and a zero.
const PADDING_BYTES: usize = 11;

/// `rsaEncryption` as an OBJECT IDENTIFIER in DER.
const RSA_OID: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// Public key: a modulus and the public exponent.
pub(super) struct PublicKey {
    modulus: BigUint,
    exponent: BigUint,
}

/// Private key: the public key with the private exponent.
pub(super) struct PrivateKey {
    public: PublicKey,
    exponent: BigUint,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo (RFC 5280 §4.1); `None` for other keys and sizes.
    pub(super) fn from_spki(der: &[u8]) -> Option<Self> {
        let (outer, _) = value(SEQUENCE, der)?;
        let (algorithm, rest) = value(SEQUENCE, outer)?;
        let (bits, _) = value(BIT_STRING, rest)?;
        let (numbers, _) = value(SEQUENCE, bits.strip_prefix(b"\0")?)?;
        let (modulus, rest) = integer(numbers)?;
        let (exponent, _) = integer(rest)?;
        Self::new(modulus, exponent).filter(|_| algorithm.starts_with(RSA_OID))
    }

    fn new(modulus: BigUint, exponent: BigUint) -> Option<Self> {
        let is_key = BITS.contains(&modulus.bits())
            && modulus.bit(0)
            && exponent > BigUint::from(1_u8)
            && exponent < modulus;
        is_key.then_some(Self { modulus, exponent })
    }

    fn size_bytes(&self) -> usize {
        // At most 256 bytes.
        usize::try_from(self.modulus.bits().div_ceil(8)).unwrap_or(0)
    }

    /// Encrypts a text; `None` if it is too long.
    pub(super) fn encrypt(&self, text: &[u8]) -> Option<Vec<u8>> {
        let padding = self.size_bytes().checked_sub(PADDING_BYTES + text.len())?;
        let mut block = vec![0, 2];
        for _ in 0..padding + PADDING_BYTES - 3 {
            block.push(nonzero_byte()?);
        }
        block.push(0);
        block.extend_from_slice(text);
        let number = BigUint::from_bytes_be(&block).modpow(&self.exponent, &self.modulus);
        Some(self.block(&number))
    }

    /// Encodes a number as a block of the key's size.
    fn block(&self, number: &BigUint) -> Vec<u8> {
        let bytes = number.to_bytes_be();
        let mut block = vec![0; self.size_bytes().saturating_sub(bytes.len())];
        block.extend(bytes);
        block
    }
}

impl PrivateKey {
    /// Reads a PKCS#8 key (RFC 5958); `None` for other keys and sizes.
    pub(super) fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let (outer, _) = value(SEQUENCE, der)?;
        let (_, rest) = integer(outer)?;
        let (algorithm, rest) = value(SEQUENCE, rest)?;
        let (key, _) = value(OCTET_STRING, rest)?;
        let (numbers, _) = value(SEQUENCE, key)?;
        let (_, rest) = integer(numbers)?;
        let (modulus, rest) = integer(rest)?;
        let (exponent, rest) = integer(rest)?;
        let (private, _) = integer(rest)?;
        let is_private = algorithm.starts_with(RSA_OID) && private < modulus;
        let public = PublicKey::new(modulus, exponent)?;
        is_private.then_some(Self { public, exponent: private })
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.public.size_bytes()
    }

    /// Decrypts a block; `None` if its padding is wrong.
    pub(super) fn decrypt(&self, block: &[u8]) -> Option<Vec<u8>> {
        let PublicKey { modulus, exponent } = &self.public;
        let number = BigUint::from_bytes_be(block);
        if number >= *modulus {
            return None;
        }
        let mut random = vec![0; self.size_bytes()];
        rand::fill(&mut random).ok()?;
        let factor = BigUint::from_bytes_be(&random) % modulus;
        let inverse = factor.modinv(modulus)?;
        let blinded = number * factor.modpow(exponent, modulus) % modulus;
        let plain = blinded.modpow(&self.exponent, modulus) * inverse % modulus;
        unpad(&self.public.block(&plain)).map(<[u8]>::to_vec)
    }
}

/// Returns the text of a padded block; `None` if the padding is invalid.
fn unpad(block: &[u8]) -> Option<&[u8]> {
    let rest = block.strip_prefix(&[0, 2])?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    (end + 3 >= PADDING_BYTES).then(|| &rest[end + 1..])
}

fn nonzero_byte() -> Option<u8> {
    let mut byte = [0];
    while byte == [0] {
        rand::fill(&mut byte).ok()?;
    }
    Some(byte[0])
}

/// Returns the content of the DER value with this tag at the start, and the bytes after it. Lengths
/// in keys take at most two bytes.
fn value(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (length, rest) = match rest {
        [length @ 0..=0x7f, rest @ ..] => (usize::from(*length), rest),
        [0x81, length, rest @ ..] => (usize::from(*length), rest),
        [0x82, high, low, rest @ ..] => (usize::from(*high) << 8 | usize::from(*low), rest),
        _ => return None,
    };
    (*found == tag).then(|| rest.split_at_checked(length)).flatten()
}

fn integer(der: &[u8]) -> Option<(BigUint, &[u8])> {
    let (bytes, rest) = value(INTEGER, der)?;
    // A number with its first bit set is negative.
    let is_positive = bytes.first().is_some_and(|first| *first < 0x80);
    is_positive.then(|| (BigUint::from_bytes_be(bytes), rest))
}
