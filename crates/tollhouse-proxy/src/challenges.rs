//! Questions of the authority that issues certificates, answered while they are pending: over HTTP (RFC 8555
//! §8.3), or by a certificate in a handshake (RFC 8737).
//!
//! The control side says which are; there are none but for a few seconds in two months. Until then, a
//! request pays one load for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use tollhouse_net::server_tls::{Hello, HostTerms};

/// Where the authority asks over plain HTTP; the token follows.
const WELL_KNOWN: &[u8] = b"/.well-known/acme-challenge/";

/// The only protocol that the authority offers in a handshake (RFC 8737 §3).
const ACME_TLS: &[u8] = b"acme-tls/1";

/// Longest token that is looked for, in bytes: authorities' have 22 to 43.
const TOKEN_BYTES_MAX: usize = 128;

/// What is asked for by a token, and what is answered. Few at a time: one for each name of an order.
type Tokens = HashMap<Box<[u8]>, Arc<str>>;

/// How handshakes for names are answered.
type Handshakes = HashMap<Box<str>, HostTerms>;

/// What is pending.
#[derive(Debug, Default)]
pub struct Challenges {
    /// Whether anything is over HTTP.
    is_any: AtomicBool,
    http: ArcSwap<Tokens>,
    tls: ArcSwap<Handshakes>,
}

impl Challenges {
    /// These are pending over HTTP from now on and no others: tokens, and what is answered to each.
    pub fn replace_http(&self, pending: impl IntoIterator<Item = (String, String)>) {
        let pending = pending.into_iter();
        let tokens: Tokens =
            pending.map(|(token, answer)| (token.into_bytes().into(), answer.into())).collect();
        let is_any = !tokens.is_empty();
        self.http.store(Arc::new(tokens));
        // Behind what it announces.
        self.is_any.store(is_any, Ordering::Release);
    }

    /// These names are asked for by handshakes from now on and no others, and so they are answered.
    pub fn replace_tls(&self, pending: impl IntoIterator<Item = (String, HostTerms)>) {
        let handshakes: Handshakes =
            pending.into_iter().map(|(host, terms)| (host.into(), terms)).collect();
        self.tls.store(Arc::new(handshakes));
    }

    /// The terms of a handshake in which an authority asks for a name; the connection ends with it.
    pub(crate) fn terms_for(&self, hello: &Hello<'_>) -> Option<HostTerms> {
        if hello.only_protocol != Some(ACME_TLS) {
            return None;
        }
        self.tls.load().get(hello.server_name?).cloned()
    }

    /// Whether anything is pending over HTTP; what every request asks.
    #[inline]
    pub(crate) fn are_pending(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// The answer to a request for this path, if it asks for a token that is pending.
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
