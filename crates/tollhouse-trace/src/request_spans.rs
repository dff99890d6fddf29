//! Requests that have ended, in the compact form in which cores record them, and the spans that
//! exporters make of them: one for the request, one for each attempt at a node, and one for each
//! phase and plugin if they were asked for.
//!
//! A core copies numbers, and each text of the client once. Names of attributes, addresses as text
//! and URLs are made by the exporter, on another thread.

#[cfg(test)]
mod tests;

use tollhouse_stdx::Endpoint;

use crate::context::{SpanContext, SpanId};
use crate::key::Key;
use crate::request::{AttemptSpan, InnerSpan, RequestTrace, SpanNames};
use crate::span::{
    ATTRIBUTES_MAX, Attribute, AttributeValue, SpanKind, SpanStatus, SpanView, TEXT_BYTES_MAX,
    attributes_in,
};

/// Methods that name spans; others are arbitrary texts of clients (semantic conventions for HTTP).
const METHODS: [&[u8]; 9] =
    [b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE"];

/// Facts of a request that has ended, besides those of its [`RequestTrace`].
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts<'a> {
    pub numbers: RequestNumbers,
    pub texts: RequestTexts<'a>,
}

/// Facts that are copied as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestNumbers {
    /// Nanoseconds since 1970.
    pub end_ns: u64,
    /// Status sent to the client; 0 without a response.
    pub status: u16,
    /// Code of the failure; empty without one.
    pub code: &'static str,
    /// Whether the gateway or a node failed.
    pub has_failed: bool,
    pub source: ResponseSource,
    pub is_encrypted: bool,
    /// Version of HTTP, such as `1.1`.
    pub protocol: &'static str,
    /// Port to which the client connected.
    pub local_port: u16,
    pub peer_port: u16,
}

/// Origin of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseSource {
    /// A node answered.
    Node,
    /// The gateway answered in the place of nodes that failed.
    FailedNodes,
    /// The gateway answered before it asked a node.
    Gateway,
}

impl ResponseSource {
    /// The origin in APISIX's words.
    fn apisix_name(self) -> &'static str {
        match self {
            Self::Node => "upstream",
            Self::FailedNodes => "nginx",
            Self::Gateway => "apisix",
        }
    }
}

/// Outcome of an attempt at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// Status of the node's answer; 0 without one.
    pub status: u16,
    /// Code of the failure; empty if the node answered.
    pub code: &'static str,
}

/// Number of texts of a request.
const TEXTS: usize = 16;

/// Texts of a request; each is cut off at [`TEXT_BYTES_MAX`] bytes, and empty if it is missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestTexts<'a> {
    pub method: &'a [u8],
    /// Path that the client sent, without the query, which may hold secrets.
    pub path: &'a [u8],
    /// Path and query, for [`SpanNames::Apisix`].
    pub target: &'a [u8],
    pub user_agent: &'a [u8],
    /// Host of the request without its port.
    pub host: &'a [u8],
    /// Pattern of the route that matched.
    pub route: &'a [u8],
    pub route_id: &'a [u8],
    pub service_id: &'a [u8],
    pub consumer: &'a [u8],
    /// Name of the plugin that refused the request.
    pub refused_by: &'a [u8],
    pub client_address: &'a [u8],
    /// Address of the peer, if it is not the client's.
    pub peer_address: &'a [u8],
    /// Value of `tracestate` that the request carried.
    pub trace_state: &'a [u8],
    /// Method that nodes received.
    pub node_method: &'a [u8],
    /// `Host` that nodes received.
    pub node_host: &'a [u8],
    /// Path that nodes received, if it is not that of the client.
    pub node_path: &'a [u8],
}

impl<'a> RequestTexts<'a> {
    #[inline]
    fn list(&self) -> [&'a [u8]; TEXTS] {
        [
            self.method,
            self.path,
            self.target,
            self.user_agent,
            self.host,
            self.route,
            self.route_id,
            self.service_id,
            self.consumer,
            self.refused_by,
            self.client_address,
            self.peer_address,
            self.trace_state,
            self.node_method,
            self.node_host,
            self.node_path,
        ]
    }

