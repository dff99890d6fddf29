//! What is known about the request under way: reused buffers, the record for log and metrics, and
//! the variables that expressions may ask for.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use tollhouse_http::element::Method;
use tollhouse_http::{RequestHead, ResponseHead, Version};
use tollhouse_model::body::{Operation, is_graphql_name};
use tollhouse_model::variable::{Lookup, Variable, cookie_value, header_value, query_argument};
use tollhouse_plugin::RequestEdits;
use tollhouse_router::{Captures, request_uri};
use tollhouse_telemetry::ErrorCode;

use crate::client::Client;
use crate::exchange::Lead;
use crate::head::text::{AddressText, write_decimal};
use crate::plugins::{PluginWork, variables};
use crate::request_body::RequestBody;
use crate::snapshot::{Reference, RouteEntry};
use crate::worker::Worker;

/// Everything a request needs while it is under way; one value serves many requests, so that its
/// vectors grow once.
#[derive(Debug, Default)]
pub struct Work {
    /// The client's head; spans point into the client's buffer.
    pub head: RequestHead,
    /// The node's head; spans point into the node's buffer.
    pub response: ResponseHead,
    /// The head written for the node.
    pub out_up: Vec<u8>,
    /// The head written for the client, and chunk framing.
    pub out_down: Vec<u8>,
    /// The normalised path, where it differs from the one sent.
    pub path: Vec<u8>,
    /// Whether `path` is in use.
    pub path_is_rewritten: bool,
    /// The lower-cased `Host`, with its port.
    pub host: Vec<u8>,
    /// Bytes of `host` before the port.
    pub host_bytes: usize,
    /// The `Host` that the node gets.
    pub host_up: Vec<u8>,
    /// What the route's pattern captured.
    pub captures: Captures,
    /// Which of the route's path and host patterns matched; no host where it is a condition.
    pub matched: (usize, Option<usize>),
    /// Whether the method may be repeated (RFC 9110 §9.2.2).
    pub is_idempotent: bool,
    /// The client's address where a proxy in front reports another one than the peer's.
    pub reported_address: Option<(IpAddr, AddressText)>,
    /// The request's body, where somebody has it read whole.
    pub body: RequestBody,
    /// What log and metrics will say.
    pub record: Record,
    /// What plugins leave behind.
    pub plugins: PluginWork,
}

/// Room that a vector keeps for the next request, in bytes; heads are seldom longer.
const ROOM_KEPT_BYTES_MAX: usize = 16 * 1024;

impl Work {
    /// The client's address after real-ip processing.
    #[inline]
    pub fn remote_address(&self, client: &Client) -> IpAddr {
        self.reported_address.map_or_else(|| client.peer.ip().to_canonical(), |(ip, _)| ip)
    }

    /// The same as text.
    #[inline]
    pub fn remote_text<'a>(&'a self, client: &'a Client) -> &'a [u8] {
        self.reported_address
            .as_ref()
            .map_or_else(|| client.peer_text.as_bytes(), |(_, text)| text.as_bytes())
    }

    /// The path that routes are matched against.
    #[inline]
    pub fn matched_path<'a>(&'a self, client: &'a Client) -> &'a [u8] {
        if self.path_is_rewritten {
            return &self.path;
        }
        self.head.parts.path.of_buffer(client.link.buffer.filled())
    }

    /// The matched path and the query behind it, for whoever decides by them (apisix.md §3.5). What
    /// is part of the path and would be read as something else stays escaped; usually there is
    /// nothing of the kind, and the bytes are those sent.
    pub fn request_uri<'a>(&'a self, client: &'a Client) -> Cow<'a, [u8]> {
        let bytes = client.link.buffer.filled();
        let query = self.head.parts.query.map(|query| query.of_buffer(bytes));
        let is_as_sent = !self.path_is_rewritten && query.is_none_or(|query| !query.is_empty());
        if is_as_sent {
            return self.head.origin_form(bytes);
        }
        Cow::Owned(request_uri(self.matched_path(client), query))
    }

    /// Path and query as sent, without the scheme and host of an absolute target.
    #[inline]
    pub fn real_request_uri<'a>(&'a self, client: &'a Client) -> Cow<'a, [u8]> {
        self.head.origin_form(client.link.buffer.filled())
    }

    /// What nodes are sent before the client's body.
    #[inline]
    pub(crate) fn lead(&self) -> Lead<'_> {
        let body = self.plugins.edits.body.as_deref().unwrap_or_default();
        Lead { head: &self.out_up, body }
    }

    /// Whether the client asked with HEAD, which is what frames the answer that it gets.
    #[inline]
    pub fn is_head(&self, client: &Client) -> bool {
        self.head.method.of_buffer(client.link.buffer.filled()) == b"HEAD"
    }

    /// Drops what could keep a configuration alive or take much memory between requests.
    pub fn finish(&mut self) {
        for room in [&mut self.out_up, &mut self.out_down, &mut self.path, &mut self.host_up] {
            room.shrink_to(ROOM_KEPT_BYTES_MAX);
        }
        self.body.finish();
        self.reported_address = None;
        self.record.reset();
        self.plugins.finish();
    }
}

