//! Why a part of a template means nothing, or cannot be filled in: the text for whoever wrote it. Where it
//! stands is added by those who know (`TemplateError`).

use std::fmt;

/// What is wrong, as a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
