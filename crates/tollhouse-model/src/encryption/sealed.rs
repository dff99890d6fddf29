//! Tollhouse's own form: AES-256-GCM with a random nonce, as a text with a prefix and the id of the
//! key.
//!
//! `tollhouse-sealed:1:<key id>:<nonce, ciphertext and tag in base64url>`. The form of APISIX uses
//! the keys of a ring directly; this one derives its keys from them. The place of a value, such as
//! `key-auth.key`, is authenticated, so that a sealed value cannot be moved to a field that is
//! displayed.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Prefix of all versions of the form.
pub(super) const PREFIX: &str = "tollhouse-sealed:";

/// Format version of newly sealed values.
const VERSION: &str = "1";

/// Length of a key's id in bytes; enough to be unique.
const ID_BYTES: usize = 8;

/// Cipher for one key of a ring. The ring keeps it, because deriving its key costs more than
/// opening a short text, and startup opens two texts per consumer.
pub(super) struct Cipher(RandomizedNonceKey);

impl Cipher {
    /// Derives the cipher from a key of the ring.
    pub(super) fn new(key: &[u8]) -> Self {
        let derived = derive(key, b"tollhouse sealing 1");
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, derived.as_ref());
        Self(cipher.expect("a derived key has the cipher's length"))
    }

    pub(super) fn seal(&self, id: &str, text: &str, place: &str) -> Result<String, Unspecified> {
        let mut bytes = text.as_bytes().to_vec();
        let aad = Aad::from(place.as_bytes());
        let nonce = self.0.seal_in_place_append_tag(aad, &mut bytes)?;
        let whole = [&nonce.as_ref()[..], &bytes].concat();
        Ok(format!("{PREFIX}{VERSION}:{id}:{}", URL_SAFE_NO_PAD.encode(whole)))
    }

    /// Opens a sealed value; `None` if the key, the place or the bytes differ from those at
    /// sealing.
    pub(super) fn open(&self, bytes: &[u8], place: &str) -> Option<String> {
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self.0.open_in_place(nonce, Aad::from(place.as_bytes()), &mut sealed);
        std::str::from_utf8(opened.ok()?).ok().map(str::to_owned)
    }
}

/// Returns the key id and the bytes of a sealed text; `None` for another version and for a damaged
/// text.
pub(super) fn parts_of(text: &str) -> Option<(&str, Vec<u8>)> {
    let rest = text.strip_prefix(PREFIX)?.strip_prefix(VERSION)?.strip_prefix(':')?;
    let (id, encoded) = rest.split_once(':')?;
    let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
    (bytes.len() > NONCE_LEN).then_some((id, bytes))
}

/// Derives the id of a key. The id is unique and reveals nothing about the key.
pub(super) fn key_id(key: &[u8]) -> String {
    let derived = derive(key, b"tollhouse key id");
    derived.as_ref().iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bucket of a text, out of `count`. Without the key, the bucket reveals nothing about
/// the text.
pub(super) fn bucket(key: &[u8], text: &[u8], count: u32) -> u32 {
    let derived = derive(key, b"tollhouse bucket");
    let tag = derive(derived.as_ref(), text);
    let start = tag.as_ref().first_chunk().copied().unwrap_or_default();
    u32::from_be_bytes(start) % count.max(1)
}

fn derive(key: &[u8], purpose: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), purpose)
}
