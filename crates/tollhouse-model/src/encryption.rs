//! Keeps secrets of objects sealed at rest.
//!
//! What is sealed is written in the form of our own (`sealed.rs`), which shows for sure whether it
//! opens, or in that of APISIX (`apisix.rs`), for stores that APISIX nodes share; both are read.
//! Which fields hold secrets is said elsewhere; walking them is in `fields.rs`.

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

/// The fields of an SSL object that are kept encrypted.
pub const SSL_FIELDS: [&str; 2] = ["key", "keys"];

/// Keys of a ring, at most: what none of them opens costs one attempt with each.
const KEYS_MAX: usize = 32;

/// Keys that buckets are told by: rings that are being changed one after another differ by one key in front.
const BUCKET_KEYS: usize = 3;

/// Length of a generated key, which makes it one of AES-256.
const GENERATED_CHARS: usize = 32;

/// Letters of a generated key: 64, so that six random bits choose one evenly.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Keys: the first one seals, all of them open. So a new key is put in front of the old ones.
#[derive(Clone, PartialEq, Eq)]
pub struct Keyring {
    keys: Vec<Key>,
    form: Form,
}

/// One key, with what it is called and what seals with it.
#[derive(Clone)]
struct Key {
    text: SecretText,
    id: String,
    cipher: Arc<sealed::Cipher>,
}

/// How values are written that are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Authenticated, with a mark and the key's id.
    #[default]
    Marked,
    /// As APISIX nodes read it.
    Apisix,
}

/// What a text turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// Not sealed.
    Plain,
    /// Sealed with the first key in the form that is written; this is what it hides.
    Current(String),
    /// Sealed with an older key or in the other form; this is what it hides.
    Stale(String),
    /// Sealed, and nothing opens it.
    Unopened(Certainty),
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
    /// Of the keys' texts, as configurations hold them.
    ///
    /// # Errors
    /// None, too many, or a key that is neither 16 nor 32 bytes long.
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

    /// Of one key that nobody has had before, for AES-256.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<Self, KeyringError> {
        let mut random = [0; GENERATED_CHARS];
        rand::fill(&mut random).map_err(|_| KeyringError::NoRandomness)?;
        let letter = |byte: &u8| char::from(ALPHABET[usize::from(byte % 64)]);
        let key: String = random.iter().map(letter).collect();
        Ok(Self { keys: vec![Key::new(key)], form: Form::default() })
    }

    /// The same ring, writing in that form.
    #[must_use]
    pub fn with_form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// The form in which it writes.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The keys' texts, for what keeps them.
    pub fn expose(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.text.expose())
    }

    /// What the keys are called, in their order. An id distinguishes its key from any other, and says
    /// nothing about it.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.id.as_str())
    }

    /// Seals with the first key, for one place such as `key-auth.key`. Costs one pass over the text.
    ///
    /// # Panics
    /// When the system gives no random numbers, which a process that has a keyring has seen.
    pub fn seal(&self, text: &str, place: &str) -> String {
        let key = self.keys.first().expect("a keyring has at least one key");
        let sealed = match self.form {
            Form::Marked => key.cipher.seal(&key.id, text, place),
            Form::Apisix => apisix::encrypt(key.bytes(), text),
        };
        sealed.expect("the key's length was checked, and ciphers take any text")
    }

    /// Finds out what a text is, and what it hides where it is sealed and a key opens it.
    pub fn open(&self, text: &str, place: &str) -> Opened {
        if Self::is_marked(text) {
            let Some((id, bytes)) = sealed::parts_of(text) else {
                return Opened::Unopened(Certainty::Marked);
            };
            let found = self.keys.iter().enumerate().find(|(_, key)| key.id == id);
            let plain = found.and_then(|(_, key)| key.cipher.open(&bytes, place));
            let is_current = found.is_some_and(|(at, _)| at == 0) && self.form == Form::Marked;
            return opened(plain, is_current, Certainty::Marked);
        }
        let Some(bytes) = apisix::bytes_of(text) else { return Opened::Plain };
        let mut keys = self.keys.iter().enumerate();
        let found = keys.find_map(|(at, key)| Some((at, apisix::decrypt(key.bytes(), &bytes)?)));
        let is_current =
            self.form == Form::Apisix && found.as_ref().is_some_and(|(at, _)| *at == 0);
        opened(found.map(|(_, plain)| plain), is_current, Certainty::Likely)
    }

    /// What a text hides; `None` where it is not sealed, or nothing opens it.
    pub fn hidden_in(&self, text: &str, place: &str) -> Option<String> {
        self.open(text, place).into_hidden()
    }

    /// Which of `count` buckets a text falls into, by each of the first keys. Rings that share one of these
    /// have a bucket in common for the same text; whoever has none of the keys learns nothing of the text.
    pub fn buckets(&self, text: &[u8], count: u32) -> impl Iterator<Item = u32> {
        let keys = self.keys.iter().take(BUCKET_KEYS);
        keys.map(move |key| sealed::bucket(key.bytes(), text, count))
    }

    /// Whether a text says that it is sealed, by whatever key and in whatever version.
    pub fn is_marked(text: &str) -> bool {
        text.starts_with(sealed::PREFIX)
    }
}

fn opened(plain: Option<String>, is_current: bool, certainty: Certainty) -> Opened {
    match plain {
        Some(plain) if is_current => Opened::Current(plain),
        Some(plain) => Opened::Stale(plain),
        None => Opened::Unopened(certainty),
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

/// What a key is called and what seals with it follow from its text.
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
