//! Texts that must not appear in logs: passwords, keys and other secrets of confs.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

/// A text whose `Debug` prints stars.
#[derive(Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether `other` is equal. The time depends only on the length.
    pub fn is(&self, other: &[u8]) -> bool {
        are_equal(self.as_bytes(), other)
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for SecretText {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("***")
    }
}

/// In a schema, a secret is an ordinary string.
impl JsonSchema for SecretText {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// Compares in constant time; only a difference in length may show.
pub(crate) fn are_equal(one: &[u8], other: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(one, other).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret: SecretText = serde_json::from_str("\"open sesame\"").expect("a string");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "*** Some(***)");
        assert!(secret.is(b"open sesame"));
        assert!(!secret.is(b"open sesamf") && !secret.is(b"open") && !secret.is(b""));
    }
}
