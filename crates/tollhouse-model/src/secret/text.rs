//! A text that nothing shows by accident.

use std::fmt;

/// A password, token or key: `Debug` prints stars, and there is no `Display`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for those who must have it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}
