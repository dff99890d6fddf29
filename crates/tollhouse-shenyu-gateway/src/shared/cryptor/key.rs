//! Keys of the two plugins. Keys of 2048 bits and more use the system's cryptography library, which
//! refuses smaller ones; `small_rsa.rs` implements those.

use aws_lc_rs::rsa::{
    Pkcs1PrivateDecryptingKey, Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::small_rsa::{PrivateKey, PublicKey};

/// Bytes of a block that the padding takes.
const PADDING_BYTES: usize = 11;

/// Public key with which values are encrypted.
pub(super) enum Public {
    Large(Pkcs1PublicEncryptingKey),
    Small(PublicKey),
}

/// Private key with which values are decrypted.
pub(super) struct Private {
    key: PrivateSize,
    /// Key that derives the substitute texts of badly padded blocks.
    made_up: hmac::Key,
}

enum PrivateSize {
    Large(Pkcs1PrivateDecryptingKey),
    Small(PrivateKey),
}

/// Why a text is not a key.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("`{0}` is not base64")]
    Base64(&'static str),
    #[error("`encryptKey` is not an RSA public key (SubjectPublicKeyInfo) of 512 to 8192 bits")]
    Public,
    #[error("`decryptKey` is not an RSA private key (PKCS#8) of 512 to 8192 bits")]
    Private,
}

/// Decodes base64, with or without the lines of PEM around it.
fn decode(member: &'static str, text: &str) -> Result<Vec<u8>, KeyError> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("-----"));
    let text: String = lines.flat_map(str::split_whitespace).collect();
    STANDARD.decode(text).map_err(|_| KeyError::Base64(member))
}

impl Public {
    /// Reads a SubjectPublicKeyInfo in base64.
    pub(super) fn read(text: &str) -> Result<Self, KeyError> {
        let der = decode("encryptKey", text)?;
        if let Some(key) = PublicKey::from_spki(&der) {
            return Ok(Self::Small(key));
        }
        PublicEncryptingKey::from_der(&der)
            .ok()
            .and_then(|key| Pkcs1PublicEncryptingKey::new(key).ok())
            .map(Self::Large)
            .ok_or(KeyError::Public)
    }

    /// Encrypts a text; `None` if it is too long.
    pub(super) fn encrypt(&self, text: &str) -> Option<String> {
        let block = match self {
            Self::Small(key) => key.encrypt(text.as_bytes())?,
            Self::Large(key) if text.len() > key.max_plaintext_size() => return None,
            Self::Large(key) => {
                let mut block = vec![0; key.ciphertext_size()];
                key.encrypt(text.as_bytes(), &mut block).ok()?.to_vec()
            }
        };
        Some(STANDARD.encode(block))
    }
}

impl Private {
    /// Reads a PKCS#8 key in base64.
    pub(super) fn read(text: &str) -> Result<Self, KeyError> {
        let der = decode("decryptKey", text)?;
        let key = match PrivateKey::from_pkcs8(&der) {
            Some(key) => PrivateSize::Small(key),
            None => PrivateDecryptingKey::from_pkcs8(&der)
                .ok()
                .and_then(|key| Pkcs1PrivateDecryptingKey::new(key).ok())
                .map(PrivateSize::Large)
                .ok_or(KeyError::Private)?,
        };
        let seed = digest::digest(&digest::SHA256, &der);
        Ok(Self { key, made_up: hmac::Key::new(hmac::HMAC_SHA256, seed.as_ref()) })
    }

    /// Decrypts a text; `None` if it cannot be a block of this key. A badly padded block decrypts
    /// to a made-up text, which is constant for the block: a caller that could tell bad padding
    /// from good could decrypt without the key, block by block (Bleichenbacher 1998).
    pub(super) fn decrypt(&self, text: &str) -> Option<String> {
        let bytes = match &self.key {
            PrivateSize::Large(key) => key.key_size_bytes(),
            PrivateSize::Small(key) => key.size_bytes(),
        };
        // The base64 of a block is never longer.
        if text.len() > bytes * 2 {
            return None;
        }
        let text: String = text.split_whitespace().collect();
        let block = STANDARD.decode(text).ok().filter(|block| block.len() == bytes)?;
        let made_up = self.make_up(&block);
        let plain = match &self.key {
            PrivateSize::Small(key) => key.decrypt(&block),
            PrivateSize::Large(key) => {
                let mut plain = vec![0; key.min_output_size()];
                key.decrypt(&block, &mut plain).ok().map(|plain| plain.to_vec())
            }
        };
        Some(String::from_utf8_lossy(plain.as_deref().unwrap_or(&made_up)).into_owned())
    }

    /// Returns a substitute text for a badly padded block. A caller without the key cannot tell it
    /// from the block's plain text.
    fn make_up(&self, block: &[u8]) -> Vec<u8> {
        let longest = block.len().saturating_sub(PADDING_BYTES);
        let mut text = Vec::with_capacity(longest + digest::SHA256_OUTPUT_LEN);
        let mut counter = 0_u32;
        while text.len() < longest + 2 {
            let mut context = hmac::Context::with_key(&self.made_up);
            context.update(block);
            context.update(&counter.to_le_bytes());
            text.extend_from_slice(context.sign().as_ref());
            counter += 1;
        }
        let length = text.drain(..2).fold(0, |length, byte| length << 8 | usize::from(byte));
        text.truncate(length % (longest + 1));
        text
    }
}
