//! Encrypted files, in the form that Polaris' clients decrypt: AES-128 in CBC mode, in base64, with
//! a key for each file. The key is in a tag of the file, and goes to clients encrypted with the RSA
//! key that they send.
//!
//! The first block of the key is the initialisation vector, because clients expect it so. A key
//! encrypts one file, so that this reveals only whether two versions begin alike.

use std::borrow::Cow;

use aws_lc_rs::cipher::{
    AES_128, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use num_bigint::BigUint;
use tollhouse_registry::Metadata;

use super::messages::{ALGORITHM_TAG, DATA_KEY_TAG, ENCRYPTED_TAG};

/// Name of the only algorithm.
pub(crate) const AES: &str = "AES";

const KEY_BYTES: usize = 16;

/// Bytes of padding in a block of PKCS#1 version 1.5, at least.
const PADDING_BYTES: usize = 11;

/// Greatest RSA key in bytes: 4096 bits, because the cost grows with the cube of the length.
const RSA_BYTES_MAX: usize = 512;

/// Greatest exponent in bytes, for the same reason; 65537 has three.
const EXPONENT_BYTES_MAX: usize = 4;

/// Key of one file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct DataKey([u8; KEY_BYTES]);

impl DataKey {
    pub(super) fn random() -> Self {
        let mut key = [0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut key).expect("the system has random bytes");
        Self(key)
    }

    /// Returns the key in the tags of an encrypted file.
    pub(super) fn from_tags(tags: &Metadata) -> Option<Self> {
        let key = STANDARD.decode(&**tags.get(DATA_KEY_TAG)?).ok()?;
        key.try_into().ok().map(Self)
    }

    /// Adds the tags of an encrypted file.
    pub(super) fn put_into(self, tags: &mut Metadata) {
        tags.insert(DATA_KEY_TAG.into(), STANDARD.encode(self.0).into());
        tags.insert(ALGORITHM_TAG.into(), AES.into());
        tags.insert(ENCRYPTED_TAG.into(), "true".into());
    }

    /// Encrypts a content; an empty one stays empty.
    pub(super) fn seal(self, content: &str) -> String {
        if content.is_empty() {
            return String::new();
        }
        let mut bytes = content.as_bytes().to_vec();
        let key = UnboundCipherKey::new(&AES_128, &self.0);
        let key = key.and_then(PaddedBlockEncryptingKey::cbc_pkcs7);
        let vector = EncryptionContext::Iv128(FixedLength::from(self.0));
        key.and_then(|key| key.less_safe_encrypt(&mut bytes, vector))
            .expect("a key of sixteen bytes encrypts any text");
        STANDARD.encode(bytes)
    }

    fn open(self, content: &str) -> Option<String> {
        if content.is_empty() {
            return Some(String::new());
        }
        let mut bytes = STANDARD.decode(content).ok()?;
        let key = UnboundCipherKey::new(&AES_128, &self.0).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let vector = DecryptionContext::Iv128(FixedLength::from(self.0));
        let plain = key.decrypt(&mut bytes, vector).ok()?;
        String::from_utf8(plain.to_vec()).ok()
    }
}

/// Whether the data key of an encrypted file is lost: the store returns an empty text for a key that
/// it cannot open.
pub(super) fn is_key_lost(tags: &Metadata) -> bool {
    tags.get(DATA_KEY_TAG).is_some_and(|key| key.is_empty())
}

/// Returns the plain content of a file with these tags; `None` if it is encrypted and does not
/// decrypt.
pub(super) fn decrypted<'a>(content: &'a str, tags: &Metadata) -> Option<Cow<'a, str>> {
    if !tags.contains_key(DATA_KEY_TAG) {
        return Some(Cow::Borrowed(content));
    }
    DataKey::from_tags(tags)?.open(content).map(Cow::Owned)
}

/// Returns the plain content of a file with these tags. A content that does not decrypt, which a
/// transfer may have brought, is returned as it is.
pub(crate) fn plain<'a>(content: &'a str, tags: &Metadata) -> Cow<'a, str> {
    let opened = DataKey::from_tags(tags).and_then(|key| key.open(content));
    opened.map_or(Cow::Borrowed(content), Cow::Owned)
}

/// Encrypts the data key of a file, in base64, with the RSA key of a client: its PKCS#1 form in
/// base64. Returns `None` if that is not such a key.
pub(super) fn wrap_key(tags: &Metadata, public_key: &str) -> Option<String> {
    let key = DataKey::from_tags(tags)?;
    let public_key = STANDARD.decode(public_key).ok()?;
    let (modulus, exponent) = rsa_numbers(&public_key)?;
    let length = modulus.len();
    if length > RSA_BYTES_MAX
        || exponent.len() > EXPONENT_BYTES_MAX
        || length < KEY_BYTES + PADDING_BYTES
    {
        return None;
    }
    // 0, 2, random bytes without a zero, 0, the key.
    let mut block = vec![0; length];
    block[1] = 2;
    let key_at = length - KEY_BYTES;
    for byte in &mut block[2..key_at - 1] {
        while *byte == 0 {
            aws_lc_rs::rand::fill(std::slice::from_mut(byte)).ok()?;
        }
    }
    block[key_at..].copy_from_slice(&key.0);
    let modulus = BigUint::from_bytes_be(modulus);
    let wrapped =
        BigUint::from_bytes_be(&block).modpow(&BigUint::from_bytes_be(exponent), &modulus);
    let wrapped = wrapped.to_bytes_be();
    let mut whole = vec![0; length - wrapped.len()];
    whole.extend_from_slice(&wrapped);
    Some(STANDARD.encode(whole))
}

