//! Requests of a case in HTTP/2 form: as in HTTP/1, without connection-specific parts.

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

/// Connection-specific header fields, which HTTP/2 forbids (RFC 9113, section 8.2.2).
const CONNECTION_HEADERS: [&str; 6] =
    ["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Requests of a case, each encoded once unless it has templates.
pub(super) struct PreparedRequests {
    requests: Requests,
    /// Prepared requests, in the order of the requests; `None` for those that are expanded anew
    /// each time.
    prepared: Vec<Option<PreparedRequest>>,
    target: Target,
}

#[derive(Debug, Clone)]
pub(super) struct PreparedRequest {
    /// Index of the request; `None` if it is expanded anew every time.
    number: Option<u64>,
    method: Method,
    uri: Uri,
    /// Shared by adjacent requests with equal headers.
    headers: Arc<HeaderMap>,
    body: Bytes,
}

/// Key of the case and reason why it cannot be sent.
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

    /// Returns the request for a ticket; `lane` is the name of the sender in templates.
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
    /// Creates a request; shares headers and body with `same` if given.
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

    /// Returns the head in the codec's form.
    pub(super) fn head(&self) -> RequestHead<'_> {
        let line = request_line(self.method.as_str(), &self.uri);
        RequestHead { number: self.number, line, headers: &self.headers }
    }

    pub(super) fn body(&self) -> Bytes {
        self.body.clone()
    }
}

/// Builds the request line for a URI.
pub(in crate::protocol) fn request_line<'a>(method: &'a str, uri: &'a Uri) -> RequestLine<'a> {
    RequestLine {
        method: method.as_bytes(),
        scheme: uri.scheme_str().unwrap_or_default().as_bytes(),
        authority: uri.authority().map_or("", |authority| authority.as_str()).as_bytes(),
        path: uri.path_and_query().map_or("/", |path| path.as_str()).as_bytes(),
        protocol: b"",
    }
}

/// Builds the URI for `:scheme` and `:authority`; a `Host` header of the case determines the
/// authority.
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
        // White space around a value is not part of it (RFC 9110, section 5.5), and HTTP/2 forbids
        // it.
        let text = HeaderValue::from_bytes(value.trim_matches([' ', '\t']).as_bytes())
            .map_err(|_| ("http.headers", format!("the value of `{name}` cannot be sent")))?;
        headers.append(key, text);
    }
    Ok(headers)
}
