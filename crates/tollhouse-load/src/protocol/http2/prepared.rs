//! The requests of a case as HTTP/2 sends them: the same ones as HTTP/1's, without what only HTTP/1 has.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use tollhouse_h2::RequestLine;
use tollhouse_stdx::Random;

use crate::case::Case;
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::protocol::Ticket;
use crate::protocol::request::{Filled, Parts, Requests};
use crate::target::Target;

use super::session::RequestHead;

/// Lines that belong to a connection and have no place in HTTP/2 (RFC 9113, 8.2.2).
const CONNECTION_HEADERS: [&str; 6] =
    ["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// All requests of a case.
pub(super) struct PreparedRequests {
    requests: Requests,
    /// In the order of the requests; `None` for those that are filled in every time.
    prepared: Vec<Option<PreparedRequest>>,
    target: Target,
}

#[derive(Debug, Clone)]
pub(super) struct PreparedRequest {
    /// Which one it is; `None` where it is filled in every time.
    number: Option<u64>,
    method: Method,
    uri: Uri,
    /// Shared by neighbours that have the same ones.
    headers: Arc<HeaderMap>,
    body: Bytes,
}

/// What cannot be sent: the key of the case, and why.
type Problem = (&'static str, String);

impl PreparedRequests {
    /// Prepares the requests of a case; reads its files.
    pub(super) fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError> {
        let requests = Requests::prepare(case, target)?;
        let mut prepared: Vec<Option<PreparedRequest>> = Vec::new();
        let mut before: Option<&Parts> = None;
        for entry in requests.entries() {
            let Some(parts) = entry.fixed_parts() else {
                prepared.push(None);
                continue;
            };
            let same = prepared.last().and_then(Option::as_ref).filter(|_| {
                before.is_some_and(|b| b.headers == parts.headers && b.body == parts.body)
            });
            let one = PreparedRequest::new(&entry.method, parts, target, same);
            let case = |(key, why): Problem| BenchError::Case { key: key.into(), why };
            let number = Some(prepared.len() as u64);
            prepared.push(Some(PreparedRequest { number, ..one.map_err(case)? }));
            before = Some(parts);
        }
        Ok(Self { requests, prepared, target: target.clone() })
    }

    /// The request that goes with a ticket; `lane` names what sends it.
    #[inline]
    pub(super) fn next(
        &self,
        ticket: Ticket,
        lane: &str,
        random: &mut Random,
        filled: &mut Filled,
    ) -> Result<Cow<'_, PreparedRequest>, Failure> {
        if let Some(prepared) = &self.prepared[self.requests.index(ticket)] {
            return Ok(Cow::Borrowed(prepared));
        }
        let entry = self.requests.next(ticket);
        let parts = entry.parts(ticket, lane, random, filled)?;
        let request = PreparedRequest::new(&entry.method, parts, &self.target, None);
        request.map(Cow::Owned).map_err(|(_, why)| Failure::new(FailureClass::Write, why))
    }
}

impl PreparedRequest {
    /// A request; headers and body are taken from `same` where it has the same.
    fn new(
        method: &str,
        parts: &Parts,
        target: &Target,
        same: Option<&PreparedRequest>,
    ) -> Result<Self, Problem> {
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|error| ("http.method", format!("`{method}`: {error}")))?;
        let (headers, body) = match same {
            Some(same) => (Arc::clone(&same.headers), same.body.clone()),
            None => (Arc::new(headers_of(parts)?), Bytes::copy_from_slice(&parts.body)),
        };
        Ok(Self { number: None, method, uri: uri_of(parts, target)?, headers, body })
    }

    /// The head as the codec takes it.
    pub(super) fn head(&self) -> RequestHead<'_> {
        let line = request_line(self.method.as_str(), &self.uri);
        RequestHead { number: self.number, line, headers: &self.headers }
    }

    pub(super) fn body(&self) -> Bytes {
        self.body.clone()
    }
}

/// What a request to a URI begins with.
pub(in crate::protocol) fn request_line<'a>(method: &'a str, uri: &'a Uri) -> RequestLine<'a> {
    RequestLine {
        method: method.as_bytes(),
        scheme: uri.scheme_str().unwrap_or_default().as_bytes(),
        authority: uri.authority().map_or("", |authority| authority.as_str()).as_bytes(),
        path: uri.path_and_query().map_or("/", |path| path.as_str()).as_bytes(),
        protocol: b"",
    }
}

/// Scheme and authority become `:scheme` and `:authority`; a `Host` of the case is the authority.
fn uri_of(parts: &Parts, target: &Target) -> Result<Uri, Problem> {
    let host = parts.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let authority = host.map_or(target.authority.as_str(), |(_, value)| value.as_str());
    let scheme = if target.is_tls { "https" } else { "http" };
    let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(&*parts.path);
    uri.build().map_err(|error| ("http.urls", format!("`{authority}{}`: {error}", parts.path)))
}

fn headers_of(parts: &Parts) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::with_capacity(parts.headers.len());
    for (name, value) in &parts.headers {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| ("http.headers", format!("`{name}` is not a header name")))?;
        if CONNECTION_HEADERS.contains(&key.as_str()) {
            continue;
        }
        // White space around a value is no part of it (RFC 9110 §5.5), and HTTP/2 has none.
        let text = HeaderValue::from_bytes(value.trim_matches([' ', '\t']).as_bytes())
            .map_err(|_| ("http.headers", format!("the value of `{name}` cannot be sent")))?;
        headers.append(key, text);
    }
    Ok(headers)
}