    fn from_list(list: [&'a [u8]; TEXTS]) -> Self {
        let [method, path, target, user_agent, host, route, route_id, service_id, ..] = list;
        let [.., consumer, refused_by, client_address, peer_address, trace_state, _, _, _] = list;
        let [.., node_method, node_host, node_path] = list;
        Self {
            method,
            path,
            target,
            user_agent,
            host,
            route,
            route_id,
            service_id,
            consumer,
            refused_by,
            client_address,
            peer_address,
            trace_state,
            node_method,
            node_host,
            node_path,
        }
    }
}

/// A recorded request. Its texts, attempts and inner spans follow those of earlier requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    context: SpanContext,
    parent: Option<SpanId>,
    start_ns: u64,
    names: SpanNames,
    numbers: RequestNumbers,
    text_bytes: [u16; TEXTS],
    added: AddedAttributes,
    attempts: u16,
    inner: u16,
}

/// Attributes that plugins added to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddedAttributes {
    pub(crate) bytes: u32,
    pub(crate) count: u16,
}

/// An attempt with its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AttemptEntry {
    span: AttemptSpan,
    outcome: AttemptOutcome,
}

/// Requests in the order recorded.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RequestEntries {
    entries: Vec<Entry>,
    attempts: Vec<AttemptEntry>,
    inner: Vec<InnerSpan>,
    /// Texts of all requests, each followed by the attributes that plugins added.
    texts: Vec<u8>,
}

impl RequestEntries {
    /// Returns an empty list with room for `requests` requests of usual size.
    pub(crate) fn with_capacity(requests: usize) -> Self {
        /// Size of the texts of most requests: a path, a user agent, a host, and some ids.
        const TEXT_BYTES: usize = 320;
        Self {
            entries: Vec::with_capacity(requests),
            attempts: Vec::with_capacity(requests),
            inner: Vec::new(),
            texts: Vec::with_capacity(requests * TEXT_BYTES),
        }
    }

    /// Size in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
            + size_of_val(&*self.attempts)
            + size_of_val(&*self.inner)
            + self.texts.len()
    }

    /// Adds a request that is recorded, and returns the number of its spans. `outcome` returns the
    /// outcome of an attempt.
    #[inline]
    pub(crate) fn add(
        &mut self,
        trace: &RequestTrace,
        facts: &RequestFacts<'_>,
        outcome: impl Fn(usize) -> AttemptOutcome,
    ) -> usize {
        let Some(context) = trace.context() else { return 0 };
        let mut text_bytes = [0; TEXTS];
        for (bytes, text) in text_bytes.iter_mut().zip(facts.texts.list()) {
            if !text.is_empty() {
                let text = &text[..text.len().min(TEXT_BYTES_MAX)];
                *bytes = text.len() as u16;
                self.texts.extend_from_slice(text);
            }
        }
        let added = trace.copy_attributes(&mut self.texts);
        for (index, attempt) in trace.attempts().iter().enumerate() {
            self.attempts.push(AttemptEntry { span: *attempt, outcome: outcome(index) });
        }
        let inner = self.inner.len();
        trace.each_inner(|span| self.inner.push(*span));
        let (attempts, inner) = (trace.attempts().len(), self.inner.len() - inner);
        self.entries.push(Entry {
            context: *context,
            parent: trace.parent(),
            start_ns: trace.started_ns(),
            names: trace.names(),
            numbers: facts.numbers,
            text_bytes,
            added,
            attempts: attempts as u16,
            inner: inner as u16,
        });
        1 + attempts + inner
    }

    /// Calls `visit` with every span.
    pub(crate) fn each(&self, visit: &mut impl FnMut(&SpanView<'_>)) {
        let (mut texts, mut attempts, mut inner) = (&*self.texts, &*self.attempts, &*self.inner);
        for entry in &self.entries {
            let list = entry.text_bytes.map(|bytes| take(&mut texts, bytes.into()));
            let added = take(&mut texts, entry.added.bytes as usize);
            let request = Request { entry, texts: RequestTexts::from_list(list), added };
            request.visit_own(visit);
            for (index, attempt) in take(&mut attempts, entry.attempts.into()).iter().enumerate() {
                request.visit_attempt(index, attempt, visit);
            }
            for span in take(&mut inner, entry.inner.into()) {
                request.visit_inner(span, visit);
            }
        }
    }
}

/// Takes the first `count` elements, or all if there are fewer.
fn take<'a, T>(rest: &mut &'a [T], count: usize) -> &'a [T] {
    let (taken, left) = rest.split_at(count.min(rest.len()));
    *rest = left;
    taken
}

/// A recorded request with its texts.
struct Request<'a> {
    entry: &'a Entry,
    texts: RequestTexts<'a>,
    /// Attributes that plugins added.
    added: &'a [u8],
}

