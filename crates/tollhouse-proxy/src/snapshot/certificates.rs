//! TLS host of a client, found by server name as in APISIX: the name itself, else `*.` in place of
//! its first label, else `*`.

use std::sync::Arc;

use tollhouse_model::Id;
use tollhouse_model::certificate::CertificateFacts;
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::Lookup;
use tollhouse_net::server_tls::{ClientVerifier, HostTerms};
use tollhouse_stdx::CowMap;

/// TLS hosts by the server name that clients request.
#[derive(Debug, Clone, Default)]
pub struct Certificates {
    /// Hosts by name; a wildcard name `*.example.com` has the key `.example.com`.
    hosts: CowMap<Box<str>, Answer>,
    any: Option<Answer>,
    /// Number of server names that request client certificates, including invalid ones whose
    /// handshakes are refused.
    asking: usize,
}

/// Treatment of handshakes for a server name.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Host with valid certificates.
    Host(Arc<TlsHost>),
    /// Handshakes are refused, also if a wildcard host matches: the object for the name requests
    /// client certificates and is invalid.
    Nobody,
}

impl Answer {
    /// Returns the host, unless handshakes are refused.
    pub(crate) fn host(&self) -> Option<&Arc<TlsHost>> {
        match self {
            Self::Host(host) => Some(host),
            Self::Nobody => None,
        }
    }

    fn asks_clients(&self) -> bool {
        self.host().is_none_or(|host| host.clients.is_some())
    }
}

/// A TLS host, compiled from an ssl object.
#[derive(Debug)]
pub struct TlsHost {
    /// Id of the ssl object that lists the host.
    pub id: Id,
    /// TLS terms of the host's handshakes.
    pub terms: HostTerms,
    /// Names and expiry of each certificate.
    pub certificates: Vec<CertificateFacts>,
    /// OCSP responses stored in the object.
    pub staples: Vec<Arc<[u8]>>,
    /// Verification of client certificates; `None` if none are requested.
    pub clients: Option<ClientTerms>,
}

impl TlsHost {
    /// Whether every certificate of the host covers `host`, given in lower case. Every certificate
    /// must, because the client chooses which one it sees.
    pub(crate) fn covers(&self, host: &str) -> bool {
        !self.certificates.is_empty()
            && self.certificates.iter().all(|certificate| certificate.covers(host))
    }
}

/// Verifier of client certificates, and the requests that need none.
#[derive(Debug)]
pub struct ClientTerms {
    pub verifier: Arc<ClientVerifier>,
    /// Requests that are exempt from client certificates.
    pub exempt: Vec<Expr>,
}

impl ClientTerms {
    /// Whether a request is exempt. A condition that cannot be evaluated does not exempt it.
    pub(crate) fn exempts(&self, request: &dyn Lookup) -> bool {
        self.exempt.iter().any(|pattern| pattern.matches(request))
    }
}

/// Place of a name in [`Certificates`].
#[derive(Debug, PartialEq, Eq)]
enum NameSlot<'a> {
    Key(&'a str),
    Any,
    /// A name that a client cannot send.
    Nothing,
}

impl<'a> NameSlot<'a> {
    fn new(name: &'a str) -> Self {
        match name.strip_prefix('*') {
            Some("") => NameSlot::Any,
            Some(rest) if rest.starts_with('.') => NameSlot::Key(rest),
            // A name that begins with a dot would collide with the key of a wildcard.
            None if !name.starts_with('.') => NameSlot::Key(name),
            Some(_) | None => NameSlot::Nothing,
        }
    }
}

/// Whether a configured name can match a client's server name: an exact name, a wildcard such as
/// `*.example.com`, or `*`.
pub(crate) fn is_name(name: &str) -> bool {
    NameSlot::new(name) != NameSlot::Nothing && !name.ends_with('.')
}

impl Certificates {
    /// Returns the host for `name`, given in lower case without a final dot.
    pub fn find(&self, name: &str) -> Option<&Arc<TlsHost>> {
        self.answer(name)?.host()
    }

    /// Whether handshakes for `name` are refused, because its object is invalid.
    pub(crate) fn refuses(&self, name: &str) -> bool {
        matches!(self.answer(name), Some(Answer::Nobody))
    }

    fn answer(&self, name: &str) -> Option<&Answer> {
        // A name that begins with a dot would be taken for the key of a wildcard.
        let exact = Some(name).filter(|name| !name.starts_with('.'));
        let wildcard = || name.find('.').map(|dot| &name[dot..]);
        exact
            .and_then(|name| self.hosts.get(name))
            .or_else(|| self.hosts.get(wildcard()?))
            .or(self.any.as_ref())
    }

