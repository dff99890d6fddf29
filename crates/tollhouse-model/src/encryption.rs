//! Encryption of secrets in stored objects.
//!
//! Values are written either in Tollhouse's own authenticated form (`sealed.rs`), or in the form of
//! APISIX (`apisix.rs`) for stores shared with APISIX nodes. Both are read. The fields that hold
//! secrets are listed elsewhere; `fields.rs` walks them.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand;

use crate::secret::SecretText;

mod addresses;
mod apisix;
mod fields;
mod sealed;
#[cfg(test)]
mod tests;

pub use addresses::{address_fields, has_password};
pub use fields::{
    Certainty, Owner, Sealing, Unopened, open_fields, open_or_mark_fields, project, seal_fields,
    sealed_field, sealed_texts,
};

/// Encrypted fields of an SSL object.
pub const SSL_FIELDS: [&str; 2] = ["key", "keys"];

/// Maximum number of keys in a keyring. A value that no key opens costs one attempt per key.
const KEYS_MAX: usize = 32;

/// Number of leading keys for which `Keyring::buckets` returns a bucket. While nodes receive a new
/// ring one by one, their rings differ by one key in front.
const BUCKET_KEYS: usize = 3;

/// Length of a generated key in characters; 32 bytes select AES-256.
const GENERATED_CHARS: usize = 32;

/// Characters of a generated key: 64, so that six random bits choose one uniformly.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encryption keys. The first key seals; all keys open. A new key is put in front of the old ones.
#[derive(Clone, PartialEq, Eq)]
pub struct Keyring {
    keys: Vec<Key>,
    form: Form,
}

/// Key of a keyring, with its id and cipher.
#[derive(Clone)]
struct Key {
    text: SecretText,
    id: String,
    cipher: Arc<sealed::Cipher>,
}

/// Format of sealed values: Tollhouse's own, or APISIX's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Tollhouse's own format: authenticated, with a prefix and the id of the key.
    #[default]
    Marked,
    /// The format that APISIX nodes read.
    Apisix,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// The text is not sealed.
    Plain,
    /// The text is sealed with the first key and in the current form; holds the plain text.
    Current(String),
    /// The text is sealed with an older key or in the other form; holds the plain text.
    Stale(String),
    /// The text is sealed, but no key opens it.
    Unopened(Certainty),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    #[error("a keyring needs at least one key")]
    Empty,
    /// The ring has more than `KEYS_MAX` keys.
    #[error("a keyring holds at most {KEYS_MAX} keys, got {0}")]
    TooMany(usize),
    /// A key has the wrong length for AES.
    #[error("a key is 16 or 32 bytes long, key {position} has {bytes}")]
    Length {
        /// Position of the key, counted from 1.
        position: usize,
        bytes: usize,
    },
    /// The system's random number generator is unavailable.
    #[error("generate a key: the system's random number generator is unavailable")]
    NoRandomness,
}

impl Opened {
    /// Returns the plain text, if the value was sealed and a key has opened it.
    pub fn into_hidden(self) -> Option<String> {
        match self {
            Opened::Current(plain) | Opened::Stale(plain) => Some(plain),
            Opened::Plain | Opened::Unopened(_) => None,
        }
    }
}