/// What log and metrics say about one request.
#[derive(Debug, Default)]
pub struct Record {
    /// Milliseconds of the core's clock when its head was read.
    pub started_ms: u64,
    /// The status sent; 0 while none has been.
    pub status: u16,
    /// Why the gateway answered itself, or broke off.
    pub code: Option<ErrorCode>,
    /// Body bytes sent to the client.
    pub body_bytes_sent: u64,
    /// All bytes sent to the client.
    pub bytes_sent: u64,
    /// Body bytes received from the client.
    pub bytes_received: u64,
    last_failure: Option<ErrorCode>,
    /// Nodes tried, in order.
    pub attempts: Vec<AttemptRecord>,
    /// Milliseconds until the node's head had arrived.
    pub upstream_response_ms: Option<u64>,
    /// Id of the route; copied, since counting a shared one would cost every core.
    pub route_id: String,
    /// Id of its service.
    pub service_id: String,
}

/// One node tried.
#[derive(Debug, Clone, Copy)]
pub struct AttemptRecord {
    /// The node.
    pub address: SocketAddr,
    /// Its status, or the one that stands for its failure.
    pub status: u16,
}

impl Record {
    /// Forgets the request, keeps what its vectors have grown to.
    fn reset(&mut self) {
        let mut next = Record {
            attempts: std::mem::take(&mut self.attempts),
            route_id: std::mem::take(&mut self.route_id),
            service_id: std::mem::take(&mut self.service_id),
            ..Record::default()
        };
        next.attempts.clear();
        next.route_id.clear();
        next.service_id.clear();
        *self = next;
    }

    /// Notes a node that brought no answer.
    pub fn fail_attempt(&mut self, address: SocketAddr, code: ErrorCode) {
        self.attempts.push(AttemptRecord { address, status: code.status() });
        self.last_failure = Some(code);
    }

    /// What the last node tried failed with.
    pub fn last_code(&self) -> ErrorCode {
        self.last_failure.unwrap_or(ErrorCode::NoNodes)
    }

    /// `X-APISIX-Upstream-Status`: all statuses in order, such as `502, 200`.
    pub fn upstream_statuses(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, attempt) in self.attempts.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            write_decimal(&mut out, u64::from(attempt.status));
        }
        out
    }
}

/// The method that nodes are asked with, which is what frames their answers. `buffer` is what `head`
/// was parsed from.
#[inline]
pub(crate) fn upstream_method<'a>(
    edits: &RequestEdits,
    head: &RequestHead,
    buffer: &'a [u8],
) -> Method<'a> {
    let edited = edits.method.and_then(|method| Method::parse(method.as_bytes()));
    edited.unwrap_or_else(|| Method::of_head(head, buffer))
}

/// Whether a method may be repeated without the client's asking (RFC 9110 §9.2.2).
#[inline]
pub(crate) fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE")
}

/// The variables of a request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    worker: &'a Worker,
    client: &'a Client,
    work: &'a Work,
    route: Option<&'a RouteEntry>,
}

impl<'a> Request<'a> {
    /// The request under way; `route` once one is chosen.
    #[inline]
    pub(crate) fn new(
        worker: &'a Worker,
        client: &'a Client,
        work: &'a Work,
        route: Option<&'a RouteEntry>,
    ) -> Self {
        Self { worker, client, work, route }
    }

