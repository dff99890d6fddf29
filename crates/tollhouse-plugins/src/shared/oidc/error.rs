//! Why nobody can say who asks.

/// An identity provider, or a place where sessions are kept, gave no answer that can be used. Nothing of it is the
/// client's doing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {reason}")]
pub(crate) struct Unavailable {
    /// What was asked for.
    pub(crate) what: &'static str,
    /// What came instead.
    pub(crate) reason: String,
}

impl Unavailable {
    pub(crate) fn new(what: &'static str, reason: impl Into<String>) -> Self {
        Self { what, reason: reason.into() }
    }
}

/// Why a token is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// It is not good, and why: in words that may be shown to whoever has sent it.
    #[error("{0}")]
    Refused(&'static str),
    /// Nobody can say whether it is.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
