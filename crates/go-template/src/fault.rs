//! Error in a part of a template, as a text for the author of the template. `TemplateError` adds
//! the position.

use std::fmt;

/// Description of an error, as a sentence fragment.
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
