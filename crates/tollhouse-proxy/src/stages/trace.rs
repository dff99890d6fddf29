//! Trace of a request: its beginning, and the record of a request that has ended, from which
//! exporters make spans.
//!
//! Requests without a trace never come here.

use tollhouse_http::{Known, Version};
use tollhouse_telemetry::ErrorCode;
use tollhouse_trace::{
    AttemptOutcome, AttemptSpan, CoreTracer, RequestFacts, RequestNumbers, RequestTexts,
    ResponseSource, SpanBlock, SpanId, SpanNames, TraceExtent, unix_ns,
};
use tollhouse_upstream::Picked;

use super::route::Way;
use crate::exchange::Exchange;
use crate::exchange::state::{RequestState, upstream_method};
use crate::snapshot::RouteEntry;

/// Begins the trace of a request, or continues that of its caller.
#[inline]
pub(crate) fn begin(cx: &mut Exchange<'_>, tracer: &CoreTracer) {
    let fields = &cx.state.head.fields;
    let has_context =
        fields.has(Known::Traceparent) || !tracer.propagators().are_trace_context_only();
    cx.state.trace_extent = match has_context {
        true => continue_from_caller(cx, tracer),
        false => tracer.begin(&mut cx.state.trace),
    };
}

/// Continues the trace of the caller. A header that is repeated counts as absent.
#[inline(never)]
fn continue_from_caller(cx: &mut Exchange<'_>, tracer: &CoreTracer) -> TraceExtent {
    let (fields, bytes) = (&cx.state.head.fields, cx.request_bytes());
    let incoming = tracer.propagators().extract(&|name| {
        let mut values = fields.named(name.as_bytes(), bytes);
        let first = values.next()?;
        values.next().is_none().then_some(first)
    });
    tracer.continue_from(incoming, &mut cx.state.trace)
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
    cx.state.trace.begin_attempt(AttemptSpan {
        span_id: SpanId::from_random(cx.worker.random_u64()),
        node: picked.address(),
        is_encrypted: way.upstream.terms.connector.is_some(),
        start_ns: unix_ns(),
        end_ns: 0,
    });
}

/// Hands over the spans of a request that has ended.
#[inline(never)]
pub(crate) fn finish(cx: &mut Exchange<'_>) {
    if let Some(sink) = cx.state.trace.take_sink() {
        let mut block = SpanBlock::for_requests(1);
        record(cx, &mut block);
        sink.take(block);
    } else if let Some(tracer) = &cx.worker.tracer {
        tracer.write(|block| record(cx, block));
    }
}

/// Copies what the spans of a request consist of.
fn record(cx: &Exchange<'_>, block: &mut SpanBlock) {
    let (state, peer) = (&*cx.state, &cx.client.peer);
    let (record, trace, edits) = (&state.record, &state.trace, &state.plugins.edits);
    let sent_uri = if trace.names() == SpanNames::Apisix { cx.sent_uri() } else { (&[]).into() };
    let field = |known| {
        let value = state.head.fields.first(known).unwrap_or_default();
        value.bytes_in(cx.request_bytes())
    };
    let texts = RequestTexts {
        method: cx.client_method(),
        path: cx.sent_path(),
        target: &sent_uri,
        user_agent: field(Known::UserAgent),
        host: &state.host[..state.host_bytes.min(state.host.len())],
        route: trace.route(),
        route_id: record.route_id.as_bytes(),
        service_id: record.service_id.as_bytes(),
        consumer: state.plugins.consumer.as_bytes(),
        refused_by: match state.plugins.is_active {
            true => state.plugins.prepared.refused_by.as_bytes(),
            false => b"",
        },
        client_address: cx.client_address_text(),
        peer_address: match state.reported_address.is_some() {
            true => peer.address_text.as_bytes(),
            false => b"",
        },
        // A state belongs to the trace that the client has begun.
        trace_state: if trace.parent().is_some() { field(Known::Tracestate) } else { b"" },
        node_method: upstream_method(edits, &state.head, cx.request_bytes()).as_bytes(),
        node_host: &state.host_up,
        node_path: edits.upstream_uri().map_or(b"", without_query),
    };
    let numbers = RequestNumbers {
        end_ns: unix_ns(),
        status: record.status,
        code: record.code.map_or("", ErrorCode::text),
        has_failed: record.status >= 500 || record.code == Some(ErrorCode::InternalPanic),
        source: match (record.upstream_response_ms, record.code) {
            (Some(_), None) => ResponseSource::Node,
            (_, Some(_)) if !record.attempts.is_empty() => ResponseSource::FailedNodes,
            _ => ResponseSource::Gateway,
        },
        is_encrypted: cx.client.is_encrypted(),
        protocol: match (cx.client.link.stream.is_shared(), state.head.version) {
            (true, _) => "2",
            (false, Version::Http11) => "1.1",
            (false, Version::Http10) => "1.0",
        },
        local_port: peer.local.port(),
        peer_port: peer.address.port(),
    };
    block.add_request(trace, &RequestFacts { numbers, texts }, |index| outcome(state, index));
}

/// Outcome of an attempt. The attempt during which the client left has that of the request.
#[inline]
fn outcome(state: &RequestState, index: usize) -> AttemptOutcome {
    let record = &state.record;
    let Some(attempt) = record.attempts.get(index) else {
        return AttemptOutcome { status: 0, code: record.code.map_or("", ErrorCode::text) };
    };
    match attempt.code {
        Some(code) => AttemptOutcome { status: 0, code: code.text() },
        None => AttemptOutcome { status: attempt.status(), code: "" },
    }
}

fn without_query(uri: &[u8]) -> &[u8] {
    uri.split(|byte| *byte == b'?').next().unwrap_or_default()
}
