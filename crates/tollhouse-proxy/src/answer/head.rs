//! Writes every response head that clients receive, including the gateway's own header lines and
//! the edits of plugins. The wording is in `crate::head::response`.

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

/// Decisions about the head of a relayed response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelayedHead {
    /// Framing of the body towards the client.
    pub delivery: Delivery,
    /// State of the client's connection after the response.
    pub after: After,
    /// Treatment of the node's trailers: passed to the client, or dropped.
    pub trailers: Trailers,
    /// Status set by plugins, if they changed it.
    pub status: Option<Status>,
}

/// Writes a node's response head for the client; `node` holds the bytes that the head was parsed
/// from.
#[inline]
pub(crate) fn write_relayed(cx: &mut Exchange<'_>, node: &[u8], decided: &RelayedHead) {
    let worker = cx.worker;
    let state = &mut *cx.state;
    let lines = worker.server_lines();
    let shows_status = state.response.status >= 500 || worker.settings.show_upstream_status;
    let statuses = shows_status.then(|| state.record.upstream_statuses());
    // A switch of protocols (101) carries its own `Connection` and `Upgrade` lines, so nothing is
    // added.
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

/// Head of a response that the gateway generates itself.
#[derive(Debug)]
pub(crate) struct OwnHead<'a> {
    pub status: Status,
    /// Value of `Content-Type`; the header is omitted if this is empty.
    pub content_type: &'a str,
    /// Declared length of the body, also if no body is sent (HEAD).
    pub framing: Framing,
    pub connection: ConnectionNote,
    /// Further header lines; they replace lines with equal names.
    pub edits: [&'a HeaderEdits; 3],
}

/// Writes `head` into `out`, replacing its content.
pub(crate) fn write_own(worker: &Worker, out: &mut Vec<u8>, head: &OwnHead<'_>) {
    let lines = worker.server_lines();
    // A response that may not declare a length has no body, so it has no type either.
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

/// Returns the treatment of a node's trailers. They are passed on to clients that asked for them
/// (RFC 9110 §6.5.1), and to every gRPC call, because its status is in the trailers and a proxy in
/// front may have removed the client's `te`.
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
