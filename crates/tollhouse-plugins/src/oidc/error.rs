//! Errors of authentication.

/// Error: the identity provider or a session store gave no usable answer. The client is not at
/// fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {reason}")]
pub(crate) struct Unavailable {
    /// Purpose of the request to the provider, as a word.
    pub(crate) what: &'static str,
    /// Reason, such as an invalid answer.
    pub(crate) reason: String,
}

impl Unavailable {
    pub(crate) fn new(what: &'static str, reason: impl Into<String>) -> Self {
        Self { what, reason: reason.into() }
    }
}

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// Invalid token; the reason may be shown to the client.
    #[error("{0}")]
    Refused(&'static str),
    /// The token could not be checked.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
