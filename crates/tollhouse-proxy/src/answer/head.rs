//! Writes the heads that clients get, all of them: what the gateway says of itself and of the
//! connection, and what plugins change about the rest. The wording is in `crate::head::response`.

use tollhouse_http::element::{FieldValue, Status};
use tollhouse_http::field::list_elements;
use tollhouse_http::{BodyLength, Framing, Known};
use tollhouse_plugin::HeaderEdits;

use super::delivery::Delivery;
use super::keep_alive;
use crate::connection::after::After;
use crate::exchange::Exchange;
use crate::head::response::{
    ConnectionNote, LocalResponse, RelayedResponse, ServerFacts, Trailers,
};
use crate::plugins::overlay::{self, Side};
use crate::worker::Worker;

/// What is decided about the head of a node's answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelayedHead {
    /// How the body follows.
    pub delivery: Delivery,
    /// What becomes of the client's connection.
    pub after: After,
    /// What becomes of the node's trailers.
    pub trailers: Trailers,
    /// The status, where plugins have changed it.
    pub status: Option<Status>,
}

/// Writes a node's head as the client gets it; `node` is what the node's own was parsed from.
#[inline]
pub(crate) fn write_relayed(cx: &mut Exchange<'_>, node: &[u8], decided: &RelayedHead) {
    let worker = cx.worker;
    let state = &mut *cx.state;
    let lines = worker.server_lines();
    let shows_status = state.response.status >= 500 || worker.settings.show_upstream_status;
    let statuses = shows_status.then(|| state.record.upstream_statuses());
    // The two lines of a switch say all there is to say about the connection.
    let (connection, framing) = if state.response.status == 101 {
        (ConnectionNote::None, Framing::Omitted)
    } else {
        (keep_alive::note(decided.after, state.head.version), decided.delivery.framing)
    };
    let out = &mut state.out_down;
    out.clear();
    RelayedResponse {
        head: &state.response,
        bytes: node,
        framing,
        trailers: decided.trailers,
        facts: ServerFacts { lines: &lines, connection },
        upstream_status: statuses.as_deref().and_then(FieldValue::parse),
        status: decided.status,
    }
    .write(out);
    apply_edits(out, &state.plugins.response_edits);
}

/// The head of an answer that the gateway gives itself.
#[derive(Debug)]
pub(crate) struct OwnHead<'a> {
    pub status: Status,
    /// `Content-Type`; empty for none.
    pub content_type: &'a str,
    /// What is said about the body's length, also where none is sent (HEAD).
    pub framing: Framing,
    /// What is said about the connection.
    pub connection: ConnectionNote,
    /// Further header lines, in place of those of the same name.
    pub edits: [&'a HeaderEdits; 2],
}

/// Writes it into `out`, which is emptied before.
pub(crate) fn write_own(worker: &Worker, out: &mut Vec<u8>, head: &OwnHead<'_>) {
    let lines = worker.server_lines();
    // What has no body and no length has no type either.
    let content_type = if head.status.is_lengthless() { "" } else { head.content_type };
    // A stored answer keeps the date at which its node made it (RFC 9111 §4).
    let has_date = head.edits.iter().any(|edits| edits.find(b"date").is_some());
    out.clear();
    LocalResponse {
        status: head.status,
        content_type: FieldValue::parse(content_type.as_bytes()).unwrap_or_default(),
        framing: head.framing,
        facts: ServerFacts { lines: &lines, connection: head.connection },
        has_date,
    }
    .write(out);
    for edits in head.edits {
        apply_edits(out, edits);
    }
}

#[inline]
fn apply_edits(out: &mut Vec<u8>, edits: &HeaderEdits) {
    if !edits.is_empty() {
        overlay::apply(out, edits, Side::Response);
    }
}

/// What becomes of a node's trailers: they pass to a client that has asked for them (RFC 9110
/// §6.5.1), and to every call of gRPC: what came of it stands in them, and proxies in front may have taken
/// the client's `te` off.
#[inline]
pub(crate) fn trailers(cx: &Exchange<'_>, delivery: Delivery) -> Trailers {
    let may_pass =
        cx.state.response.body == BodyLength::Chunked && delivery.framing == Framing::Chunked;
    if may_pass && cx.is_grpc() {
        return Trailers::Passed;
    }
    match cx.state.head.fields.first(Known::Te).filter(|_| may_pass) {
        Some(codings) if asks_trailers(codings.bytes_in(cx.request_bytes())) => Trailers::Passed,
        _ => Trailers::Dropped,
    }
}

#[cold]
fn asks_trailers(codings: &[u8]) -> bool {
    list_elements(codings).any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}
