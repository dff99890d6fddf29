//! ACME challenges: answers the certificate authority while an order is pending, over HTTP (RFC
//! 8555 §8.3) or by a certificate in a TLS handshake (RFC 8737).
//!
//! The control side publishes the pending challenges, usually for a few seconds every two months.
//! Without pending challenges, a request pays one atomic load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use tollhouse_net::server_tls::{Hello, HostTerms};

/// Path prefix of HTTP challenges; the token follows.
const WELL_KNOWN: &[u8] = b"/.well-known/acme-challenge/";

/// The only ALPN protocol that an authority offers in a challenge handshake (RFC 8737 §3).
const ACME_TLS: &[u8] = b"acme-tls/1";

/// Maximum length of a token that is looked up, in bytes; authorities send 22 to 43.
const TOKEN_BYTES_MAX: usize = 128;

/// Responses by token. Few at a time: one per name of an order.
type Tokens = HashMap<Box<[u8]>, Arc<str>>;

/// TLS terms of challenge handshakes, by server name.
type Handshakes = HashMap<Box<str>, HostTerms>;

#[derive(Debug, Default)]
pub struct Challenges {
    /// Set while any HTTP challenge is pending.
    is_any: AtomicBool,
    http: ArcSwap<Tokens>,
    tls: ArcSwap<Handshakes>,
}

impl Challenges {
    /// Replaces the pending HTTP challenges by `pending`: pairs of token and response.
    pub fn replace_http(&self, pending: impl IntoIterator<Item = (String, String)>) {
        let pending = pending.into_iter();
        let tokens: Tokens =
            pending.map(|(token, answer)| (token.into_bytes().into(), answer.into())).collect();
        let is_any = !tokens.is_empty();
        self.http.store(Arc::new(tokens));
        // Stored after the tokens, so that a reader which sees the flag also sees the tokens.
        self.is_any.store(is_any, Ordering::Release);
    }

    /// Replaces the pending TLS challenges by `pending`: pairs of server name and handshake terms.
    pub fn replace_tls(&self, pending: impl IntoIterator<Item = (String, HostTerms)>) {
        let handshakes: Handshakes =
            pending.into_iter().map(|(host, terms)| (host.into(), terms)).collect();
        self.tls.store(Arc::new(handshakes));
    }

    /// Returns the terms of a challenge handshake, or `None` for any other handshake. The
    /// connection ends after the handshake.
    pub(crate) fn terms_for(&self, hello: &Hello<'_>) -> Option<HostTerms> {
        if hello.only_protocol != Some(ACME_TLS) {
            return None;
        }
        self.tls.load().get(hello.server_name?).cloned()
    }

    /// Whether an HTTP challenge is pending; checked for every request.
    #[inline]
    pub(crate) fn are_pending(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Returns the response to a request for `path`, if the path names a pending token.
    pub(crate) fn answer_to(&self, path: &[u8]) -> Option<Arc<str>> {
        let token = path.strip_prefix(WELL_KNOWN)?;
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        self.http.load().get(token).map(Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_pending_is_answered() {
        let challenges = Challenges::default();
        assert!(!challenges.are_pending());
        challenges.replace_http([("token-1".to_owned(), "token-1.thumb".to_owned())]);
        assert!(challenges.are_pending());
        let long = format!("/.well-known/acme-challenge/{}", "a".repeat(TOKEN_BYTES_MAX + 1));
        let table = [
            ("/.well-known/acme-challenge/token-1", Some("token-1.thumb")),
            ("/.well-known/acme-challenge/token-2", None),
            ("/.well-known/acme-challenge/token-1/", None),
            ("/.well-known/acme-challenge/", None),
            ("/.well-known/acme-challenge", None),
            ("/token-1", None),
            (&long, None),
        ];
        for (path, expected) in table {
            let answer = challenges.answer_to(path.as_bytes());
            assert_eq!(answer.as_deref(), expected, "{path}");
        }
        challenges.replace_http([]);
        assert!(!challenges.are_pending());
        assert_eq!(challenges.answer_to(b"/.well-known/acme-challenge/token-1"), None);
    }
}
