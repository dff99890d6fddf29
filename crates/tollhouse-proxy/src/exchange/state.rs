//! What is known about the request under way, in memory that one request after another uses.

use std::net::IpAddr;

use tollhouse_http::element::Method;
use tollhouse_http::{RequestHead, ResponseHead};
use tollhouse_plugin::RequestEdits;
use tollhouse_router::Captures;

use super::held_body::HeldBody;
use super::record::Record;
use crate::head::text::AddressText;
use crate::offload;
use crate::plugins::state::PluginState;
use crate::transfer::pump::Lead;

/// Everything a request needs while it is under way; one value serves many requests, so that its
/// vectors grow once.
#[derive(Debug, Default)]
pub(crate) struct RequestState {
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
    /// Until when the client of a call of gRPC waits, in milliseconds of the core's clock.
    pub call_deadline_ms: Option<u64>,
    /// The request's body, where somebody has it read whole.
    pub held_body: HeldBody,
    /// What log and metrics will say.
    pub record: Record,
    /// What plugins leave behind.
    pub plugins: PluginState,
}

/// Room that a vector keeps for the next request, in bytes; heads are seldom longer.
const ROOM_KEPT_BYTES_MAX: usize = 16 * 1024;

impl RequestState {
    /// What nodes are sent before the client's body.
    #[inline]
    pub(crate) fn lead(&self) -> Lead<'_> {
        let body = self.plugins.edits.body.as_deref().unwrap_or_default();
        Lead { head: &self.out_up, body }
    }

    /// Drops what could keep a configuration alive or take much memory between requests.
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
        self.plugins.finish();
    }
}

/// The method that nodes are asked with, which is what frames their answers. `buffer` is what
/// `head` was parsed from.
#[inline]
pub(crate) fn upstream_method<'a>(
    edits: &RequestEdits,
    head: &RequestHead,
    buffer: &'a [u8],
) -> Method<'a> {
    let edited = edits.method.and_then(|method| Method::parse(method.as_bytes()));
    edited.unwrap_or_else(|| Method::from_head(head, buffer))
}

/// Whether a method may be repeated without the client's asking (RFC 9110 §9.2.2).
#[inline]
pub(crate) fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE")
}
