//! Failures of calls: a code of the protocol and a detail.

use crate::code::Code;
use crate::refusal::detail_of;
use crate::wire::answer::info_with;
use std::borrow::Cow;
use tollhouse_registry::Refusal;

/// A code, with an optional detail in addition to its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) detail: Option<Cow<'static, str>>,
}

impl Failure {
    pub(crate) fn with(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: Some(detail.into()) }
    }

    /// Returns the text of the code, with the detail.
    pub(crate) fn info(&self) -> Cow<'static, str> {
        match &self.detail {
            Some(detail) => Cow::Owned(info_with(self.code, detail)),
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
