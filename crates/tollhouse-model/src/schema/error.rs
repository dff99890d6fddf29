//! Errors of schemas, and the violations that schemas find in values.
//!
//! The texts are those of the Admin API. The position of a fault is recorded in `walk/faults.rs`.

use serde_json::Value;

use crate::expr::pattern::PatternError;

/// Why a document cannot be compiled as a schema.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// The document exceeds the nesting limit.
    #[error("nested more than {0} levels deep")]
    TooDeep(usize),
    /// The document exceeds the limit on values.
    #[error("more than {0} values")]
    TooLarge(usize),
    /// A number or a text was found in place of a schema.
    #[error("a schema must be an object or a boolean")]
    NotASchema,
    /// A keyword has a value of the wrong kind.
    #[error("invalid \"{keyword}\": expected {expected}")]
    Keyword {
        /// Name of the keyword, such as `minLength`.
        keyword: String,
        /// Expected kind of value, such as `a number`.
        expected: &'static str,
    },
    /// A `$ref` points outside the document, or to a missing part.
    #[error("invalid reference {0:?}: not found in the schema")]
    Reference(String),
    /// `type` is not a JSON type.
    #[error("invalid JSON type: {0}")]
    Type(Value),
    /// A regular expression does not compile.
    #[error("invalid pattern {quoted}: {error}")]
    Pattern {
        /// Pattern, quoted for error messages.
        quoted: String,
        error: PatternError,
    },
}

/// A violation of a schema or of a rule beyond it. The text is returned by the Admin API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns a violation without text, for branches that are only tried and for abandoned walks.
    pub(super) fn unread() -> Self {
        Self(String::new())
    }
}

impl From<Violation> for String {
    fn from(violation: Violation) -> Self {
        violation.0
    }
}
