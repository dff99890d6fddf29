//! Passwords of logins as ShenYu's login page and clients encrypt them: AES-CBC with PKCS#7 padding
//! (NIST SP 800-38A), in base64. Every client that may log in knows the key, so the encryption
//! hides passwords from a glance at a log, but only TLS protects them from an attacker.

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// Length of the initialisation vector: one AES block.
const IV_BYTES: usize = 16;

/// Maximum length of an encrypted password, in characters; far more than people type.
const CIPHERTEXT_CHARACTERS_MAX: usize = 4 << 10;

/// AES key with its initialisation vector.
#[derive(Clone)]
pub struct Aes {
    algorithm: &'static Algorithm,
    key: String,
    iv: String,
}

/// Why a key or a vector cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AesError {
    #[error(
        "expected a key of 16, 24 or 32 bytes, as `shenyu.aes.secret.key` of ShenYu's admin has it"
    )]
    Key,
    #[error("expected a vector of 16 bytes, as `shenyu.aes.secret.iv` of ShenYu's admin has it")]
    Iv,
}

impl Aes {
    /// Checks the lengths of a key and a vector, both given as text.
    ///
    /// # Errors
    ///
    /// If the key does not have 16, 24 or 32 bytes, or the vector does not have 16.
    pub fn new(key: String, iv: String) -> Result<Self, AesError> {
        let algorithm = match key.len() {
            16 => &AES_128,
            24 => &AES_192,
            32 => &AES_256,
            _ => return Err(AesError::Key),
        };
        if iv.len() != IV_BYTES {
            return Err(AesError::Iv);
        }
        Ok(Self { algorithm, key, iv })
    }

    /// Decrypts a password from base64. Returns `None` for a text that was not encrypted with this
    /// key.
    pub(crate) fn decrypt(&self, text: &str) -> Option<String> {
        if text.len() > CIPHERTEXT_CHARACTERS_MAX {
            return None;
        }
        let mut bytes = STANDARD.decode(text).ok()?;
        let key = UnboundCipherKey::new(self.algorithm, self.key.as_bytes()).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let iv: [u8; IV_BYTES] = self.iv.as_bytes().try_into().ok()?;
        let context = DecryptionContext::Iv128(FixedLength::from(iv));
        let plain = key.decrypt(&mut bytes, context).ok()?;
        String::from_utf8(plain.to_vec()).ok()
    }

    /// Returns the answer of `/platform/secretInfo` for login pages: `{"key":…,"iv":…}`, in base64.
    pub(crate) fn info(&self) -> String {
        STANDARD.encode(json!({"key": self.key, "iv": self.iv}).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_login_page_encrypts_is_read_and_nothing_else() {
        let aes = Aes::new("2095132720951327".into(), "6075877187097700".into()).unwrap();
        // `printf 123456 | openssl enc -aes-128-cbc -K … -iv … -base64`.
        assert_eq!(aes.decrypt("bbiB8zbUo3z3oA0VqEB/IA==").as_deref(), Some("123456"));
        for other in ["", "123456", "bHf1CUUA", "%", &"A".repeat(5000)] {
            assert_eq!(aes.decrypt(other), None, "{other}");
        }
        assert_eq!(Aes::new("short".into(), String::new()).err(), Some(AesError::Key));
        assert_eq!(Aes::new("a".repeat(32), "short".into()).err(), Some(AesError::Iv));
    }
}
