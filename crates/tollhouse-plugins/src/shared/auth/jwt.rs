//! JSON Web Tokens (RFC 7519): parsing, and verification of signatures. Callers decide which keys
//! are trusted and which claims must hold.

pub(crate) mod key_set;
pub(crate) mod keys;
pub(crate) mod token;

pub(crate) use self::key_set::{KeySet, Signature};
pub use self::keys::Algorithm;
pub(crate) use self::keys::Verifier;
pub(crate) use self::token::Token;
