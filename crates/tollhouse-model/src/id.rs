//! Identifiers of objects: a string of 1 to 64 characters, or an integer written as one.

use std::fmt;
use std::sync::Arc;

/// The id of a route, service, upstream, …; cheap to clone, ordered as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Arc<str>);

impl Id {
    /// Wraps text that the caller has checked; documents are checked by their `parse` functions.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
