//! The response head that a client receives: a node's, or one of the gateway's own.
//!
//! How the body is framed is decided in `delivery.rs`, once plugins have spoken.

use tollhouse_http::element::{FieldName, FieldValue, Status};
use tollhouse_http::writer::Lines;
use tollhouse_http::{Framing, HeadWriter, Known, ResponseHead};

use super::{CONNECTION, reason, write_switch};

const DATE: FieldName<'_> = FieldName::literal("Date");
const SERVER: FieldName<'_> = FieldName::literal("Server");
const CONTENT_TYPE: FieldName<'_> = FieldName::literal("Content-Type");
const UPSTREAM_STATUS: FieldName<'_> = FieldName::literal("X-APISIX-Upstream-Status");

/// What is said about the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionNote {
    /// Nothing: HTTP/1.1 keeps it open.
    None,
    /// It closes after this response.
    Close,
    /// It stays open although the client spoke HTTP/1.0.
    KeepAlive,
}

/// What every response says of this gateway and of the time, ready to be copied.
#[derive(Debug, Default)]
pub(crate) struct ServerLines {
    /// `Date` and `Server`.
    dated: Lines,
    /// `Server` alone, behind a node's own date.
    undated: Lines,
}

impl ServerLines {
    /// Writes them anew; `date` is that of now (RFC 9110 §5.6.7).
    pub(crate) fn write_anew(&mut self, server: FieldValue<'_>, date: FieldValue<'_>) {
        self.dated.write_anew(|out| {
            out.field(DATE, date).field(SERVER, server);
        });
        self.undated.write_anew(|out| {
            out.field(SERVER, server);
        });
    }
}

/// What every response of this gateway carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerFacts<'a> {
    /// Who answers, and when.
    pub lines: &'a ServerLines,
    /// What is said about the connection.
    pub connection: ConnectionNote,
}

/// A node's response, to be passed on.
#[derive(Debug)]
pub(crate) struct RelayedResponse<'a> {
    /// The node's head.
    pub head: &'a ResponseHead,
    /// The bytes it was parsed from.
    pub bytes: &'a [u8],
    /// How the body is framed towards the client.
    pub framing: Framing,
    /// Whether trailers follow the body.
    pub trailers: Trailers,
    /// What this gateway adds.
    pub facts: ServerFacts<'a>,
    /// `X-APISIX-Upstream-Status`, where it is to be shown.
    pub upstream_status: Option<FieldValue<'a>>,
    /// The status, where a plugin changes it.
    pub status: Option<Status>,
}

/// What becomes of a node's trailers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trailers {
    /// They end here.
    #[default]
    Dropped,
    /// The client has asked for them.
    Passed,
}

impl RelayedResponse<'_> {
    /// Appends the head to `out`.
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

/// Appends an interim response (RFC 9110 §15.2) of a node.
pub(crate) fn write_interim(out: &mut Vec<u8>, head: &ResponseHead, bytes: &[u8]) {
    let mut out = HeadWriter::relayed(out, head, bytes);
    let lines = &bytes[..head.head_bytes];
    out.copied(&head.fields, lines, |field| {
        field.known != Known::Trailer && !field.known.is_hop_by_hop()
    });
    out.end();
}

/// A response that the gateway makes up itself.
#[derive(Debug)]
pub(crate) struct LocalResponse<'a> {
    pub status: Status,
    /// `Content-Type`; empty for none.
    pub content_type: FieldValue<'a>,
    /// What is said about the body's length, also where none is sent (HEAD).
    pub framing: Framing,
    /// What this gateway adds.
    pub facts: ServerFacts<'a>,
    /// Whether the lines that are added later have a date of their own.
    pub has_date: bool,
}

impl LocalResponse<'_> {
    /// Appends the head to `out`.
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
