//! Failures of calls over HTTP.

use crate::code::Code;
use crate::refusal::detail_of;
use std::borrow::Cow;
use tollhouse_registry::Refusal;

/// A code, with an optional detail in addition to its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: Code,
    pub(super) detail: Option<Cow<'static, str>>,
}

impl Failure {
    pub(super) fn with(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: Some(detail.into()) }
    }

    /// Returns the text of the code, with the detail.
    pub(super) fn info(&self) -> Cow<'static, str> {
        match &self.detail {
            Some(detail) => Cow::Owned(format!("{}: {detail}", self.code.info())),
            None => Cow::Borrowed(self.code.info()),
        }
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Self { code, detail: None }
    }
}

impl From<&Refusal> for Failure {
    fn from(refusal: &Refusal) -> Self {
        Self { code: refusal.into(), detail: detail_of(refusal) }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::from(&refusal)
    }
}
