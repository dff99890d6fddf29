//! Response head for a client: a node's, or one of the gateway's own.
//!
//! The framing of the body is decided in `delivery.rs`, after plugins have run.

use tollhouse_http::element::{FieldName, FieldValue, Status};
use tollhouse_http::writer::Lines;
use tollhouse_http::{Framing, HeadWriter, Known, ResponseHead};

use super::{CONNECTION, reason, write_switch};

const DATE: FieldName<'_> = FieldName::literal("Date");
const SERVER: FieldName<'_> = FieldName::literal("Server");
const CONTENT_TYPE: FieldName<'_> = FieldName::literal("Content-Type");
const UPSTREAM_STATUS: FieldName<'_> = FieldName::literal("X-APISIX-Upstream-Status");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionNote {
    /// The response has no such header, because HTTP/1.1 keeps the connection open by default.
    None,
    /// The connection closes after this response.
    Close,
    /// The connection stays open although the client speaks HTTP/1.0.
    KeepAlive,
}

/// `Date` and `Server` lines, formatted once and copied into every response.
#[derive(Debug, Default)]
pub(crate) struct ServerLines {
    dated: Lines,
    /// `Server` alone, for responses with a node's own date.
    undated: Lines,
}

impl ServerLines {
    /// Rewrites the lines with the current `date` (RFC 9110 §5.6.7).
    pub(crate) fn write_anew(&mut self, server: FieldValue<'_>, date: FieldValue<'_>) {
        self.dated.write_anew(|out| {
            out.field(DATE, date).field(SERVER, server);
        });
        self.undated.write_anew(|out| {
            out.field(SERVER, server);
        });
    }
}

/// Header lines that every response of this gateway carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerFacts<'a> {
    /// Header lines `Date` and `Server`, formatted once a second.
    pub lines: &'a ServerLines,
    /// Value of the header `Connection`.
    pub connection: ConnectionNote,
}

/// Head of a node's response, to be passed on.
#[derive(Debug)]
pub(crate) struct RelayedResponse<'a> {
    pub head: &'a ResponseHead,
    /// Bytes that `head` was parsed from.
    pub bytes: &'a [u8],
    /// Framing of the body towards the client.
    pub framing: Framing,
    /// Treatment of the node's trailers: passed to the client, or dropped.
    pub trailers: Trailers,
    /// Header lines that the gateway adds.
    pub facts: ServerFacts<'a>,
    /// Value of `X-APISIX-Upstream-Status`, if the header is sent.
    pub upstream_status: Option<FieldValue<'a>>,
    /// Status set by a plugin, if changed.
    pub status: Option<Status>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trailers {
    #[default]
    Dropped,
    /// Trailers are passed on to the client.
    Passed,
}

impl RelayedResponse<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut out = match self.status {
            None => HeadWriter::relayed(out, self.head, self.bytes),
            Some(status) => begin(out, status),
        };
        let has_trailers = self.trailers == Trailers::Passed;
        let head = &self.bytes[..self.head.head_bytes];
        out.copied(&self.head.fields, head, |field| match field.known {
            Known::Server => false,
            Known::Trailer => has_trailers,
            known => !known.is_hop_by_hop(),
        });
        out.framing(self.framing);
        write_facts(&mut out, &self.facts, self.head.fields.has(Known::Date));
        if let Some(status) = self.upstream_status {
            out.field(UPSTREAM_STATUS, status);
        }
        if self.head.status == 101 {
            let protocol = self.head.fields.first(Known::Upgrade).unwrap_or_default();
            write_switch(&mut out, FieldValue::from_span(protocol, self.bytes));
        }
        out.end();
    }
}

/// Appends the head of a node's interim (1xx) response (RFC 9110 §15.2).
pub(crate) fn write_interim(out: &mut Vec<u8>, head: &ResponseHead, bytes: &[u8]) {
    let mut out = HeadWriter::relayed(out, head, bytes);
    let lines = &bytes[..head.head_bytes];
    out.copied(&head.fields, lines, |field| {
        field.known != Known::Trailer && !field.known.is_hop_by_hop()
    });
    out.end();
}

/// Head of a response that the gateway generates itself.
#[derive(Debug)]
pub(crate) struct LocalResponse<'a> {
    pub status: Status,
    /// Value of `Content-Type`; the header is omitted if this is empty.
    pub content_type: FieldValue<'a>,
    /// Declared length of the body, also if no body is sent (HEAD).
    pub framing: Framing,
    /// Header lines that the gateway adds.
    pub facts: ServerFacts<'a>,
    /// Whether the lines that are added later have a date of their own.
    pub has_date: bool,
}

impl LocalResponse<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut out = begin(out, self.status);
        write_facts(&mut out, &self.facts, self.has_date);
        if !self.content_type.as_bytes().is_empty() {
            out.field(CONTENT_TYPE, self.content_type);
        }
        out.framing(self.framing);
        out.end();
    }
}

fn begin(out: &mut Vec<u8>, status: Status) -> HeadWriter<'_> {
    let reason = reason(status.number()).as_bytes();
    HeadWriter::response(out, status, FieldValue::parse(reason).unwrap_or_default())
}

#[inline]
fn write_facts(out: &mut HeadWriter<'_>, facts: &ServerFacts<'_>, has_date: bool) {
    const CLOSE: FieldValue<'_> = FieldValue::literal("close");
    const KEEP_ALIVE: FieldValue<'_> = FieldValue::literal("keep-alive");
    out.lines(if has_date { &facts.lines.undated } else { &facts.lines.dated });
    match facts.connection {
        ConnectionNote::None => {}
        ConnectionNote::Close => {
            out.field(CONNECTION, CLOSE);
        }
        ConnectionNote::KeepAlive => {
            out.field(CONNECTION, KEEP_ALIVE);
        }
    }
}

#[cfg(test)]
mod tests;
