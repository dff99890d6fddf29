//! HTTP requests of a case, prepared once: their order, their parts, and their HTTP/1 encoding.
//!
//! HTTP/2 encodes the entries separately.

mod fill;
mod list;
mod wire;

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollhouse_stdx::Random;

use crate::case::{Body, Case, UrlEntry};
use crate::error::BenchError;
use crate::failure::Failure;
use crate::protocol::Ticket;
use crate::target::Target;

use fill::Templates;
use wire::Wire;

/// Value of `User-Agent` unless the case has another.
pub(super) const USER_AGENT: &str = concat!("tollhouse-bench/", env!("CARGO_PKG_VERSION"));
/// Spelling used by the generator itself, by which its own header line is recognized.
const CONTENT_LENGTH: &str = "Content-Length";

/// Requests of a case and the order in which they are sent.
#[derive(Debug)]
pub struct Requests {
    entries: Vec<Entry>,
    /// Entry indices of one turn through the list; empty if there is only one entry.
    turn: Vec<u32>,
    wire: Wire,
}

/// Parts of a request common to all HTTP versions.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    pub path: String,
    /// Header lines in order, `Host` first, without those specific to HTTP/1.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Request of a case, prepared for sending.
#[derive(Debug)]
pub struct Entry {
    pub method: String,
    /// Whether the method is HEAD, so that the response has no body.
    pub is_head: bool,
    parts: Parts,
    /// Whole request in HTTP/1 form.
    bytes: Vec<u8>,
    templates: Option<Templates>,
}

/// Buffer for expanded requests, reused by a lane.
#[derive(Debug, Default)]
pub struct Filled {
    parts: Parts,
    bytes: Vec<u8>,
}

impl Requests {
    /// Prepares the requests of a case; reads its files.
    ///
    /// # Errors
    /// If a file cannot be read or contains an invalid line, or a template is invalid.
    pub fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError> {
        let http = &case.http;
        let body = match &http.body {
            None => Vec::new(),
            Some(Body::Text(text)) => text.clone().into_bytes(),
            Some(Body::File(path)) => fs::read(path).map_err(|error| bad_file(path, &error))?,
        };
        let mut listed = http.urls.clone();
        if let Some(path) = &http.urls_file {
            let text = fs::read_to_string(path).map_err(|error| bad_file(path, &error))?;
            listed.extend(list::parse(&text).map_err(|why| bad_file(path, &why))?);
        }
        if listed.is_empty() {
            listed.push(UrlEntry { method: None, url: target.path.clone(), weight: 1 });
        }
        let wire = Wire::new(case, target);
        let turn = list::turn_of(&listed)?;
        let entries = listed.iter().map(|entry| prepare_entry(case, target, &wire, entry, &body));
        Ok(Self { entries: entries.collect::<Result<_, _>>()?, turn, wire })
    }

    /// Returns the request for a ticket.
    #[inline]
    pub fn next(&self, ticket: Ticket) -> &Entry {
        &self.entries[self.index(ticket)]
    }

    /// Returns the index into [`entries`](Self::entries) for a ticket.
    #[inline]
    pub fn index(&self, ticket: Ticket) -> usize {
        match self.turn.len() {
            0 => 0,
            turn => self.turn[(ticket.number % turn as u64) as usize] as usize,
        }
    }

    /// Returns all requests, for protocols with their own encoding.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the HTTP/1 bytes of a request. `lane` is the name of the sender in templates.
    ///
    /// # Errors
    /// If a template cannot be expanded.
    #[inline]
    pub fn bytes<'a>(
        &self,
        entry: &'a Entry,
        ticket: Ticket,
        lane: &str,
        random: &mut Random,
        filled: &'a mut Filled,
    ) -> Result<&'a [u8], Failure> {
        let Some(templates) = &entry.templates else { return Ok(&entry.bytes) };
        templates.fill(ticket, lane, random, &mut filled.parts)?;
        let Parts { path, headers, body } = &filled.parts;
        self.wire.encode(&entry.method, path, headers, body, &mut filled.bytes);
        Ok(&filled.bytes)
    }
}

impl Entry {
    /// Returns the parts of a constant request; `None` for one with templates.
    pub fn fixed_parts(&self) -> Option<&Parts> {
        self.templates.is_none().then_some(&self.parts)
    }