impl Keyring {
    /// Builds a ring from the texts of keys, as configured.
    ///
    /// # Errors
    /// If `keys` is empty or too long, or a key is neither 16 nor 32 bytes long.
    pub fn new<I>(keys: I) -> Result<Self, KeyringError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let keys: Vec<Key> = keys.into_iter().map(|text| Key::new(text.into())).collect();
        if keys.is_empty() {
            return Err(KeyringError::Empty);
        }
        if keys.len() > KEYS_MAX {
            return Err(KeyringError::TooMany(keys.len()));
        }
        for (index, key) in keys.iter().enumerate() {
            let bytes = key.bytes().len();
            if !matches!(bytes, 16 | 32) {
                return Err(KeyringError::Length { position: index + 1, bytes });
            }
        }
        Ok(Self { keys, form: Form::default() })
    }

    /// Builds a ring with one random key for AES-256.
    ///
    /// # Errors
    /// If the system's random number generator is unavailable.
    pub fn generate() -> Result<Self, KeyringError> {
        let mut random = [0; GENERATED_CHARS];
        rand::fill(&mut random).map_err(|_| KeyringError::NoRandomness)?;
        let letter = |byte: &u8| char::from(ALPHABET[usize::from(byte % 64)]);
        let key: String = random.iter().map(letter).collect();
        Ok(Self { keys: vec![Key::new(key)], form: Form::default() })
    }

    /// Returns the ring with `form` as the format of newly sealed values.
    #[must_use]
    pub fn with_form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// Texts of the keys, for code that stores them.
    pub fn expose(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.text.expose())
    }

    /// Ids of the keys, in order. An id identifies its key without revealing anything about it.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.id.as_str())
    }

    /// Seals a text with the first key. The text only opens at `place`, such as `key-auth.key`.
    /// Costs one pass over the text.
    ///
    /// # Panics
    /// If the system's random number generator is unavailable. A process with a keyring has used it
    /// before.
    pub fn seal(&self, text: &str, place: &str) -> String {
        let key = self.keys.first().expect("a keyring has at least one key");
        let sealed = match self.form {
            Form::Marked => key.cipher.seal(&key.id, text, place),
            Form::Apisix => apisix::encrypt(key.bytes(), text),
        };
        sealed.expect("the key's length was checked, and ciphers take any text")
    }

    /// Determines whether a text is sealed, and opens it if a key fits.
    pub fn open(&self, text: &str, place: &str) -> Opened {
        if Self::is_marked(text) {
            let Some((id, bytes)) = sealed::parts_of(text) else {
                return Opened::Unopened(Certainty::Marked);
            };
            let mut keys = self.keys.iter().enumerate();
            let plain = keys
                .find(|(_, key)| key.id == id)
                .and_then(|(index, key)| Some((index, key.cipher.open(&bytes, place)?)));
            return self.opened(Form::Marked, plain);
        }
        let Some(bytes) = apisix::bytes_of(text) else { return Opened::Plain };
        let mut keys = self.keys.iter().enumerate();
        let plain =
            keys.find_map(|(index, key)| Some((index, apisix::decrypt(key.bytes(), &bytes)?)));
        self.opened(Form::Apisix, plain)
    }

    /// Classifies a sealed value by its form, the index of the key that opened it, and its plain
    /// text. `plain` is `None` if no key opened it.
    fn opened(&self, form: Form, plain: Option<(usize, String)>) -> Opened {
        match plain {
            Some((0, plain)) if self.form == form => Opened::Current(plain),
            Some((_, plain)) => Opened::Stale(plain),
            None => Opened::Unopened(match form {
                Form::Marked => Certainty::Marked,
                Form::Apisix => Certainty::Likely,
            }),
        }
    }

    /// Returns the plain text of a sealed value; `None` if it is not sealed or no key opens it.
    pub fn hidden_in(&self, text: &str, place: &str) -> Option<String> {
        self.open(text, place).into_hidden()
    }

    /// Returns the buckets of a text, out of `count`: one for each of the first keys. Two rings
    /// that share one of these keys share a bucket for equal texts. Without the keys a bucket
    /// reveals nothing about the text.
    pub fn buckets(&self, text: &[u8], count: u32) -> impl Iterator<Item = u32> {
        let keys = self.keys.iter().take(BUCKET_KEYS);
        keys.map(move |key| sealed::bucket(key.bytes(), text, count))
    }

    /// Whether a text has the prefix of a sealed value, whatever its key and version.
    pub fn is_marked(text: &str) -> bool {
        text.starts_with(sealed::PREFIX)
    }
}

impl Key {
    fn new(text: String) -> Self {
        let key = text.as_bytes();
        let (id, cipher) = (sealed::key_id(key), Arc::new(sealed::Cipher::new(key)));
        Self { id, cipher, text: SecretText::new(text) }
    }

    fn bytes(&self) -> &[u8] {
        self.text.expose().as_bytes()
    }
}

/// The id and the cipher are derived from the text, so comparing the text is enough.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Key {}

impl fmt::Debug for Keyring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Keyring({} keys, ***)", self.keys.len())
    }
}
