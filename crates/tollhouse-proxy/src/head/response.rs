//! The response head that a client receives: a node's, or one of the gateway's own.

use tollhouse_http::{BodyLength, Known, ResponseHead};

use super::{copy_lines, reason, text, write_line};
use crate::exchange::relay::Reframe;

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

/// What every response of this gateway carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerFacts<'a> {
    /// The `Server` header.
    pub server: &'a [u8],
    /// The date of now (RFC 9110 §5.6.7).
    pub date: &'a [u8],
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
    pub reframe: Reframe,
    /// What this gateway adds.
    pub facts: ServerFacts<'a>,
    /// `X-APISIX-Upstream-Status`, where it is to be shown.
    pub upstream_status: Option<&'a [u8]>,
    /// The status, where a plugin changes it.
    pub status: Option<u16>,
}

impl RelayedResponse<'_> {
    /// Appends the head to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        // A node that speaks HTTP/1.0 does not lower what the gateway speaks.
        match self.status {
            None => {
                out.extend_from_slice(b"HTTP/1.1");
                out.extend_from_slice(&self.bytes[b"HTTP/1.1".len()..self.head.fields_start]);
            }
            Some(status) => write_status_line(out, status),
        }
        let end = self.head.head_bytes - 2;
        copy_lines(out, &self.head.fields, self.bytes, end, |field| {
            !field.known.is_hop_by_hop() && field.known != Known::Server
        });
        self.write_framing(out);
        write_facts(out, &self.facts, self.head.fields.has(Known::Date));
        if let Some(status) = self.upstream_status {
            write_line(out, "X-APISIX-Upstream-Status", status);
        }
        if self.head.status == 101 {
            let protocol = self.head.fields.first(Known::Upgrade).unwrap_or_default();
            write_line(out, "Upgrade", protocol.of_buffer(self.bytes));
            out.extend_from_slice(b"Connection: upgrade\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    fn write_framing(&self, out: &mut Vec<u8>) {
        let chunked = match self.head.body {
            BodyLength::Chunked => self.reframe == Reframe::Keep,
            BodyLength::UntilClose => self.reframe == Reframe::Encode,
            BodyLength::None | BodyLength::Known(_) => false,
        };
        if chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
    }
}

/// Appends an interim response (RFC 9110 §15.2) of a node.
pub(crate) fn write_interim(out: &mut Vec<u8>, head: &ResponseHead, bytes: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1");
    out.extend_from_slice(&bytes[b"HTTP/1.1".len()..head.fields_start]);
    let end = head.head_bytes - 2;
    copy_lines(out, &head.fields, bytes, end, |field| !field.known.is_hop_by_hop());
    out.extend_from_slice(b"\r\n");
}

/// A response that the gateway makes up itself.
#[derive(Debug)]
pub(crate) struct LocalResponse<'a> {
    /// The status.
    pub status: u16,
    /// `Content-Type`; empty for none.
    pub content_type: &'a str,
    /// Further header lines.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body's length, also where none is sent (HEAD).
    pub body_bytes: usize,
    /// What this gateway adds.
    pub facts: ServerFacts<'a>,
}

impl LocalResponse<'_> {
    /// Appends the head to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_status_line(out, self.status);
        write_facts(out, &self.facts, false);
        if !self.content_type.is_empty() {
            write_line(out, "Content-Type", self.content_type.as_bytes());
        }
        out.extend_from_slice(b"Content-Length: ");
        text::write_decimal(out, self.body_bytes as u64);
        out.extend_from_slice(b"\r\n");
        for (name, value) in self.headers {
            write_line(out, name, value);
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn write_status_line(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(b"HTTP/1.1 ");
    text::write_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn write_facts(out: &mut Vec<u8>, facts: &ServerFacts<'_>, has_date: bool) {
    if !has_date {
        write_line(out, "Date", facts.date);
    }
    write_line(out, "Server", facts.server);
    match facts.connection {
        ConnectionNote::None => {}
        ConnectionNote::Close => out.extend_from_slice(b"Connection: close\r\n"),
        ConnectionNote::KeepAlive => out.extend_from_slice(b"Connection: keep-alive\r\n"),
    }
}

#[cfg(test)]
mod tests;