/// Returns modulus and exponent of an `RSAPublicKey` (RFC 8017, appendix A.1.1).
fn rsa_numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    const SEQUENCE: u8 = 0x30;
    let (numbers, _) = element(der, SEQUENCE)?;
    let (modulus, rest) = number(numbers)?;
    let (exponent, _) = number(rest)?;
    // An even modulus or one of zero has no meaning, and the library refuses zero.
    let is_odd = modulus.last().is_some_and(|byte| byte % 2 == 1);
    is_odd.then_some((modulus, exponent))
}

/// Returns the bytes of a positive INTEGER without leading zeros, and the rest.
fn number(der: &[u8]) -> Option<(&[u8], &[u8])> {
    const INTEGER: u8 = 0x02;
    let (bytes, rest) = element(der, INTEGER)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some((&bytes[zeros..], rest))
}

/// Returns the contents of a DER element with this tag, and the rest.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&short, rest) = rest.split_first()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81 | 0x82 => {
            let (long, rest) = rest.split_at_checked(usize::from(short - 0x80))?;
            (long.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    if found != tag { None } else { rest.split_at_checked(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags_of(key: DataKey) -> Metadata {
        let mut tags = Metadata::new();
        key.put_into(&mut tags);
        tags
    }

    #[test]
    fn contents_are_encrypted_as_clients_decrypt_them() {
        // Made with OpenSSL: AES-128-CBC, key and vector of the bytes 0 to 15.
        let key = DataKey(std::array::from_fn(|place| place as u8));
        assert_eq!(key.seal("a: 1\n"), SEALED);
        assert_eq!(plain(SEALED, &tags_of(key)), "a: 1\n");
        assert_eq!(key.seal(""), "");
    }

    /// `printf 'a: 1\n' | openssl enc -aes-128-cbc -K 00…0f -iv 00…0f -base64`.
    const SEALED: &str = "yUII88/oPbYto/aQrLyYXg==";

    #[test]
    fn what_is_not_encrypted_stays_as_it_is() {
        assert_eq!(plain("text", &Metadata::new()), "text");
        assert_eq!(plain("no base64!", &tags_of(DataKey::random())), "no base64!");
        assert_eq!(plain("AAAA", &tags_of(DataKey::random())), "AAAA");
    }

    #[test]
    fn a_data_key_is_wrapped_for_the_clients_key_only() {
        let key = DataKey::random();
        let tags = tags_of(key);
        let wrapped = wrap_key(&tags, PUBLIC_KEY).expect("a key of 1024 bits");
        let wrapped = BigUint::from_bytes_be(&STANDARD.decode(wrapped).expect("base64"));
        let number = |text: &str| BigUint::parse_bytes(text.as_bytes(), 16).expect("a number");
        let opened = wrapped.modpow(&number(PRIVATE_EXPONENT), &number(MODULUS)).to_bytes_be();
        assert_eq!((opened[0], opened.len()), (2, 127), "the leading zero is not a digit");
        assert!(opened.ends_with(&key.0));
        assert_eq!(opened[1..110].iter().filter(|byte| **byte == 0).count(), 0);
        assert_eq!(opened[110], 0);
        for other in ["", "!", "AAAA", "MAYCAQICAQM=", &PUBLIC_KEY[..40]] {
            assert_eq!(wrap_key(&tags, other), None, "{other}");
        }
        assert_eq!(wrap_key(&Metadata::new(), PUBLIC_KEY), None);
    }

    const PUBLIC_KEY: &str = "\
        MIGJAoGBAL3Uskszk8Gme5qRXNhINmcGKHjyvP+Ew6k8WuLS/oS2vfL3vxjqux3EWu3OkugcdS7BxUB+SeQ3\
        9y8lOLw4dMYaDc8gG00OKKfmARKcEJ8XfXDH1TH6U/0I9Cnc7icwzM4f7SZx63btJI8qF/+XO8KqvqcAlc49\
        o61+MmUlFaNnAgMBAAE=";
    const MODULUS: &str = "\
        bdd4b24b3393c1a67b9a915cd8483667062878f2bcff84c3a93c5ae2d2fe84b6bdf2f7bf18eabb1dc45a\
        edce92e81c752ec1c5407e49e437f72f2538bc3874c61a0dcf201b4d0e28a7e601129c109f177d70c7d5\
        31fa53fd08f429dcee2730ccce1fed2671eb76ed248f2a17ff973bc2aabea70095ce3da3ad7e32652515\
        a367";
    const PRIVATE_EXPONENT: &str = "\
        9c352f76347e0ce75b6508e316d2ed797f96c45832f02ca6f957420ecec344204054744bdb4c2527cc91\
        6a8907585b3a8e7c433ddbee200f71a76900b3d9dd344fd965d237f913cef40f1372514077d192083b18\
        c4b49d5ac4207f81fceebc9bb5b38171cc4dbd2e6813c7f6aacc162933d536d4ef24d1a3787a7e59a391\
        6421";
}
