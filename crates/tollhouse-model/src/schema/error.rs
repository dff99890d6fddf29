//! What is wrong with a schema, and what a schema finds wrong with a value.
//!
//! The texts are those of the Admin API; where a fault stands is in `walk/faults.rs`.

use serde_json::Value;

use crate::expr::pattern::PatternError;

/// Why a document is no schema.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// It nests deeper than the compiler follows.
    #[error("nested more than {0} levels deep")]
    TooDeep(usize),
    /// It holds more values than are kept of one document.
    #[error("more than {0} values")]
    TooLarge(usize),
    /// A number or a text stands where a schema should.
    #[error("a schema must be an object or a boolean")]
    NotASchema,
    /// A keyword has a value of the wrong kind.
    #[error("invalid \"{keyword}\": expected {expected}")]
    Keyword {
        /// The keyword, such as `minLength`.
        keyword: String,
        /// What it takes, such as `a number`.
        expected: &'static str,
    },
    /// A `$ref` leads out of the document, or nowhere.
    #[error("invalid reference {0:?}: it leads nowhere in the schema")]
    Reference(String),
    /// `type` names no type of JSON.
    #[error("invalid JSON type: {0}")]
    Type(Value),
    /// A regular expression does not compile.
    #[error("invalid pattern {quoted}: {error}")]
    Pattern {
        /// The pattern, as messages quote it.
        quoted: String,
        /// What is wrong with it.
        error: PatternError,
    },
}

/// What a schema, or a rule beyond it, finds wrong with a value: the text that the Admin API answers with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    /// What is wrong, in full.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Of a branch that was only tried: writing the text would have been in vain.
    pub(super) fn unread() -> Self {
        Self(String::new())
    }
}

impl From<Violation> for String {
    fn from(violation: Violation) -> Self {
        violation.0
    }
}
