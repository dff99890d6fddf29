//! Spans of a request: one for itself, one for each attempt at a node, and one for each phase and
//! plugin if they are asked for.
//!
//! Requests without a trace never come here. The records are written when the request has ended.

use tollhouse_http::{Known, Version};
use tollhouse_telemetry::ErrorCode;
use tollhouse_trace::{
    AttemptSpan, Incoming, Key, Propagators, RequestTrace, SpanBlock, SpanContext, SpanHead,
    SpanId, SpanKind, SpanNames, SpanStatus, SpanWriter, Tracer, unix_ns,
};
use tollhouse_upstream::Picked;

use super::route::Way;
use crate::exchange::Exchange;
use crate::exchange::record::AttemptRecord;
use crate::exchange::state::{RequestState, upstream_method};
use crate::head::text::{AddressText, write_decimal};
use crate::snapshot::RouteEntry;

/// Capacity in bytes of a block for the spans of one request.
const REQUEST_BYTES: usize = 2 * 1024;

/// Methods that name spans; others are arbitrary texts of clients (semantic conventions for HTTP).
const METHODS: [&[u8]; 9] =
    [b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE"];

/// Begins the trace of a request, as the process is told to.
#[inline(never)]
pub(crate) fn begin(cx: &mut Exchange<'_>, tracer: &Tracer) {
    let worker = cx.worker;
    let incoming = incoming(cx, &tracer.propagators);
    let start = tracer.start(incoming, &mut || worker.random_u64());
    cx.state.is_traced = true;
    cx.state.trace.begin(start);
}

/// Context that the client sent. A header that is repeated counts as absent.
pub(crate) fn incoming(cx: &Exchange<'_>, propagators: &Propagators) -> Incoming {
    let fields = &cx.state.head.fields;
    if propagators.are_trace_context_only() && !fields.has(Known::Traceparent) {
        return Incoming::default();
    }
    let bytes = cx.request_bytes();
    propagators.extract(&|name| {
        let mut values = fields.named(name.as_bytes(), bytes);
        let first = values.next()?;
        values.next().is_none().then_some(first)
    })
}

/// Records the pattern of the route that matched.
#[inline(never)]
pub(crate) fn note_route(state: &mut RequestState, entry: &RouteEntry) {
    let pattern = entry.route.uris.get(state.matched.0).map_or("", |uri| uri.as_str());
    state.trace.note_route(pattern.as_bytes());
}

/// Begins the span of an attempt, before the node's head is written.
#[inline(never)]
pub(crate) fn begin_attempt(cx: &mut Exchange<'_>, way: Way<'_>, picked: &Picked<'_>) {
    if cx.state.trace.is_recorded() {
        cx.state.trace.begin_attempt(AttemptSpan {
            span_id: SpanId::from_random(cx.worker.random_u64()),
            node: picked.address(),
            is_encrypted: way.upstream.terms.connector.is_some(),
            start_ns: unix_ns(),
            end_ns: 0,
        });
    }
}

/// Hands over the spans of a request that has ended.
#[inline(never)]
pub(crate) fn finish(cx: &mut Exchange<'_>) {
    if !cx.state.trace.is_recorded() {
        return;
    }
    if let Some(sink) = cx.state.trace.take_sink() {
        let mut block = SpanBlock::with_capacity(REQUEST_BYTES);
        Spans::new(cx).write(&mut block);
        sink.take(block);
    } else if let Some(tracer) = &cx.worker.tracer {
        tracer.write(|block| Spans::new(cx).write(block));
    }
}

/// Spans of a request that has ended.
struct Spans<'a, 'e> {
    cx: &'a Exchange<'e>,
    trace: &'a RequestTrace,
    end_ns: u64,
}

impl<'a, 'e> Spans<'a, 'e> {
    fn new(cx: &'a Exchange<'e>) -> Self {
        Self { cx, trace: &cx.state.trace, end_ns: unix_ns() }
    }

    fn write(&self, block: &mut SpanBlock) {
        let Some(context) = self.trace.context() else { return };
        self.write_own(context, block);
        for (index, attempt) in self.trace.attempts().iter().enumerate() {
            self.write_attempt(context, attempt, index, block);
        }
        self.trace.each_inner(|inner| {
            let span_id = SpanId::from_random(self.cx.worker.random_u64());
            let mut writer = block.add(&SpanHead {
                context: SpanContext { span_id, ..*context },
                parent: Some(context.span_id),
                is_parent_remote: false,
                kind: SpanKind::Internal,
                name: [inner.name.as_bytes(), inner.plugin.as_bytes()],
                start_ns: inner.start_ns,
                end_ns: inner.end_ns,
                status: SpanStatus::Unset,
                trace_state: b"",
            });
            writer.text_if_any(Key::TollhousePlugin, inner.plugin.as_bytes());
        });
    }

    /// Writes the span of the request itself (semantic conventions for HTTP servers).
    fn write_own(&self, context: &SpanContext, block: &mut SpanBlock) {
        let (cx, trace, record) = (self.cx, self.trace, &self.cx.state.record);
        let method = cx.client_method();
        let is_known = METHODS.contains(&method);
        let route = trace.route();
        let has_failed = record.status >= 500 || record.code == Some(ErrorCode::InternalPanic);
        let source = self.response_source();
        let message = match (trace.names(), record.code) {
            (SpanNames::Apisix, _) => format!("{source} error: {}", record.status),
            (SpanNames::Stable, Some(code)) => code.text().to_owned(),
            (SpanNames::Stable, None) => String::new(),
        };
        let mut writer = block.add(&SpanHead {
            context: *context,
            parent: trace.parent(),
            is_parent_remote: trace.parent().is_some(),
            kind: SpanKind::Server,
            name: [if is_known { method } else { b"HTTP" }, route],
            start_ns: trace.started_ns(),
            end_ns: self.end_ns,
            status: if has_failed { SpanStatus::Error(&message) } else { SpanStatus::Unset },
            trace_state: self.trace_state(),
        });
        writer.text(Key::HttpRequestMethod, if is_known { method } else { b"_OTHER" });
        if !is_known {
            writer.text(Key::HttpRequestMethodOriginal, method);
        }
        writer.text(Key::UrlScheme, cx.client.scheme().as_bytes());
        writer.text(Key::UrlPath, cx.sent_path());
        self.field(&mut writer, Key::UserAgentOriginal, Known::UserAgent);
        writer.text_if_any(Key::HttpRoute, route);
        if record.status > 0 {
            writer.number(Key::HttpResponseStatusCode, record.status.into());
        }
        match trace.names() {
            SpanNames::Stable => self.write_stable(&mut writer, has_failed),
            SpanNames::Apisix => self.write_apisix(&mut writer, source),
        }
        trace.write_attributes(&mut writer);
    }

    /// Writes the attributes of a server that only the stable names have.
    fn write_stable(&self, writer: &mut SpanWriter<'_>, has_failed: bool) {
        let (cx, state, record) = (self.cx, &*self.cx.state, &self.cx.state.record);
        let peer = &cx.client.peer;
        writer
            .text_if_any(Key::ServerAddress, host(state))
            .number(Key::ServerPort, peer.local.port().into())
            .text(Key::ClientAddress, cx.client_address_text())
            .text(Key::NetworkPeerAddress, peer.address_text.as_bytes())
            .number(Key::NetworkPeerPort, peer.address.port().into())
            .text(Key::NetworkProtocolVersion, self.protocol_version())
            .text_if_any(Key::TollhouseRouteId, record.route_id.as_bytes())
            .text_if_any(Key::TollhouseServiceId, record.service_id.as_bytes())
            .text_if_any(Key::TollhouseConsumer, state.plugins.consumer.as_bytes());
        if state.plugins.is_active {
            let refused_by = state.plugins.prepared.refused_by.as_bytes();
            writer.text_if_any(Key::TollhouseRefusedBy, refused_by);
        }
        if let Some(code) = record.code {
            writer.text(Key::TollhouseErrorCode, code.text().as_bytes());
        }
        if has_failed {
            write_error_type(writer, record.code, record.status);
        }
    }

    /// Writes the attributes of a server under the older names, as APISIX does beside the stable
    /// ones.
    fn write_apisix(&self, writer: &mut SpanWriter<'_>, source: &str) {
        let (cx, state, record) = (self.cx, &*self.cx.state, &self.cx.state.record);
        writer
            .text_if_any(Key::NetHostName, host(state))
            .text(Key::HttpMethod, cx.client_method())
            .text(Key::HttpScheme, cx.client.scheme().as_bytes())
            .text(Key::HttpTarget, &cx.sent_uri());
        self.field(writer, Key::HttpUserAgent, Known::UserAgent);
        writer.text_if_any(Key::ApisixRouteId, record.route_id.as_bytes());
        writer.text_if_any(Key::ApisixServiceId, record.service_id.as_bytes());
        if record.status > 0 {
            writer.number(Key::HttpStatusCode, record.status.into());
            writer.text(Key::ApisixResponseSource, source.as_bytes());
        }
    }

    /// Writes the span of an attempt (semantic conventions for HTTP clients).
    fn write_attempt(
        &self,
        context: &SpanContext,
        attempt: &AttemptSpan,
        index: usize,
        block: &mut SpanBlock,
    ) {
        let (cx, state) = (self.cx, &*self.cx.state);
        // Missing if the client left during the attempt.
        let outcome = state.record.attempts.get(index);
        let code = outcome.map_or(state.record.code, |outcome| outcome.code);
        let status = outcome.filter(|it| it.code.is_none()).map_or(0, AttemptRecord::status);
        let has_failed = code.is_some() && outcome.is_none_or(|it| it.code.is_some());
        let method = upstream_method(&state.plugins.edits, &state.head, cx.request_bytes());
        let mut writer = block.add(&SpanHead {
            context: SpanContext { span_id: attempt.span_id, ..*context },
            parent: Some(context.span_id),
            is_parent_remote: false,
            kind: SpanKind::Client,
            name: match self.trace.names() {
                SpanNames::Stable => [method.as_bytes(), b""],
                SpanNames::Apisix => [b"apisix.upstream", b""],
            },
            start_ns: attempt.start_ns,
            end_ns: if attempt.end_ns == 0 { self.end_ns } else { attempt.end_ns },
            status: match has_failed || status >= 400 {
                true => SpanStatus::Error(code.map_or("", ErrorCode::text)),
                false => SpanStatus::Unset,
            },
            trace_state: self.trace_state(),
        });
        writer.text(Key::HttpRequestMethod, method.as_bytes());
        let (text, path);
        let address = match attempt.node.ip() {
            Some(ip) => {
                text = AddressText::new(ip);
                text.as_bytes()
            }
            None => {
                path = attempt.node.to_string();
                path.as_bytes()
            }
        };
        writer.text(Key::ServerAddress, address);
        if let Some(port) = attempt.node.port() {
            writer.number(Key::ServerPort, port.into());
        }
        writer.joined(Key::UrlFull, self.full_url(attempt, address));
        if status > 0 {
            writer.number(Key::HttpResponseStatusCode, status.into());
        }
        if index > 0 {
            writer.number(Key::HttpRequestResendCount, index as u64);
        }
        if has_failed || status >= 400 {
            write_error_type(&mut writer, code, status);
        }
    }

    /// URL that the node was asked for, without the query, which may hold secrets.
    fn full_url<'u>(&'u self, attempt: &AttemptSpan, address: &'u [u8]) -> [&'u [u8]; 3] {
        let (cx, state) = (self.cx, &*self.cx.state);
        let scheme: &[u8] = if attempt.is_encrypted { b"https://" } else { b"http://" };
        let host = if state.host_up.is_empty() { address } else { state.host_up.as_slice() };
        let path = match state.plugins.edits.upstream_uri() {
            Some(uri) => uri.split(|byte| *byte == b'?').next().unwrap_or_default(),
            None => cx.sent_path(),
        };
        [scheme, host, path]
    }

    fn field(&self, writer: &mut SpanWriter<'_>, key: Key, known: Known) {
        let value = self.cx.state.head.fields.first(known).unwrap_or_default();
        writer.text_if_any(key, value.bytes_in(self.cx.request_bytes()));
    }

    /// `tracestate` of a trace that the client has begun.
    fn trace_state(&self) -> &[u8] {
        let fields = &self.cx.state.head.fields;
        let sent = self.trace.parent().and_then(|_| fields.first(Known::Tracestate));
        sent.unwrap_or_default().bytes_in(self.cx.request_bytes())
    }

    fn protocol_version(&self) -> &'static [u8] {
        match (self.cx.client.link.stream.is_shared(), self.cx.state.head.version) {
            (true, _) => b"2",
            (false, Version::Http11) => b"1.1",
            (false, Version::Http10) => b"1.0",
        }
    }

    /// Origin of the response in APISIX's words.
    fn response_source(&self) -> &'static str {
        let record = &self.cx.state.record;
        match (record.upstream_response_ms, record.code) {
            (Some(_), None) => "upstream",
            (_, Some(_)) if !record.attempts.is_empty() => "nginx",
            _ => "apisix",
        }
    }
}

/// Host of the request without its port.
fn host(state: &RequestState) -> &[u8] {
    &state.host[..state.host_bytes.min(state.host.len())]
}

fn write_error_type(writer: &mut SpanWriter<'_>, code: Option<ErrorCode>, status: u16) {
    match code {
        Some(code) => writer.text(Key::ErrorType, code.text().as_bytes()),
        None => {
            let mut number = Vec::with_capacity(3);
            write_decimal(&mut number, status.into());
            writer.text(Key::ErrorType, &number)
        }
    };
}