impl Request<'_> {
    /// Visits the span of the request itself (semantic conventions for HTTP servers).
    fn visit_own(&self, visit: &mut impl FnMut(&SpanView<'_>)) {
        let Self { entry, texts, added } = self;
        let numbers = &entry.numbers;
        let is_known = METHODS.contains(&texts.method);
        let method = if is_known { texts.method } else { b"HTTP" };
        let message = match entry.names {
            SpanNames::Apisix => {
                format!("{} error: {}", numbers.source.apisix_name(), numbers.status)
            }
            SpanNames::Stable => numbers.code.to_owned(),
        };
        let status_text = numbers.status.to_string();
        let mut list = AttributeList(Vec::with_capacity(24));
        list.text(Key::HttpRequestMethod, if is_known { method } else { b"_OTHER" });
        list.text_if_any(Key::HttpRequestMethodOriginal, if is_known { b"" } else { texts.method });
        list.text(Key::UrlScheme, SCHEMES[usize::from(numbers.is_encrypted)]);
        list.text(Key::UrlPath, texts.path);
        list.text_if_any(Key::UserAgentOriginal, texts.user_agent);
        list.text_if_any(Key::HttpRoute, texts.route);
        list.number_if_any(Key::HttpResponseStatusCode, numbers.status);
        match entry.names {
            SpanNames::Stable => self.list_stable(&mut list, &status_text),
            SpanNames::Apisix => self.list_apisix(&mut list),
        }
        let room = usize::from(ATTRIBUTES_MAX).saturating_sub(list.0.len());
        list.0.extend(attributes_in(added, entry.added.count).take(room));
        visit(&SpanView {
            context: entry.context,
            parent: entry.parent,
            is_parent_remote: entry.parent.is_some(),
            kind: SpanKind::Server,
            name: &joined(&[method, texts.route]),
            start_ns: entry.start_ns,
            end_ns: numbers.end_ns.max(entry.start_ns),
            status: if numbers.has_failed {
                SpanStatus::Error(&message)
            } else {
                SpanStatus::Unset
            },
            trace_state: texts.trace_state,
            attributes: list.0,
        });
    }

    /// Lists the attributes of a server that only the stable names have.
    fn list_stable<'l>(&'l self, list: &mut AttributeList<'l>, status_text: &'l str) {
        let Self { texts, entry: Entry { numbers, .. }, .. } = self;
        let has_peer = !texts.peer_address.is_empty();
        let peer = if has_peer { texts.peer_address } else { texts.client_address };
        list.text_if_any(Key::ServerAddress, texts.host);
        list.number(Key::ServerPort, numbers.local_port);
        list.text(Key::ClientAddress, texts.client_address);
        list.text(Key::NetworkPeerAddress, peer);
        list.number(Key::NetworkPeerPort, numbers.peer_port);
        list.text(Key::NetworkProtocolVersion, numbers.protocol.as_bytes());
        list.text_if_any(Key::TollhouseRouteId, texts.route_id);
        list.text_if_any(Key::TollhouseServiceId, texts.service_id);
        list.text_if_any(Key::TollhouseConsumer, texts.consumer);
        list.text_if_any(Key::TollhouseRefusedBy, texts.refused_by);
        list.text_if_any(Key::TollhouseErrorCode, numbers.code.as_bytes());
        if numbers.has_failed {
            list.text(Key::ErrorType, error_type(numbers.code, status_text));
        }
    }

    /// Lists the attributes of a server under the older names, as APISIX has them beside the stable
    /// ones.
    fn list_apisix<'l>(&'l self, list: &mut AttributeList<'l>) {
        let Self { texts, entry: Entry { numbers, .. }, .. } = self;
        list.text_if_any(Key::NetHostName, texts.host);
        list.text(Key::HttpMethod, texts.method);
        list.text(Key::HttpScheme, SCHEMES[usize::from(numbers.is_encrypted)]);
        list.text(Key::HttpTarget, texts.target);
        list.text_if_any(Key::HttpUserAgent, texts.user_agent);
        list.text_if_any(Key::ApisixRouteId, texts.route_id);
        list.text_if_any(Key::ApisixServiceId, texts.service_id);
        list.number_if_any(Key::HttpStatusCode, numbers.status);
        if numbers.status > 0 {
            list.text(Key::ApisixResponseSource, numbers.source.apisix_name().as_bytes());
        }
    }

    /// Visits the span of an attempt (semantic conventions for HTTP clients).
    fn visit_attempt(
        &self,
        index: usize,
        attempt: &AttemptEntry,
        visit: &mut impl FnMut(&SpanView<'_>),
    ) {
        let Self { entry, texts, .. } = self;
        let AttemptEntry { span: attempt, outcome } = attempt;
        let method = texts.node_method;
        let address = address(attempt.node);
        let url = self.node_url(attempt);
        let status_text = outcome.status.to_string();
        let has_failed = !outcome.code.is_empty() || outcome.status >= 400;
        let mut list = AttributeList(Vec::with_capacity(8));
        list.text(Key::HttpRequestMethod, method);
        list.text(Key::ServerAddress, address.as_bytes());
        if let Some(port) = attempt.node.port() {
            list.number(Key::ServerPort, port);
        }
        list.text(Key::UrlFull, &url);
        list.number_if_any(Key::HttpResponseStatusCode, outcome.status);
        list.number_if_any(Key::HttpRequestResendCount, u16::try_from(index).unwrap_or(u16::MAX));
        if has_failed {
            list.text(Key::ErrorType, error_type(outcome.code, &status_text));
        }
        let end_ns = if attempt.end_ns == 0 { entry.numbers.end_ns } else { attempt.end_ns };
        visit(&SpanView {
            context: SpanContext { span_id: attempt.span_id, ..entry.context },
            parent: Some(entry.context.span_id),
            is_parent_remote: false,
            kind: SpanKind::Client,
            name: match entry.names {
                SpanNames::Stable => method,
                SpanNames::Apisix => b"apisix.upstream",
            },
            start_ns: attempt.start_ns,
            end_ns: end_ns.max(attempt.start_ns),
            status: if has_failed { SpanStatus::Error(outcome.code) } else { SpanStatus::Unset },
            trace_state: texts.trace_state,
            attributes: list.0,
        });
    }

    /// Visits the span of a phase or plugin.
    fn visit_inner(&self, inner: &InnerSpan, visit: &mut impl FnMut(&SpanView<'_>)) {
        let mut list = AttributeList(Vec::new());
        list.text_if_any(Key::TollhousePlugin, inner.plugin.as_bytes());
        visit(&SpanView {
            context: SpanContext { span_id: inner.span_id, ..self.entry.context },
            parent: Some(self.entry.context.span_id),
            is_parent_remote: false,
            kind: SpanKind::Internal,
            name: &joined(&[inner.name.as_bytes(), inner.plugin.as_bytes()]),
            start_ns: inner.start_ns,
            end_ns: inner.end_ns.max(inner.start_ns),
            status: SpanStatus::Unset,
            trace_state: b"",
            attributes: list.0,
        });
    }

    /// URL that the node was asked for, without the query, which may hold secrets.
    fn node_url(&self, attempt: &AttemptSpan) -> Vec<u8> {
        let texts = &self.texts;
        let node = attempt.node.to_string();
        let host = if texts.node_host.is_empty() { node.as_bytes() } else { texts.node_host };
        let path = if texts.node_path.is_empty() { texts.path } else { texts.node_path };
        [SCHEMES[usize::from(attempt.is_encrypted)], b"://", host, path].concat()
    }
}

/// Schemes without and with TLS.
const SCHEMES: [&[u8]; 2] = [b"http", b"https"];

/// Value of `error.type`: the code of the failure, or the status that stands for it.
fn error_type<'t>(code: &'t str, status_text: &'t str) -> &'t [u8] {
    if code.is_empty() { status_text.as_bytes() } else { code.as_bytes() }
}

/// Joins the parts that are not empty by a space.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let parts: Vec<&[u8]> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(&b' ')
}

/// Address of a node as text, without its port.
fn address(node: Endpoint) -> String {
    node.ip().map_or_else(|| node.to_string(), |ip| ip.to_canonical().to_string())
}

/// Attributes of a span.
struct AttributeList<'l>(Vec<Attribute<'l>>);

impl<'l> AttributeList<'l> {
    fn text(&mut self, key: Key, text: &'l [u8]) {
        self.0.push(Attribute { name: key.name(), value: AttributeValue::Text(text) });
    }

    fn text_if_any(&mut self, key: Key, text: &'l [u8]) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    fn number(&mut self, key: Key, number: u16) {
        self.0.push(Attribute { name: key.name(), value: AttributeValue::Number(number.into()) });
    }

    fn number_if_any(&mut self, key: Key, number: u16) {
        if number > 0 {
            self.number(key, number);
        }
    }
}
