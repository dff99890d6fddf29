//! The form that APISIX nodes write and read: AES in CBC mode with PKCS #7 padding, in base64. The
//! initialisation vector is the first 16 bytes of the key.
//!
//! The form is not authenticated. It hides secrets from readers of the store, but does not reveal
//! modifications, nor prove that a text is encrypted.

use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::iv::FixedLength;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Block size of AES in bytes, which is also the size of the initialisation vector.
const BLOCK_BYTES: usize = 16;

/// Decodes base64 whose content is a whole number of AES blocks; `None` for any other text. The
/// content is not necessarily encrypted.
pub(super) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text).ok()?;
    (!bytes.is_empty() && bytes.len() % BLOCK_BYTES == 0).then_some(bytes)
}

/// Encrypts with a key of 16 or 32 bytes.
pub(super) fn encrypt(key: &[u8], text: &str) -> Result<String, Unspecified> {
    let mut bytes = text.as_bytes().to_vec();
    let cipher = PaddedBlockEncryptingKey::cbc_pkcs7(unbound(key)?)?;
    cipher.less_safe_encrypt(&mut bytes, EncryptionContext::Iv128(vector(key)?))?;
    Ok(STANDARD.encode(bytes))
}

/// Decrypts; `None` if the padding is wrong or the result is not UTF-8.
pub(super) fn decrypt(key: &[u8], bytes: &[u8]) -> Option<String> {
    let mut bytes = bytes.to_vec();
    let cipher = PaddedBlockDecryptingKey::cbc_pkcs7(unbound(key).ok()?).ok()?;
    let context = DecryptionContext::Iv128(vector(key).ok()?);
    let plain = cipher.decrypt(&mut bytes, context).ok()?;
    std::str::from_utf8(plain).ok().map(str::to_owned)
}

fn unbound(key: &[u8]) -> Result<UnboundCipherKey, Unspecified> {
    let algorithm = if key.len() == 16 { &AES_128 } else { &AES_256 };
    UnboundCipherKey::new(algorithm, key)
}

fn vector(key: &[u8]) -> Result<FixedLength<BLOCK_BYTES>, Unspecified> {
    key.get(..BLOCK_BYTES).ok_or(Unspecified)?.try_into()
}
