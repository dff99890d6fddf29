//! Notes of calls that return a token, for the audit log.

use std::net::IpAddr;

use super::{Caller, Dialect};

/// Call that returned a token to an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRead {
    /// Name of the user, machine or key that has read; `None` if the caller has none.
    pub actor: Option<String>,
    pub peer: Option<IpAddr>,
    /// Path of the owner of the token, such as `registry/users/mary`.
    pub path: String,
}

/// Destination of notes.
pub trait TokenReads: Send + Sync {
    /// Stores a note. Must not block.
    fn keep(&self, read: TokenRead);
}

/// Reader of a token, until the call has found it.
pub(crate) struct TokenReader {
    actor: Option<String>,
    peer: Option<IpAddr>,
}

impl Dialect {
    /// Sends notes of calls that return tokens to `sink`.
    #[must_use]
    pub fn with_token_reads(self, sink: std::sync::Arc<dyn TokenReads>) -> Self {
        Self { token_reads: Some(sink), ..self }
    }

    /// Returns the caller as the reader of a token.
    pub(crate) fn token_reader(&self, caller: &Caller<'_>) -> TokenReader {
        let actor = Some(self.author(caller).to_string()).filter(|name| !name.is_empty());
        TokenReader { actor, peer: caller.address }
    }

    /// Notes that a reader got the token of the object at a path.
    pub(crate) fn note_token_read(&self, reader: TokenReader, path: String) {
        let TokenReader { actor, peer } = reader;
        if let Some(sink) = &self.token_reads {
            sink.keep(TokenRead { actor, peer, path });
        }
    }
}
