//! Keeps secrets of objects encrypted at rest, in the form that APISIX nodes write and read.
//!
//! AES in CBC mode, padded as PKCS #7 says, the first 16 bytes of the key being the first block's
//! vector, in base64. The form has no check of its own: it hides secrets from who reads the store,
//! and does not tell whether somebody changed them. It is what other nodes on one store understand.

use std::fmt;

use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::secret::{SecretText, is_reference};

/// The fields of an SSL object that are kept encrypted.
pub const SSL_FIELDS: [&str; 2] = ["key", "keys"];

/// Keys of a ring, at most: what none of them opens costs one attempt with each.
const KEYS_MAX: usize = 32;

/// Length of a generated key, which makes it one of AES-256.
const GENERATED_CHARS: usize = 32;

/// Letters of a generated key: 64, so that six random bits choose one evenly.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Bytes of a block of AES, and so of the vector.
const BLOCK_BYTES: usize = 16;

/// Keys: the first one encrypts, all of them decrypt. So a new key is put in front of the old ones.
#[derive(Clone, PartialEq, Eq)]
pub struct Keyring {
    keys: Vec<SecretText>,
}

/// Why a ring is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// There is nothing to encrypt with.
    #[error("a keyring needs at least one key")]
    Empty,
    /// There are more keys than a ring holds.
    #[error("a keyring holds at most {KEYS_MAX} keys, got {0}")]
    TooMany(usize),
    /// AES has keys of other lengths.
    #[error("a key is 16 or 32 bytes long, key {position} has {bytes}")]
    Length {
        /// Which key, counted from 1.
        position: usize,
        /// How long it is.
        bytes: usize,
    },
    /// The system gives no random numbers.
    #[error("generate a key: no random numbers available")]
    NoRandomness,
}

impl Keyring {
    /// Of the keys' texts, as configurations hold them.
    ///
    /// # Errors
    /// None, too many, or a key that is neither 16 nor 32 bytes long.
    pub fn new<I>(keys: I) -> Result<Self, KeyringError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let keys: Vec<SecretText> = keys.into_iter().map(SecretText::new).collect();
        if keys.is_empty() {
            return Err(KeyringError::Empty);
        }
        if keys.len() > KEYS_MAX {
            return Err(KeyringError::TooMany(keys.len()));
        }
        for (index, key) in keys.iter().enumerate() {
            let bytes = key.expose().len();
            if !matches!(bytes, 16 | 32) {
                return Err(KeyringError::Length { position: index + 1, bytes });
            }
        }
        Ok(Self { keys })
    }

    /// Of one key that nobody has had before, for AES-256.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<Self, KeyringError> {
        let mut random = [0; GENERATED_CHARS];
        rand::fill(&mut random).map_err(|_| KeyringError::NoRandomness)?;
        let letter = |byte: &u8| char::from(ALPHABET[usize::from(byte % 64)]);
        let key: String = random.iter().map(letter).collect();
        Ok(Self { keys: vec![SecretText::new(key)] })
    }

    /// The keys' texts, for what keeps them.
    pub fn expose(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(SecretText::expose)
    }

    /// Encrypts with the first key.
    pub fn encrypt(&self, text: &str) -> String {
        let key = self.keys.first().expect("a keyring has at least one key");
        let bytes = encrypt(key.expose().as_bytes(), text);
        STANDARD.encode(bytes.expect("the key's length was checked, and AES takes any text"))
    }

    /// Decrypts with whichever key does; `None` where none does, or what comes out is no text.
    pub fn decrypt(&self, text: &str) -> Option<String> {
        let bytes = STANDARD.decode(text).ok()?;
        if bytes.is_empty() || bytes.len() % BLOCK_BYTES != 0 {
            return None;
        }
        self.keys.iter().find_map(|key| decrypt(key.expose().as_bytes(), &bytes))
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Keyring({} keys, ***)", self.keys.len())
    }
}

/// Encrypts the texts that stand under these fields of `conf`, such as `key` or
/// `brokers.sasl_config.password`: lists on the way are walked; of a list or map at the end every
/// text. References to secrets, and what is encrypted already, stay as they are.
pub fn encrypt_fields(conf: &mut Value, fields: &[impl AsRef<str>], keyring: &Keyring) {
    for field in fields {
        each_text(conf, field.as_ref(), |text| {
            if !is_reference(text) && keyring.decrypt(text).is_none() {
                *text = keyring.encrypt(text);
            }
        });
    }
}