    /// Returns the expanded parts of a request, for other versions of HTTP. `lane` is the name of
    /// the sender in templates.
    ///
    /// # Errors
    /// If a template cannot be expanded.
    pub fn parts<'a>(
        &'a self,
        ticket: Ticket,
        lane: &str,
        random: &mut Random,
        filled: &'a mut Filled,
    ) -> Result<&'a Parts, Failure> {
        let Some(templates) = &self.templates else { return Ok(&self.parts) };
        templates.fill(ticket, lane, random, &mut filled.parts)?;
        Ok(&filled.parts)
    }
}

impl Parts {
    /// Rejects content that would break the framing of the request; the error holds the key of the
    /// case and the problem.
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.path.bytes().any(|b| b <= b' ' || b == 0x7f) {
            let why = format!("`{}` has a space in it", self.path.escape_debug());
            return Err(("http.urls", why));
        }
        for (name, value) in &self.headers {
            if !is_token(name) {
                let why = format!("`{}` is not a header name", name.escape_debug());
                return Err(("http.headers", why));
            }
            if value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
                return Err((
                    "http.headers",
                    format!("the value of `{name}` has a line break in it"),
                ));
            }
        }
        Ok(())
    }
}

/// Whether the text is an HTTP token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    let is_letter = |b: u8| b.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&b);
    !text.is_empty() && text.bytes().all(is_letter)
}

fn prepare_entry(
    case: &Case,
    target: &Target,
    wire: &Wire,
    listed: &UrlEntry,
    body: &[u8],
) -> Result<Entry, BenchError> {
    let method = listed.method.clone().unwrap_or_else(|| case.http.method.clone());
    if !is_token(&method) {
        let why = format!("`{}` is not a method", method.escape_debug());
        return Err(BenchError::Case { key: "http.method".into(), why });
    }
    let headers = headers_of(case, target, &method, body);
    let parts = Parts { path: path_of(&listed.url, target)?, headers, body: body.to_vec() };
    let templates = if case.http.template { Templates::compile(&parts)? } else { None };
    if templates.is_none() {
        parts.check().map_err(|(key, why)| BenchError::Case { key: key.into(), why })?;
    }
    let mut bytes = Vec::new();
    wire.encode(&method, &parts.path, &parts.headers, body, &mut bytes);
    Ok(Entry { is_head: method == "HEAD", method, parts, bytes, templates })
}

fn path_of(url: &str, target: &Target) -> Result<String, BenchError> {
    let Some((_, rest)) = url.split_once("://") else { return Ok(url.to_owned()) };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    if authority != target.authority {
        let why = format!("`{url}` is not of {}, and a case has one target", target.authority);
        return Err(BenchError::Case { key: "http.urls".into(), why });
    }
    Ok(match path.as_bytes().first() {
        Some(b'/') => path.to_owned(),
        _ => format!("/{path}"),
    })
}

/// Returns the header lines of the case, with the generator's own for those it does not set.
fn headers_of(case: &Case, target: &Target, method: &str, body: &[u8]) -> Vec<(String, String)> {
    let given = &case.http.headers;
    let has = |name: &str| given.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let mut headers = Vec::new();
    if !has("host") {
        headers.push(("Host".to_owned(), target.authority.clone()));
    }
    if !has("user-agent") {
        headers.push(("User-Agent".to_owned(), USER_AGENT.to_owned()));
    }
    if let Some(credentials) = &target.credentials
        && !has("authorization")
    {
        headers
            .push(("Authorization".to_owned(), format!("Basic {}", STANDARD.encode(credentials))));
    }
    // An empty value removes one of the generator's own headers.
    headers.extend(given.iter().filter(|(_, value)| !value.is_empty()).cloned());
    let sends_length = !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH");
    if sends_length && !has("content-length") && !has("transfer-encoding") {
        headers.push((CONTENT_LENGTH.to_owned(), body.len().to_string()));
    }
    headers
}

