//! Invalidation by unsafe requests (RFC 9111 §4.4): a successful one invalidates its target, and
//! the URIs of the target's origin that its answer names.

use std::borrow::Cow;

use tollhouse_model::variable::{Lookup, Variable, query_argument};
use tollhouse_plugin::ResponseContext;

use super::key::{Parts, write_part};
use super::{ProxyCache, for_head};

/// Methods that change nothing (RFC 9110 §9.2.1); an unknown method may change anything.
const SAFE: [&[u8]; 5] = [b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PURGE"];

/// Keys that an unsafe request invalidates once a node has accepted it.
#[derive(Debug)]
pub(super) struct Invalidation {
    /// First part of the keys of the requesting client; empty for clients without identity.
    pub owner: Vec<u8>,
    /// Rest of the key of the request's target.
    pub target: Vec<u8>,
    /// Whether nodes get the path that clients ask for, so that keys of other URIs can be computed.
    pub is_path_kept: bool,
}

/// Whether a request with this method may invalidate stored answers.
pub(super) fn is_unsafe(method: &[u8]) -> bool {
    !SAFE.contains(&method)
}

impl ProxyCache {
    /// Drops the stored answers that a successful answer to an unsafe request makes obsolete: those
    /// of this client and those of clients without identity.
    pub(super) fn invalidate(&self, cx: &ResponseContext<'_>, invalidation: &Invalidation) {
        if !(200..400).contains(&cx.status()) {
            return;
        }
        let mut targets = vec![invalidation.target.clone()];
        if invalidation.is_path_kept {
            let variables = cx.variables();
            let host = cx.request_header("host").unwrap_or_default();
            let base = cx.request().request_uri();
            for name in ["location", "content-location"] {
                let uri = cx.header(name).and_then(|value| same_origin(value, &host, &base));
                targets.extend(uri.map(|uri| key_of(&uri, &self.key, &variables)));
            }
        }
        let owners = [&invalidation.owner[..], b""];
        let count = if invalidation.owner.is_empty() { 1 } else { 2 };
        for target in &targets {
            for owner in &owners[..count] {
                let key = [*owner, &target[..]].concat();
                self.zone.forget(&for_head(&key));
                self.zone.forget(&key);
            }
        }
    }
}

fn key_of(uri: &[u8], parts: &Parts, request: &dyn Lookup) -> Vec<u8> {
    let mut key = Vec::new();
    parts.write(&OtherTarget { uri, request }, &mut key);
    write_part(uri, &mut key);
    key
}

/// Returns the path and query of a URI reference; `None` if it has another origin than the request,
/// or if its spelling is ambiguous.
fn same_origin(reference: &[u8], host: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let end = reference.iter().position(|byte| *byte == b'#').unwrap_or(reference.len());
    let reference = reference[..end].trim_ascii();
    let after_scheme = ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = reference.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
    });
    let uri = match after_scheme {
        Some(rest) => {
            let path_at = rest.iter().position(|byte| *byte == b'/')?;
            rest[..path_at].eq_ignore_ascii_case(host).then(|| rest[path_at..].to_vec())?
        }
        None if reference.starts_with(b"/") => reference.to_vec(),
        None => {
            let path = base.split(|byte| *byte == b'?').next().unwrap_or_default();
            let folder = path.iter().rposition(|byte| *byte == b'/')?;
            [&path[..=folder], reference].concat()
        }
    };
    let path = uri.split(|byte| *byte == b'?').next().unwrap_or_default();
    let is_plain =
        path.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,=@".contains(byte))
            && !path.windows(2).any(|pair| matches!(pair, b"//" | b"/."));
    (is_plain && uri.iter().all(u8::is_ascii_graphic)).then_some(uri)
}

/// Variables of a request as they would be for another URI of its origin.
struct OtherTarget<'a> {
    uri: &'a [u8],
    request: &'a dyn Lookup,
}

impl OtherTarget<'_> {
    fn query(&self) -> Option<&[u8]> {
        let question = self.uri.iter().position(|byte| *byte == b'?')?;
        Some(&self.uri[question + 1..])
    }
}

impl Lookup for OtherTarget<'_> {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        match variable {
            Variable::RequestUri => Some(Cow::Borrowed(self.uri)),
            Variable::Uri => self.uri.split(|byte| *byte == b'?').next().map(Cow::Borrowed),
            Variable::Args => self.query().map(Cow::Borrowed),
            Variable::Arg(name) => query_argument(self.query()?, name),
            other => self.request.variable(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_the_same_origin_are_resolved() {
        for (reference, expected) in [
            ("/b", Some("/b")),
            ("/b?c=d#e", Some("/b?c=d")),
            ("b", Some("/x/b")),
            ("http://a.test/b", Some("/b")),
            ("HTTPS://A.test/b", Some("/b")),
            ("http://a.test:8080/b", None),
            ("http://b.test/b", None),
            ("http://a.test", None),
            ("//b.test/b", None),
            ("mailto:a@b", None),
            ("/b/../c", None),
            ("/%62", None),
            ("/b c", None),
        ] {
            let found = same_origin(reference.as_bytes(), b"a.test", b"/x/y?z=1");
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{reference}");
        }
    }

    #[test]
    fn only_methods_known_to_change_nothing_are_safe() {
        for (method, expected) in [
            ("GET", false),
            ("HEAD", false),
            ("OPTIONS", false),
            ("POST", true),
            ("PUT", true),
            ("DELETE", true),
            ("PATCH", true),
            ("M-SEARCH", true),
            ("get", true),
        ] {
            assert_eq!(is_unsafe(method.as_bytes()), expected, "{method}");
        }
    }
}