    /// Returns the host for clients that send no server name, if no fallback name is configured.
    pub fn any(&self) -> Option<&Arc<TlsHost>> {
        self.any.as_ref()?.host()
    }

    /// Whether any host requests client certificates.
    #[inline]
    pub(crate) fn asks_clients(&self) -> bool {
        self.asking > 0
    }

    /// Sets the treatment of handshakes for a server name; `None` removes it. `name` is an exact
    /// name, a wildcard such as `*.example.com`, or `*` for all other names; any other pattern is
    /// ignored.
    pub(crate) fn set(&mut self, name: &str, answer: Option<Answer>) {
        let asks = |answer: &Option<Answer>| {
            usize::from(answer.as_ref().is_some_and(Answer::asks_clients))
        };
        let asking = asks(&answer);
        let before = match (NameSlot::new(name), answer) {
            (NameSlot::Any, answer) => std::mem::replace(&mut self.any, answer),
            (NameSlot::Key(key), Some(answer)) => self.hosts.insert(key.into(), answer),
            (NameSlot::Key(key), None) => self.hosts.remove(key),
            (NameSlot::Nothing, _) => return,
        };
        self.asking = self.asking + asking - asks(&before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificates(names: &[&str]) -> Certificates {
        let terms = tollhouse_net::server_tls::ServerTerms::default();
        let mut certificates = Certificates::default();
        for name in names {
            let terms =
                terms.host(&[], None, None).expect("no certificate is one too few, not bad");
            let id = Id::new(*name);
            let host =
                TlsHost { id, terms, certificates: Vec::new(), staples: Vec::new(), clients: None };
            certificates.set(name, Some(Answer::Host(Arc::new(host))));
        }
        certificates
    }

    #[test]
    fn a_whole_name_beats_a_wildcard_and_that_beats_the_rest() {
        let all = ["a.example.com", "*.example.com", "*.b.example.com", "*"];
        let no_rest = &all[..3];
        for (names, asked, expected) in [
            (&all[..], "a.example.com", Some("a.example.com")),
            (&all, "b.example.com", Some("*.example.com")),
            (&all, "x.b.example.com", Some("*.b.example.com")),
            (&all, "x.y.example.com", Some("*")),
            (&all, "example.com", Some("*")),
            (&all, "", Some("*")),
            (&all, "localhost", Some("*")),
            (no_rest, "x.y.example.com", None),
            (no_rest, "example.com", None),
            (no_rest, ".example.com", Some("*.example.com")),
            (no_rest, "*.example.com", Some("*.example.com")),
            (no_rest, "", None),
            (no_rest, ".", None),
            (&[], "a.example.com", None),
        ] {
            let certificates = certificates(names);
            let found = certificates.find(asked).map(|host| host.id.as_str());
            assert_eq!(found, expected, "{asked}");
        }
    }

    #[test]
    fn a_name_that_is_removed_falls_to_the_next_best() {
        let mut certificates = certificates(&["a.example.com", "*.example.com", "*"]);
        for expected in [Some("a.example.com"), Some("*.example.com"), Some("*"), None] {
            let found = certificates.find("a.example.com").map(|host| host.id.clone());
            assert_eq!(found.as_ref().map(Id::as_str), expected);
            if let Some(name) = expected {
                certificates.set(name, None);
            }
        }
    }

    #[test]
    fn a_name_that_nobody_may_answer_for_is_left_to_no_broader_one() {
        let mut certificates = certificates(&["*.example.com", "*"]);
        assert!(!certificates.asks_clients());
        certificates.set("a.example.com", Some(Answer::Nobody));
        let found = |name| certificates.find(name).map(|host| host.id.as_str());
        assert_eq!((found("a.example.com"), found("b.example.com")), (None, Some("*.example.com")));
        assert!(certificates.refuses("a.example.com") && !certificates.refuses("b.example.com"));
        assert!(certificates.asks_clients());
        certificates.set("a.example.com", None);
        assert!(!certificates.asks_clients() && !certificates.refuses("a.example.com"));
    }

    #[test]
    fn what_nobody_can_ask_for_takes_no_others_place() {
        let mut certificates = certificates(&["example.com", "*.example.com"]);
        for name in ["*example.com", ".example.com"] {
            assert!(!is_name(name), "{name}");
            certificates.set(name, Some(Answer::Nobody));
            certificates.set(name, None);
        }
        let found = |name| certificates.find(name).map(|host| host.id.as_str());
        assert_eq!(found("example.com"), Some("example.com"));
        assert_eq!(found("a.example.com"), Some("*.example.com"));
        assert!(!is_name("example.com.") && is_name("*") && is_name("*.a"));
    }
}
