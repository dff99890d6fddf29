//! JSON Web Tokens (RFC 7519): taking them apart, and verifying their signatures. Whose keys are good for
//! what, and which claims must hold, is said by those who ask.

pub(crate) mod key_set;
pub(crate) mod keys;
pub(crate) mod token;

pub(crate) use self::key_set::{KeySet, Signature};
pub use self::keys::Algorithm;
pub(crate) use self::keys::Verifier;
pub(crate) use self::token::Token;
