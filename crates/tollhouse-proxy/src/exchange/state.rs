//! State of a request in progress, in memory that is reused for the next request.

use std::net::IpAddr;

use tollhouse_http::element::Method;
use tollhouse_http::{RequestHead, ResponseHead};
use tollhouse_plugin::RequestEdits;
use tollhouse_router::Captures;
use tollhouse_trace::{RequestTrace, TraceExtent};

use super::held_body::HeldBody;
use super::record::Record;
use crate::head::text::AddressText;
use crate::offload;
use crate::plugins::state::PluginState;
use crate::transfer::pump::Lead;

/// State of one request. One value serves many requests, so that its vectors are allocated once.
#[derive(Debug, Default)]
pub(crate) struct RequestState {
    /// Request head; its spans index into the client's buffer.
    pub head: RequestHead,
    /// Response head of the node; its spans index into the node's buffer.
    pub response: ResponseHead,
    /// Request head as written for the node.
    pub out_up: Vec<u8>,
    /// Head written for the client, and chunk framing.
    pub out_down: Vec<u8>,
    /// Normalised path, if it differs from the path sent.
    pub path: Vec<u8>,
    /// Whether nodes receive `path` rather than the path that the client sent.
    pub path_is_rewritten: bool,
    /// `Host` in lower case, with its port.
    pub host: Vec<u8>,
    /// Length of `host` without the port.
    pub host_bytes: usize,
    /// Value of `Host` in the request to the node.
    pub host_up: Vec<u8>,
    /// Parameters captured by the route's path pattern.
    pub captures: Captures,
    /// Indexes of the path and host patterns that matched; no host index if the host is checked as
    /// a condition.
    pub matched: (usize, Option<usize>),
    /// Whether the method is idempotent, so that the request may be retried (RFC 9110 §9.2.2).
    pub is_idempotent: bool,
    /// Extent of the request's trace. Beside the flags that every request reads.
    pub trace_extent: TraceExtent,
    /// Client address reported by a trusted proxy, if it differs from the peer's.
    pub reported_address: Option<(IpAddr, AddressText)>,
    /// Deadline of a gRPC call, in milliseconds of the core's clock.
    pub call_deadline_ms: Option<u64>,
    /// The request body, if it is read whole.
    pub held_body: HeldBody,
    /// Facts about the request, for access log and metrics.
    pub record: Record,
    /// Trace of the request; inactive without an extent.
    pub trace: RequestTrace,
    /// State that plugins keep between their phases.
    pub plugins: PluginState,
}

/// Capacity in bytes that a vector keeps for the next request; heads are rarely longer.
const ROOM_KEPT_BYTES_MAX: usize = 16 * 1024;

impl RequestState {
    /// Whether the request is recorded as spans.
    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        self.trace_extent == TraceExtent::Spans
    }

    /// Returns the bytes sent to nodes before the client's body: the head, and a body set by
    /// plugins.
    #[inline]
    pub(crate) fn lead(&self) -> Lead<'_> {
        let body = self.plugins.edits.body.as_deref().unwrap_or_default();
        Lead { head: &self.out_up, body }
    }

    /// Releases whatever would keep a configuration alive or hold much memory between requests.
    pub(crate) fn finish(&mut self) {
        for room in [&mut self.out_up, &mut self.out_down, &mut self.path, &mut self.host_up] {
            room.shrink_to(ROOM_KEPT_BYTES_MAX);
        }
        if let Some(body) = self.plugins.edits.body.take() {
            offload::give_back(body, self.held_body.take_reservation());
        }
        self.held_body.finish();
        self.reported_address = None;
        self.call_deadline_ms = None;
        self.record.reset();
        if std::mem::take(&mut self.trace_extent) != TraceExtent::None {
            self.trace.finish();
        }
        self.plugins.finish();
    }
}

/// Returns the method sent to nodes, which determines the framing of their responses. `head` was
/// parsed from `buffer`.
#[inline]
pub(crate) fn upstream_method<'a>(
    edits: &RequestEdits,
    head: &RequestHead,
    buffer: &'a [u8],
) -> Method<'a> {
    let edited = edits.method.and_then(|method| Method::parse(method.as_bytes()));
    edited.unwrap_or_else(|| Method::from_head(head, buffer))
}

/// Whether a method is idempotent, so that the request may be retried (RFC 9110 §9.2.2).
#[inline]
pub(crate) fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE")
}