/// The reverse of [`encrypt_fields`]. What no key decrypts stays as it is.
pub fn decrypt_fields(conf: &mut Value, fields: &[impl AsRef<str>], keyring: &Keyring) {
    for field in fields {
        each_text(conf, field.as_ref(), |text| {
            if let Some(plain) = keyring.decrypt(text) {
                *text = plain;
            }
        });
    }
}

fn each_text(conf: &mut Value, field: &str, mut apply: impl FnMut(&mut String)) {
    // A list of its own instead of recursion: lists may nest deeper than a thread's stack.
    let mut waiting = vec![(conf, Some(field))];
    while let Some((value, path)) = waiting.pop() {
        match (value, path) {
            (Value::Array(items), path) => {
                waiting.extend(items.iter_mut().map(|item| (item, path)));
            }
            (Value::Object(fields), Some(path)) => {
                let (name, rest) = match path.split_once('.') {
                    Some((name, rest)) => (name, Some(rest)),
                    None => (path, None),
                };
                waiting.extend(fields.get_mut(name).map(|value| (value, rest)));
            }
            (Value::Object(fields), None) => {
                fields.values_mut().for_each(|value| {
                    if let Value::String(text) = value {
                        apply(text);
                    }
                });
            }
            (Value::String(text), None) => apply(text),
            (Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_), _) => {}
        }
    }
}

fn encrypt(key: &[u8], text: &str) -> Result<Vec<u8>, Unspecified> {
    let mut bytes = text.as_bytes().to_vec();
    let cipher = PaddedBlockEncryptingKey::cbc_pkcs7(unbound(key)?)?;
    cipher.less_safe_encrypt(&mut bytes, EncryptionContext::Iv128(vector(key)?))?;
    Ok(bytes)
}

