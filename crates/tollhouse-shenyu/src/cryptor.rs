//! What `cryptorRequest` and `cryptorResponse` do to one field of a JSON body: RSA with PKCS#1 v1.5 padding
//! (RFC 8017 §7.2), in base64, as Java's `Cipher.getInstance("RSA")` has it.

use std::fmt;

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rsa::{
    Pkcs1PrivateDecryptingKey, Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::divide::HandleError;
use crate::weight::is_light;
use crate::{handle, lenient};

/// What the padding takes of a block.
const PADDING_BYTES: usize = 11;

/// Names on the way to the field: nobody writes deeper ones.
const FIELDS_MAX: usize = 64;

/// A rule of either plugin.
#[derive(Debug)]
pub struct CryptorRule {
    /// The member, and those that it is in.
    fields: Vec<String>,
    becomes: Becomes,
    way: Way,
}

/// What becomes of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Becomes {
    /// It is the body.
    Body,
    /// It is the field's value.
    Field,
}

enum Way {
    Decrypt(Box<Private>),
    Encrypt(Pkcs1PublicEncryptingKey),
}

impl fmt::Debug for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Decrypt(_) => "Decrypt(***)",
            Self::Encrypt(_) => "Encrypt(***)",
        })
    }
}

/// A key that decrypts.
struct Private {
    key: Pkcs1PrivateDecryptingKey,
    /// What made-up texts are derived of.
    made_up: hmac::Key,
}

/// What a rule lacks, so that ShenYu answers each request with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lacks(pub &'static str);

/// What has become of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Crypted {
    /// It has no such field, or is no JSON.
    Untouched,
    /// This is the body now.
    Body(Vec<u8>),
    /// It is not encrypted with this key.
    NotDecrypted,
    /// It is too long for this key.
    NotEncrypted,
    /// It has more values than are made of a text.
    TooHeavy,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Handle {
    #[serde(deserialize_with = "lenient::or_default")]
    strategy_name: String,
    #[serde(deserialize_with = "lenient::or_default")]
    field_names: String,
    #[serde(deserialize_with = "lenient::or_default")]
    decrypt_key: String,
    #[serde(deserialize_with = "lenient::or_default")]
    encrypt_key: String,
    #[serde(deserialize_with = "lenient::or_default")]
    way: String,
    #[serde(deserialize_with = "lenient::or_default")]
    map_type: String,
}

impl CryptorRule {
    /// Reads a handle. What ShenYu would say to each request is no error.
    ///
    /// # Errors
    /// When it is no JSON object of this shape, or a key or a word is none.
    pub fn read(text: Option<&str>) -> Result<Result<Self, Lacks>, HandleError> {
        let wrong = HandleError::Malformed;
        let handle: Handle = handle::read(text)?;
        if !matches!(&*handle.strategy_name, "" | "rsa") {
            let reason = format!("`strategyName` is `{}`; expected `rsa`", handle.strategy_name);
            return Err(wrong(reason));
        }
        let fields: Vec<String> =
            handle.field_names.split('.').map(|name| name.trim().to_owned()).collect();
        if fields.len() > FIELDS_MAX {
            return Err(wrong(format!("`fieldNames` has more than {FIELDS_MAX} names")));
        }
        // Behind what makes the handle malformed: a handle that is both is refused at load, and not at each request.
        if handle.field_names.trim().is_empty() {
            return Ok(Err(Lacks("fieldNames")));
        }
        let way = match &*handle.way {
            "encrypt" if handle.encrypt_key.trim().is_empty() => {
                return Ok(Err(Lacks("encryptKey")));
            }
            "encrypt" => Way::Encrypt(read_public(&handle.encrypt_key)?),
            "" | "decrypt" if handle.decrypt_key.trim().is_empty() => {
                return Ok(Err(Lacks("decryptKey")));
            }
            "" | "decrypt" => Way::Decrypt(Box::new(Private::read(&handle.decrypt_key)?)),
            other => {
                return Err(wrong(format!("`way` is `{other}`; expected `encrypt` or `decrypt`")));
            }
        };
        let becomes = match &*handle.map_type {
            "all" => Becomes::Body,
            "" | "field" => Becomes::Field,
            other => {
                return Err(wrong(format!("`mapType` is `{other}`; expected `all` or `field`")));
            }
        };
        Ok(Ok(Self { fields, becomes, way }))
    }

    /// Whether what passes is secret from then on, so that nothing may pass that could not be read.
    pub const fn encrypts(&self) -> bool {
        matches!(self.way, Way::Encrypt(_))
    }

