//! Error of an invalid conf.

use std::fmt;

use tollhouse_model::expr::pattern::PatternError;
use tollhouse_model::schema::{SchemaError, Violation};

/// Error of an invalid conf: a text in the words of the Admin API, and the invalid field if it is
/// known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfError {
    text: String,
    field: Option<&'static str>,
}

impl ConfError {
    /// Returns an error about one field.
    pub fn in_field(field: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), field: Some(field) }
    }

    /// Sets the field of an error.
    #[must_use]
    pub fn at(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// Returns the error text for the author of the conf. The text is complete; the field need not
    /// be added.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name of the invalid field.
    pub fn field(&self) -> Option<&'static str> {
        self.field
    }
}

impl fmt::Display for ConfError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for ConfError {}

impl From<String> for ConfError {
    fn from(text: String) -> Self {
        Self { text, field: None }
    }
}

impl From<&str> for ConfError {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<Violation> for ConfError {
    fn from(violation: Violation) -> Self {
        Self::from(String::from(violation))
    }
}

impl From<SchemaError> for ConfError {
    fn from(error: SchemaError) -> Self {
        Self::from(error.to_string())
    }
}

impl From<PatternError> for ConfError {
    fn from(error: PatternError) -> Self {
        Self::from(error.to_string())
    }
}

impl From<ConfError> for String {
    fn from(error: ConfError) -> Self {
        error.text
    }
}
