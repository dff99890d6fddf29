//! Why a conf cannot be used.

use std::fmt;

use tollhouse_model::expr::pattern::PatternError;
use tollhouse_model::schema::{SchemaError, Violation};

/// Why a conf cannot be used: in the words of the Admin API, and in which field, where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfError {
    text: String,
    field: Option<&'static str>,
}

impl ConfError {
    /// What is wrong with one field.
    pub fn in_field(field: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), field: Some(field) }
    }

    /// The same in a field that its own text does not know of.
    #[must_use]
    pub fn at(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// What is wrong, as whoever wrote the conf is told; complete without the field.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The field of the conf that is to be changed.
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