fn bad_file(path: &Path, why: &impl ToString) -> BenchError {
    BenchError::File { path: path.to_owned(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{HttpVersion, RequestForm};

    fn prepared(change: impl FnOnce(&mut Case)) -> Result<Requests, BenchError> {
        let mut case = Case::new("http://127.0.0.1:8080/x?y=1");
        change(&mut case);
        Requests::prepare(&case, &Target::try_from_case(&case).expect("target"))
    }

    fn text(change: impl FnOnce(&mut Case)) -> String {
        let requests = prepared(change).expect("requests");
        sent(&requests, 0)
    }

    fn sent(requests: &Requests, number: u64) -> String {
        let ticket = Ticket { number };
        let mut filled = Filled::default();
        let entry = requests.next(ticket);
        let bytes = requests.bytes(entry, ticket, "w0", &mut Random::seeded(1), &mut filled);
        String::from_utf8_lossy(bytes.expect("filled in")).into_owned()
    }

    fn agent() -> String {
        format!("User-Agent: {USER_AGENT}\r\n")
    }

    #[test]
    fn a_plain_request() {
        let expected = format!("GET /x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{}\r\n", agent());
        assert_eq!(text(|_| ()), expected);
    }

    #[test]
    fn headers_replace_the_generators_own_and_an_empty_one_takes_it_away() {
        let sent = text(|case| {
            case.http.headers =
                vec![("host".into(), "a.example".into()), ("User-Agent".into(), String::new())];
        });
        assert_eq!(sent, "GET /x?y=1 HTTP/1.1\r\nhost: a.example\r\n\r\n");
    }

    #[test]
    fn a_body_has_its_length() {
        let sent = text(|case| {
            case.http.method = "POST".into();
            case.http.body = Some(Body::Text("hello".into()));
        });
        assert!(sent.ends_with("Content-Length: 5\r\n\r\nhello"), "{sent}");
    }

    #[test]
    fn versions_and_keeping_alive_show_in_connection() {
        let connection = |version, keep_alive| {
            let sent = text(|case| {
                case.http.version = version;
                case.load.keep_alive = keep_alive;
            });
            sent.lines().find(|line| line.starts_with("Connection")).map(str::to_owned)
        };
        assert_eq!(connection(HttpVersion::Http11, true), None);
        assert_eq!(connection(HttpVersion::Http11, false).as_deref(), Some("Connection: close"));
        assert_eq!(connection(HttpVersion::Http10, false), None);
        assert_eq!(
            connection(HttpVersion::Http10, true).as_deref(),
            Some("Connection: Keep-Alive")
        );
    }

    #[test]
    fn a_proxy_is_given_the_whole_url() {
        let sent = text(|case| case.http.form = RequestForm::Absolute);
        assert!(sent.starts_with("GET http://127.0.0.1:8080/x?y=1 HTTP/1.1\r\n"), "{sent}");
    }

    #[test]
    fn templates_are_filled_in_for_each_request_and_bodies_have_their_length() {
        let requests = prepared(|case| {
            case.target = "http://127.0.0.1:8080/x/{{.RequestNumber}}".into();
            case.http.template = true;
            case.http.method = "POST".into();
            case.http.headers = vec![("X-Worker".into(), "{{.WorkerID}}".into())];
            case.http.body = Some(Body::Text("{{randomString 8}}-{{.RequestNumber}}".into()));
        });
        let text = sent(&requests.expect("requests"), 12);
        assert!(text.starts_with("POST /x/12 HTTP/1.1\r\n"), "{text}");
        assert!(text.contains("X-Worker: w0\r\nContent-Length: 11\r\n\r\n"), "{text}");
        assert!(text.ends_with("-12"), "{text}");
    }

    #[test]
    fn braces_are_sent_as_they_stand_without_templates() {
        let text = text(|case| case.http.body = Some(Body::Text("{{nothing}}".into())));
        assert!(text.ends_with("{{nothing}}"), "{text}");
    }

    #[test]
    fn a_template_that_is_none_is_refused() {
        let result = prepared(|case| {
            case.http.template = true;
            case.http.body = Some(Body::Text("{{nothing}}".into()));
        });
        assert!(result.is_err_and(|error| error.to_string().starts_with("http.body")));
    }

    #[test]
    fn what_would_break_the_framing_is_refused() {
        for (name, value) in [("a b", "c"), ("", "c"), ("a", "b\r\nc: d")] {
            let result =
                prepared(|case| case.http.headers = vec![(name.to_owned(), value.to_owned())]);
            assert!(result.is_err(), "{name:?}: {value:?}");
        }
        assert!(prepared(|case| case.http.method = "GET /".into()).is_err());
        let elsewhere = UrlEntry { method: None, url: "http://other/".into(), weight: 1 };
        assert!(prepared(|case| case.http.urls = vec![elsewhere]).is_err());
    }
}
