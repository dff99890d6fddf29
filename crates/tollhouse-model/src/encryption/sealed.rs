//! The form of our own: AES-256-GCM with a random nonce, as a text that says what it is and which
//! key opens it.
//!
//! `tollhouse-sealed:1:<key id>:<nonce, ciphertext and tag in base64url>`. The keys of a ring are
//! texts that also the other form uses; this one works with keys derived of them. The place where a
//! value stands, such as `key-auth.key`, is authenticated with it, so that no sealed value can be
//! moved to a field that shows it.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What every version of the form begins with.
pub(super) const PREFIX: &str = "tollhouse-sealed:";

/// The version that is written.
const VERSION: &str = "1";

/// Bytes of a key's id: enough to keep the keys of a ring apart, and a key from any other.
const ID_BYTES: usize = 8;

/// What seals and opens with one key of a ring. Made once: deriving its key costs more than opening a short text, and
/// a start opens two texts for each consumer.
pub(super) struct Cipher(RandomizedNonceKey);

impl Cipher {
    /// Of a key of the ring.
    pub(super) fn new(key: &[u8]) -> Self {
        let derived = derive(key, b"tollhouse sealing 1");
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, derived.as_ref());
        Self(cipher.expect("a derived key has the cipher's length"))
    }

    /// Seals.
    pub(super) fn seal(&self, id: &str, text: &str, place: &str) -> Result<String, Unspecified> {
        let mut bytes = text.as_bytes().to_vec();
        let aad = Aad::from(place.as_bytes());
        let nonce = self.0.seal_in_place_append_tag(aad, &mut bytes)?;
        let whole = [&nonce.as_ref()[..], &bytes].concat();
        Ok(format!("{PREFIX}{VERSION}:{id}:{}", URL_SAFE_NO_PAD.encode(whole)))
    }

    /// Opens; `None` where the key, the place or the bytes are others than when it was sealed.
    pub(super) fn open(&self, bytes: &[u8], place: &str) -> Option<String> {
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self.0.open_in_place(nonce, Aad::from(place.as_bytes()), &mut sealed);
        std::str::from_utf8(opened.ok()?).ok().map(str::to_owned)
    }
}

/// The id of the key that a text is sealed with, and the bytes; `None` for another version and for
/// what is damaged.
pub(super) fn parts_of(text: &str) -> Option<(&str, Vec<u8>)> {
    let rest = text.strip_prefix(PREFIX)?.strip_prefix(VERSION)?.strip_prefix(':')?;
    let (id, encoded) = rest.split_once(':')?;
    let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
    (bytes.len() > NONCE_LEN).then_some((id, bytes))
}

/// What a key is called: says nothing about the key, and is no other's.
pub(super) fn key_id(key: &[u8]) -> String {
    let derived = derive(key, b"tollhouse key id");
    derived.as_ref().iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Which of `count` buckets a text falls into: says nothing about the text to whom does not have the key.
pub(super) fn bucket(key: &[u8], text: &[u8], count: u32) -> u32 {
    let derived = derive(key, b"tollhouse bucket");
    let tag = derive(derived.as_ref(), text);
    let start = tag.as_ref().first_chunk().copied().unwrap_or_default();
    u32::from_be_bytes(start) % count.max(1)
}

fn derive(key: &[u8], purpose: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), purpose)
}
