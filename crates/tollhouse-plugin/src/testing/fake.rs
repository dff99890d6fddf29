//! Fake requests, and fake heads of answers, parsed from text.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollhouse_model::variable::{Lookup, Variable, cookie_value, header_value, query_argument};
use tollhouse_stdx::MemoryBudget;
use tollhouse_trace::{RequestTrace, TraceStart};

use crate::consumer::Consumer;
use crate::edits::RequestEdits;
use crate::exchange::{BodyError, Exchange, LocalFuture, Moment};
use crate::memory::Memory;
use crate::response::ResponseHead;

/// Request of a test, with settable fields and recorded edits.
#[derive(Debug)]
pub struct FakeExchange {
    /// Method; `GET` by default.
    pub method: String,
    /// Path and query in normalised form.
    pub target: String,
    /// Path and query as the client sent them, if they differ from `target`.
    pub sent_target: Option<String>,
    /// Header lines as the client sent them.
    pub headers: Vec<(String, String)>,
    /// Request body, complete.
    pub body: Vec<u8>,
    /// Whether a plugin has read the body.
    pub body_was_read: bool,
    /// Address of the client after real-ip processing.
    pub remote: IpAddr,
    /// Whether the client's connection uses TLS.
    pub is_tls: bool,
    /// Whether the request uses HTTP/1.1 rather than HTTP/2.
    pub is_http11: bool,
    /// Changes that plugins made to the request.
    pub edits: RequestEdits,
    /// Variables of the data plane, such as `route_id`, and named parts of the path.
    pub variables: Vec<(String, String)>,
    /// Values that plugins stored for later phases.
    pub memory: Memory,
    /// Virtual time in milliseconds, of both clocks.
    pub now_ms: u64,
    /// Sum of the times that plugins waited.
    pub slept: Duration,
    /// Number that every call of `random` returns.
    pub random: u64,
    /// Memory budget for bodies that filters hold.
    pub held_memory: Arc<MemoryBudget>,
    /// Trace that a plugin has begun.
    pub trace: RequestTrace,
}

impl FakeExchange {
    /// Parses `GET /a HTTP/1.1\nName: value\n\nbody`. If `Host` is missing, `Host: test.com` is added.
    pub fn parse(text: &str, now_ms: u64) -> Self {
        let text = text.replace("\r\n", "\n");
        let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let mut first = lines.next().unwrap_or_default().split(' ');
        let mut word = |default: &str| first.next().unwrap_or(default).to_owned();
        let (method, target, version) = (word("GET"), word("/"), word("HTTP/1.1"));
        let mut headers: Vec<(String, String)> = lines.filter_map(header_line).collect();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            headers.insert(0, ("Host".into(), "test.com".into()));
        }
        Self {
            method,
            target,
            sent_target: None,
            headers,
            body: body.as_bytes().to_vec(),
            body_was_read: false,
            remote: super::PEER,
            is_tls: false,
            is_http11: version == "HTTP/1.1",
            edits: RequestEdits::default(),
            variables: Vec::new(),
            memory: Memory::default(),
            now_ms,
            slept: Duration::ZERO,
            random: 0x9E37_79B9_7F4A_7C15,
            held_memory: MemoryBudget::unlimited(),
            trace: RequestTrace::default(),
        }
    }

    /// Sets the address of the client.
    #[must_use]
    pub fn from(mut self, address: &str) -> Self {
        self.remote = address.parse().expect("an address");
        self
    }

    /// Sets path and query as the client sent them, before normalisation.
    #[must_use]
    pub fn sent_as(mut self, target: &str) -> Self {
        self.sent_target = Some(target.into());
        self
    }

    /// Adds a variable of the data plane.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Limits the memory for bodies that filters hold, in bytes.
    #[must_use]
    pub fn with_memory(mut self, bytes_max: u64) -> Self {
        self.held_memory = MemoryBudget::new(bytes_max);
        self
    }

    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
    }

    fn host(&self) -> &str {
        let host = self.client_header(b"host").unwrap_or_default();
        let host = std::str::from_utf8(host).unwrap_or_default();
        host.split(':').next().unwrap_or_default()
    }
}

fn header_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.to_owned(), value.trim().to_owned()))
}

pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Lookup for FakeExchange {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        let owned = |text: String| Some(Cow::Owned(text.into_bytes()));
        match variable {
            Variable::Uri => Some(Cow::Borrowed(self.path())),
            Variable::RequestUri => Some(self.request_uri()),
            Variable::Args => self.query().map(Cow::Borrowed),
            Variable::Host => owned(self.host().to_ascii_lowercase()),
            Variable::Scheme => owned(if self.is_tls { "https" } else { "http" }.into()),
            Variable::RequestMethod => owned(self.method.clone()),
            Variable::RemoteAddr => {
                let edited = self.edits.remote.map(|(address, _)| address);
                owned(edited.unwrap_or(self.remote).to_string())
            }
            Variable::RemotePort => owned("40000".into()),
            Variable::ServerAddr => owned("127.0.0.1".into()),
            Variable::ServerPort => {
                let set = self.variables.iter().find(|(name, _)| name == "server_port");
                owned(set.map_or("9080", |(_, port)| port).into())
            }
            Variable::ServerProtocol => owned("HTTP/1.1".into()),
            Variable::Arg(name) => query_argument(self.query()?, name),
            Variable::Header(name) => {
                let edits = &self.edits.headers;
                let lines = self.lines().filter(|(name, _)| !edits.hides(name));
                header_value(name, lines.chain(edits.lines()))
            }
            Variable::Cookie(name) => {
                let mut cookies =
                    self.lines().filter(|(name, _)| name.eq_ignore_ascii_case(b"cookie"));
                cookies.find_map(|(_, value)| cookie_value(value, name)).map(Cow::Borrowed)
            }
            Variable::PostArg(name) => query_argument(&self.body, name),
            Variable::PostJson(_) | Variable::PostBoolean(_) => None,
            Variable::Named(name) if name == "real_request_uri" => Some(self.real_request_uri()),
            Variable::Named(name) | Variable::UriParam(name) => {
                let found = self.variables.iter().rev().find(|(other, _)| other == name)?;
                Some(Cow::Borrowed(found.1.as_bytes()))
            }
        }
    }
}

impl Exchange for FakeExchange {
    fn trace(&self) -> Option<&RequestTrace> {
        Some(&self.trace).filter(|trace| trace.is_active())
    }

    fn begin_trace(&mut self, start: TraceStart) {
        self.trace.begin(start);
    }

    fn method(&self) -> &[u8] {
        self.method.as_bytes()
    }

    fn path(&self) -> &[u8] {
        self.target.split('?').next().unwrap_or_default().as_bytes()
    }

    fn query(&self) -> Option<&[u8]> {
        self.target.split_once('?').map(|(_, query)| query.as_bytes())
    }

    fn request_uri(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.target.as_bytes())
    }

    fn real_request_uri(&self) -> Cow<'_, [u8]> {
        let sent = self.sent_target.as_deref().unwrap_or(&self.target);
        Cow::Borrowed(sent.as_bytes())
    }

    fn path_as_sent(&self) -> Option<&[u8]> {
        // The harness does not normalise targets, so that a target which could differ from its
        // normal form does not count as sent in this form.
        let is_plain = !["%", "//", "/."].iter().any(|part| self.target.contains(part));
        (self.sent_target.is_none() && is_plain).then(|| self.path())
    }

    fn client_header(&self, name: &[u8]) -> Option<&[u8]> {
        let named = |other: &str| other.as_bytes().eq_ignore_ascii_case(name);
        self.headers.iter().find(|(other, _)| named(other)).map(|(_, value)| value.as_bytes())
    }

    fn each_client_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.headers.iter().for_each(|(name, value)| visit(name.as_bytes(), value.as_bytes()));
    }

    fn remote_address(&self) -> IpAddr {
        self.remote
    }

    fn peer_address(&self) -> IpAddr {
        self.remote
    }

    fn is_tls(&self) -> bool {
        self.is_tls
    }

    fn edits(&self) -> &RequestEdits {
        &self.edits
    }

    fn edits_mut(&mut self) -> &mut RequestEdits {
        &mut self.edits
    }

    fn read_body<'a>(&'a mut self, bytes_max: u64) -> LocalFuture<'a, Result<(), BodyError>> {
        self.body_was_read = true;
        let fits = self.body.len() as u64 <= bytes_max;
        Box::pin(async move { if fits { Ok(()) } else { Err(BodyError::TooLarge) } })
    }

    fn body(&self) -> Option<&[u8]> {
        self.body_was_read.then_some(&self.body)
    }

    fn memory(&self) -> Arc<MemoryBudget> {
        Arc::clone(&self.held_memory)
    }

    fn note_consumer(&mut self, consumer: &Consumer) {
        self.variables.push(("consumer_name".into(), consumer.username.as_ref().into()));
        if let Some(group) = consumer.group_id.as_deref() {
            self.variables.push(("consumer_group_id".into(), group.into()));
        }
    }

    fn now(&self) -> Moment {
        Moment { monotonic_ms: self.now_ms, unix_ms: self.now_ms }
    }

    fn random(&self) -> u64 {
        self.random
    }

    fn sleep<'a>(&'a mut self, time: Duration) -> LocalFuture<'a, ()> {
        self.slept += time;
        self.now_ms += u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Box::pin(std::future::ready(()))
    }

    fn as_lookup(&self) -> &dyn Lookup {
        self
    }
}

/// Head of a node's answer, parsed from a text.
pub(super) struct FakeHead {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

impl FakeHead {
    /// Parses a text of the form `200
    /// Name: value`.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let status = lines.next().and_then(|line| line.trim().parse().ok()).unwrap_or(200);
        Self { status, headers: lines.filter_map(header_line).collect() }
    }
}

impl ResponseHead for FakeHead {
    fn find(&self, name: &[u8]) -> Option<&[u8]> {
        let named = |other: &str| other.as_bytes().eq_ignore_ascii_case(name);
        self.headers.iter().find(|(other, _)| named(other)).map(|(_, value)| value.as_bytes())
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.headers.iter().for_each(|(name, value)| visit(name.as_bytes(), value.as_bytes()));
    }
}
