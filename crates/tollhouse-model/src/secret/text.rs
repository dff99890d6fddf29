//! A secret text that `Debug` does not reveal.

use std::fmt;

/// A password, token or key: `Debug` prints stars, and `Display` is not implemented.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretText(String);

impl SecretText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the secret as plain text; never log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}