    /// Does it to a body. Costs an operation with the key, tenths of a millisecond where that is private.
    pub fn crypt(&self, body: &[u8]) -> Crypted {
        if !is_light(body) {
            return Crypted::TooHeavy;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(body) else {
            return Crypted::Untouched;
        };
        let mut found = Some(&mut value);
        for name in &self.fields {
            found = found.and_then(|value| value.as_object_mut()?.get_mut(name));
        }
        // What is not there is left alone, as ShenYu does: the request may be one that carries nothing secret.
        let text = match found.as_deref() {
            None | Some(Value::Null) => return Crypted::Untouched,
            Some(Value::String(text)) if text.is_empty() => return Crypted::Untouched,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let result = match &self.way {
            Way::Decrypt(key) => key.decrypt(&text).ok_or(Crypted::NotDecrypted),
            Way::Encrypt(key) => encrypt(key, &text).ok_or(Crypted::NotEncrypted),
        };
        let result = match result {
            Ok(result) => result,
            Err(failed) => return failed,
        };
        if self.becomes == Becomes::Body {
            return Crypted::Body(result.into_bytes());
        }
        if let Some(field) = found {
            *field = Value::String(result);
        }
        Crypted::Body(value.to_string().into_bytes())
    }
}

/// Why a text is no key.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("a key is no base64: {0}")]
    Text(#[from] base64::DecodeError),
    #[error("`encryptKey` is no public RSA key of 2048 bits or more: {0}")]
    Public(KeyRejected),
    #[error("`decryptKey` is no private RSA key of 2048 bits or more: {0}")]
    Private(KeyRejected),
    #[error("`{0}` cannot be used")]
    Unusable(&'static str),
}

impl From<KeyError> for HandleError {
    fn from(error: KeyError) -> Self {
        Self::Malformed(error.to_string())
    }
}

fn read_key(text: &str) -> Result<Vec<u8>, KeyError> {
    let text: String = text.split_whitespace().filter(|line| !line.starts_with("-----")).collect();
    Ok(STANDARD.decode(text)?)
}

/// A SubjectPublicKeyInfo, in base64.
fn read_public(text: &str) -> Result<Pkcs1PublicEncryptingKey, KeyError> {
    let key = PublicEncryptingKey::from_der(&read_key(text)?).map_err(KeyError::Public)?;
    Pkcs1PublicEncryptingKey::new(key).map_err(|_| KeyError::Unusable("encryptKey"))
}

fn encrypt(key: &Pkcs1PublicEncryptingKey, text: &str) -> Option<String> {
    if text.len() > key.max_plaintext_size() {
        return None;
    }
    let mut encrypted = vec![0; key.ciphertext_size()];
    let encrypted = key.encrypt(text.as_bytes(), &mut encrypted).ok()?;
    Some(STANDARD.encode(encrypted))
}

impl Private {
    /// A PKCS#8 key, in base64.
    fn read(text: &str) -> Result<Self, KeyError> {
        let der = read_key(text)?;
        let key = PrivateDecryptingKey::from_pkcs8(&der).map_err(KeyError::Private)?;
        let key = Pkcs1PrivateDecryptingKey::new(key);
        Ok(Self {
            key: key.map_err(|_| KeyError::Unusable("decryptKey"))?,
            made_up: hmac::Key::new(
                hmac::HMAC_SHA256,
                digest::digest(&digest::SHA256, &der).as_ref(),
            ),
        })
    }

    /// What a text was before it was encrypted; `None` where it cannot have been. Whether the padding of a block
    /// is right is told to nobody: of one that is wrong a text is made up, the same one each time, since whoever
    /// could tell the two apart could decrypt without the key, block by block (Bleichenbacher 1998).
    fn decrypt(&self, text: &str) -> Option<String> {
        let bytes = self.key.key_size_bytes();
        // No base64 of a block is longer.
        if text.len() > bytes * 2 {
            return None;
        }
        let block = STANDARD.decode(text.trim()).ok().filter(|block| block.len() == bytes)?;
        let made_up = self.make_up(&block);
        let mut decrypted = vec![0; self.key.min_output_size()];
        let decrypted = self.key.decrypt(&block, &mut decrypted);
        let plain: &[u8] = decrypted.as_deref().unwrap_or(&made_up);
        Some(String::from_utf8_lossy(plain).into_owned())
    }

    /// A text that could be the plain one of a block, for all that anybody knows who has not the key.
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

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
    use aws_lc_rs::rsa::KeySize;
    use serde_json::json;

    use super::*;

    struct Keys {
        private: String,
        public: String,
    }

    fn keys() -> Keys {
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).expect("a key");
        let public = private.public_key();
        let private: Pkcs8V1Der<'_> = private.as_der().expect("PKCS#8");
        let public: PublicKeyX509Der<'_> = public.as_der().expect("X.509");
        Keys {
            private: STANDARD.encode(private.as_ref()),
            public: STANDARD.encode(public.as_ref()),
        }
    }

    fn rule(handle: &Value) -> CryptorRule {
        CryptorRule::read(Some(&handle.to_string())).expect("a handle").expect("it lacks nothing")
    }

    fn body(crypted: Crypted) -> Value {
        match crypted {
            Crypted::Body(body) => serde_json::from_slice(&body)
                .unwrap_or_else(|_| String::from_utf8(body).expect("text").into()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_field_is_encrypted_and_decrypted_and_takes_the_place_of_itself_or_of_the_body() {
        let keys = keys();
        let encrypts = |map: &str| {
            rule(&json!({"strategyName": "rsa", "way": "encrypt", "mapType": map,
            "fieldNames": "order.card", "encryptKey": keys.public}))
        };
        let decrypts = |map: &str| {
            rule(&json!({"strategyName": "rsa", "way": "decrypt", "mapType": map,
            "fieldNames": "order.card", "decryptKey": keys.private}))
        };
        let plain = br#"{"id":1,"order":{"card":"4711 \u00e4","n":2.50}}"#;
        let encrypted = body(encrypts("field").crypt(plain));
        assert_eq!((&encrypted["id"], &encrypted["order"]["n"]), (&json!(1), &json!(2.5)));
        assert!(!encrypted.to_string().contains("4711"));
        let decrypted = body(decrypts("field").crypt(encrypted.to_string().as_bytes()));
        assert_eq!(decrypted["order"]["card"], "4711 \u{e4}");
        let whole = body(decrypts("all").crypt(encrypted.to_string().as_bytes()));
        assert_eq!(whole, "4711 \u{e4}");
        let whole = body(encrypts("all").crypt(plain));
        assert_eq!(whole.as_str().map(str::len), Some(344), "a block in base64");
        for absent in
            [&b"no JSON"[..], b"{}", b"[1]", br#"{"order":{"card":null}}"#, br#"{"order":[]}"#]
        {
            assert_eq!(encrypts("field").crypt(absent), Crypted::Untouched);
            assert_eq!(decrypts("all").crypt(absent), Crypted::Untouched);
        }
        let heavy = format!("[{}1]", "1,".repeat(1 << 20));
        assert_eq!(encrypts("field").crypt(heavy.as_bytes()), Crypted::TooHeavy);
        let long = json!({"order": {"card": "x".repeat(246)}}).to_string();
        assert_eq!(encrypts("field").crypt(long.as_bytes()), Crypted::NotEncrypted);
        for strange in ["x", "AAAA", &"A".repeat(1 << 20)] {
            let strange = json!({"order": {"card": strange}}).to_string();
            assert_eq!(decrypts("field").crypt(strange.as_bytes()), Crypted::NotDecrypted);
        }
    }

    #[test]
    fn nobody_learns_whether_the_padding_of_a_block_is_right() {
        let keys = keys();
        let rule = rule(&json!({"fieldNames": "a", "decryptKey": keys.private, "mapType": "all"}));
        let mut lengths = std::collections::BTreeSet::new();
        for at in 0..64_u8 {
            // A first byte of zero keeps the number below any modulus.
            let mut block = [at; 256];
            block[0] = 0;
            let text = json!({"a": STANDARD.encode(block)}).to_string();
            let Crypted::Body(first) = rule.crypt(text.as_bytes()) else { panic!("it is a text") };
            assert_eq!(
                rule.crypt(text.as_bytes()),
                Crypted::Body(first.clone()),
                "each time the same"
            );
            lengths.insert(first.len());
        }
        assert!(lengths.len() > 16, "{lengths:?}");
    }

    #[test]
    fn handles_without_a_key_lack_it_and_those_with_a_bad_one_are_none() {
        for (handle, lacks) in [
            (json!({}), "fieldNames"),
            (json!({"fieldNames": "a"}), "decryptKey"),
            (json!({"fieldNames": "a", "way": "encrypt", "decryptKey": "x"}), "encryptKey"),
        ] {
            let read = CryptorRule::read(Some(&handle.to_string())).expect("a handle");
            assert_eq!(read.err(), Some(Lacks(lacks)), "{handle}");
        }
        for handle in [
            json!({"fieldNames": "a", "decryptKey": "%"}),
            json!({"fieldNames": "a", "decryptKey": "AAAA"}),
            json!({"fieldNames": "a", "way": "encrypt", "encryptKey": "AAAA"}),
            json!({"fieldNames": "a", "way": "sideways", "encryptKey": "AAAA"}),
            json!({"fieldNames": "a", "strategyName": "rot13", "decryptKey": "AAAA"}),
            json!({"fieldNames": "a.".repeat(99), "decryptKey": "AAAA"}),
            json!("[]"),
        ] {
            assert!(CryptorRule::read(Some(&handle.to_string())).is_err(), "{handle}");
        }
    }
}