    fn bytes(&self) -> &'a [u8] {
        self.client.link.buffer.filled()
    }

    /// The client's header lines that plugins have left, then those of plugins.
    fn header_lines(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let (bytes, edits) = (self.bytes(), &self.work.plugins.edits.headers);
        let sent = self.work.head.fields.visible();
        let sent =
            sent.map(|field| (field.name().of_buffer(bytes), field.value().of_buffer(bytes)));
        sent.filter(|(name, _)| !edits.hides(name)).chain(edits.lines())
    }

    fn query(&self) -> Option<&'a [u8]> {
        self.work.head.parts.query.map(|query| query.of_buffer(self.bytes()))
    }

    /// The host pattern that matched, of the route or else of its service.
    fn matched_host(&self) -> Option<&'a str> {
        let entry = self.route?;
        let hosts = match &entry.service {
            Reference::Found(service) if entry.route.hosts.is_empty() => &service.hosts,
            _ => &entry.route.hosts,
        };
        let host = &self.work.host[..self.work.host_bytes];
        let takes = |pattern: &&String| match pattern.strip_prefix('*') {
            Some(end) => host.ends_with(end.as_bytes()),
            None => [host, &self.work.host].contains(&pattern.as_bytes()),
        };
        let found = match self.work.matched.1 {
            Some(index) => hosts.get(index),
            None if hosts.len() > 1 => hosts.iter().find(takes),
            None => hosts.first(),
        };
        found.map(String::as_str)
    }

    fn named(&self, name: &str) -> Option<Cow<'a, [u8]>> {
        variables::named(self.worker, self.client, self.work, name)
            .or_else(|| self.of_route_or_head(name))
    }

    fn of_route_or_head(&self, name: &str) -> Option<Cow<'a, [u8]>> {
        let text = |value: &'a str| Some(Cow::Borrowed(value.as_bytes()));
        let route = self.route.map(|entry| &entry.route);
        match name {
            "route_id" => text(route?.id.as_str()),
            "route_name" => text(route?.name.as_deref()?),
            "service_id" => text(route?.service_id.as_ref()?.as_str()),
            "service_name" => match &self.route?.service {
                Reference::Found(service) => text(service.name.as_deref()?),
                Reference::Unnamed | Reference::Missing => None,
            },
            "matched_uri" => text(route?.uris.get(self.work.matched.0)?),
            "matched_host" => text(self.matched_host()?),
            "query_string" => self.query().map(Cow::Borrowed),
            "is_args" => {
                let has_query = self.query().is_some_and(|query| !query.is_empty());
                Some(Cow::Borrowed(if has_query { b"?" } else { b"" }))
            }
            "real_request_uri" => Some(self.work.real_request_uri(self.client)),
            "request" => {
                let end = self.bytes().iter().position(|&byte| byte == b'\r')?;
                Some(Cow::Borrowed(&self.bytes()[..end]))
            }
            _ => None,
        }
    }
}

impl Lookup for Request<'_> {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        self.value(variable)
    }
}

impl<'a> Request<'a> {
    /// The value of `variable`, with what plugins have changed.
    pub(crate) fn value(&self, variable: &Variable) -> Option<Cow<'a, [u8]>> {
        let (client, work, bytes) = (self.client, self.work, self.bytes());
        let number = |number: u16| Some(Cow::Owned(number.to_string().into_bytes()));
        match variable {
            Variable::Uri => Some(Cow::Borrowed(work.matched_path(client))),
            Variable::RequestUri => Some(work.request_uri(client)),
            Variable::Args => self.query().map(Cow::Borrowed),
            Variable::Host => Some(Cow::Borrowed(&work.host[..work.host_bytes])),
            Variable::Scheme => Some(Cow::Borrowed(b"http")),
            Variable::RequestMethod => Some(Cow::Borrowed(work.head.method.of_buffer(bytes))),
            Variable::RemoteAddr => match work.plugins.edits.remote {
                Some((address, _)) => {
                    Some(Cow::Owned(AddressText::new(address).as_bytes().to_vec()))
                }
                None => Some(Cow::Borrowed(work.remote_text(client))),
            },
            Variable::RemotePort => {
                let edited = work.plugins.edits.remote.and_then(|(_, port)| port);
                number(edited.unwrap_or(client.peer.port()))
            }
            Variable::ServerAddr => {
                Some(Cow::Owned(AddressText::new(client.local.ip()).as_bytes().to_vec()))
            }
            Variable::ServerPort => number(client.local.port()),
            Variable::ServerProtocol => Some(Cow::Borrowed(match work.head.version {
                Version::Http10 => b"HTTP/1.0",
                Version::Http11 => b"HTTP/1.1",
            })),
            Variable::Arg(name) => query_argument(self.query()?, name),
            Variable::Header(name) => header_value(name, self.header_lines()),
            Variable::Cookie(name) => {
                let is_cookie = |name: &[u8]| name.eq_ignore_ascii_case(b"cookie");
                let mut lines = self.header_lines().filter(|(name, _)| is_cookie(name));
                lines.find_map(|(_, value)| cookie_value(value, name)).map(Cow::Borrowed)
            }
            Variable::PostArg(_) | Variable::PostJson(_) => {
                work.body.value(work, &client.link.buffer, variable)
            }
            Variable::UriParam(name) => {
                work.captures.get(name, work.matched_path(client)).map(Cow::Borrowed)
            }
            Variable::Named(name) if is_graphql_name(name) => self.graphql(variable),
            Variable::Named(name) => self.named(name),
        }
    }

    /// Of the document in the argument `query` of a GET, or in the body of anything else.
    fn graphql(&self, variable: &Variable) -> Option<Cow<'a, [u8]>> {
        if self.work.head.method.of_buffer(self.bytes()) != b"GET" {
            return self.work.body.value(self.work, &self.client.link.buffer, variable);
        }
        let document = query_argument(self.query()?, "query")?;
        let operation = Operation::parse(std::str::from_utf8(&document).ok()?)?;
        operation.value(variable).map(Cow::Owned)
    }
}