fn decrypt(key: &[u8], bytes: &[u8]) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// What APISIX ships.
    const RING: [&str; 2] = ["qeddd145sfvddff3", "edd1c9f0985e76a2"];
    const KEY_256: &str = "0123456789abcdefFEDCBA9876543210";

    fn ring(keys: &[&str]) -> Keyring {
        Keyring::new(keys.iter().copied()).expect("the keys are of a right length")
    }

    /// Computed by `openssl enc -aes-128-cbc` (`-aes-256-cbc`) `-K … -iv … -base64 -A`.
    #[test]
    fn the_form_is_the_one_that_others_read() {
        let table = [
            (RING[0], "", "CEGh183MAO3X8/ZV2jzHeA=="),
            (RING[0], "a", "dpwomMlEsHH2L7wSUi6YiQ=="),
            (RING[0], "very secret value", "betPmLSTbURBvbcnnOZ2rpk5lbijWpjqRBz8NrqYWNE="),
            (RING[0], "0123456789abcdef", "qpxu8KrwHqjW92zgZHFDOLQA3RNdV40A6RLotmKQPVw="),
            (RING[1], "", "vA4BfcVo+wewoRJDl1bmfA=="),
            (RING[1], "a", "m+QIbBDbnhUL4al2Wc8BCw=="),
            (RING[1], "very secret value", "sieuLy/L01Vqc5zhLSoTjAZMmT3N5x9nIYmQyP+103s="),
            (RING[1], "0123456789abcdef", "uB5lc7bO3T325sSYkKpZM6bQ2Yb4ZwCTwDljNDbfVIo="),
            (KEY_256, "very secret value", "lr9nQJTh3H4EFDnFDJkQEXxKijDe+CpwcoyLrpEmfHE="),
        ];
        for (key, plain, encrypted) in table {
            assert_eq!(ring(&[key]).encrypt(plain), encrypted, "{plain}");
            assert_eq!(ring(&[key]).decrypt(encrypted).as_deref(), Some(plain));
            let all = ring(&[RING[0], RING[1], KEY_256]);
            assert_eq!(all.decrypt(encrypted).as_deref(), Some(plain), "any key decrypts");
        }
    }

    #[test]
    fn the_first_key_encrypts_and_a_lost_one_opens_nothing() {
        let encrypted = ring(&RING).encrypt("a");
        assert_eq!(encrypted, ring(&RING[..1]).encrypt("a"));
        assert_eq!(ring(&RING[1..]).decrypt(&encrypted), None);
        for text in ["", "a", "plain text", "aGVsbG8=", "dpwomMlEsHH2L7wSUi6YiQ", "é"] {
            assert_eq!(ring(&RING).decrypt(text), None, "{text}");
        }
    }

    #[test]
    fn rings_are_checked() {
        let none: [&str; 0] = [];
        assert_eq!(Keyring::new(none), Err(KeyringError::Empty));
        assert_eq!(Keyring::new(vec![RING[0]; 33]), Err(KeyringError::TooMany(33)));
        let error = Keyring::new([RING[0], "short"]).expect_err("it is too short");
        assert_eq!(error.to_string(), "a key is 16 or 32 bytes long, key 2 has 5");
        assert_eq!(format!("{:?}", ring(&RING)), "Keyring(2 keys, ***)");
    }

    #[test]
    fn generated_keys_differ_and_can_be_kept_as_text() {
        let one = Keyring::generate().expect("there are random numbers");
        let other = Keyring::generate().expect("there are random numbers");
        assert_ne!(one, other);
        let kept = Keyring::new(one.expose()).expect("its length is right");
        assert_eq!(kept.decrypt(&one.encrypt("x")).as_deref(), Some("x"));
        assert_eq!(one.expose().next().map(str::len), Some(32));
    }

    #[test]
    fn fields_are_encrypted_where_they_stand() {
        let keyring = ring(&RING);
        let plain = json!({
            "key": "k",
            "open": "o",
            "number": 7,
            "referred": "$secret://vault/1/a/b",
            "from_environment": "$env://NAME",
            "brokers": [{"sasl_config": {"user": "u", "password": "p"}}, {"host": "h"}],
            "auth": {"header": {"a": "1", "b": "2", "n": 3}},
            "list": ["x", ["y"], 1],
        });
        let fields = [
            "key",
            "number",
            "referred",
            "from_environment",
            "brokers.sasl_config.password",
            "auth.header",
            "list",
            "missing.field",
            "key.below",
        ];
        let mut conf = plain.clone();
        encrypt_fields(&mut conf, &fields, &keyring);
        let hidden = |text: &str| Value::from(keyring.encrypt(text));
        let expected = json!({
            "key": hidden("k"),
            "open": "o",
            "number": 7,
            "referred": "$secret://vault/1/a/b",
            "from_environment": "$env://NAME",
            "brokers": [
                {"sasl_config": {"user": "u", "password": hidden("p")}}, {"host": "h"}
            ],
            "auth": {"header": {"a": hidden("1"), "b": hidden("2"), "n": 3}},
            "list": [hidden("x"), [hidden("y")], 1],
        });
        assert_eq!(conf, expected);
        encrypt_fields(&mut conf, &fields, &keyring);
        assert_eq!(conf, expected, "what is encrypted stays");
        decrypt_fields(&mut conf, &fields, &keyring);
        assert_eq!(conf, plain);
        decrypt_fields(&mut conf, &fields, &keyring);
        assert_eq!(conf, plain, "what is plain stays");
    }

    #[test]
    fn the_keys_of_certificates_are_encrypted() {
        let keyring = ring(&[KEY_256]);
        let mut ssl = json!({"cert": "c", "key": "-----BEGIN", "keys": ["-----BEGIN", "$ENV://K"]});
        let plain = ssl.clone();
        encrypt_fields(&mut ssl, &SSL_FIELDS, &keyring);
        let hidden = keyring.encrypt("-----BEGIN");
        assert_eq!(ssl, json!({"cert": "c", "key": hidden, "keys": [hidden, "$ENV://K"]}));
        decrypt_fields(&mut ssl, &SSL_FIELDS, &keyring);
        assert_eq!(ssl, plain);
    }

    proptest! {
        #[test]
        fn any_text_comes_back(letters in prop::collection::vec(any::<char>(), 0..80)) {
            let text: String = letters.into_iter().collect();
            for key in [RING[0], KEY_256] {
                let keyring = ring(&[key]);
                prop_assert_eq!(keyring.decrypt(&keyring.encrypt(&text)), Some(text.clone()));
            }
            // Whatever it says, it is only read.
            let _ = ring(&RING).decrypt(&text);
        }
    }
}
