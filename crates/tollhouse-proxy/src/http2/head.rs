//! Formats the fields of a message as an HTTP/1.1 head while they are decoded.
//!
//! The codec has checked the characters of names, values and pseudo-header fields. The HTTP/1.1
//! parser that reads the result checks again that it is exactly one request.

use tollhouse_h2::field::{Field, FieldKind};
use tollhouse_h2::{FieldSink, HeadKind, StreamId};

use super::inbound::Framing;
use super::websocket::Handshake;
use crate::head::reason;
use crate::head::text::write_decimal;

/// Capacity in bytes that each vector keeps for the next message.
const ROOM_KEPT_BYTES_MAX: usize = 8 * 1024;

/// The most recently decoded head or trailers; one per connection, reused.
#[derive(Debug, Default)]
pub(crate) struct DecodedHead {
    method: Vec<u8>,
    authority: Vec<u8>,
    path: Vec<u8>,
    protocol: Vec<u8>,
    host: Vec<u8>,
    /// All `cookie` fields, joined into one (RFC 9113 §8.2.3).
    cookie: Vec<u8>,
    /// Header lines after the request line, each with its line end.
    lines: Vec<u8>,
    declares_length: bool,
}

/// Kind of a request by its pseudo-header fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Ordinary exchange of a request and a response.
    Exchange,
    /// WebSocket handshake (RFC 8441).
    WebSocket,
    /// An extended CONNECT for another protocol.
    UnknownProtocol,
    /// A plain CONNECT, which asks for a tunnel to another host.
    Connect,
}

impl FieldSink for DecodedHead {
    fn begin(&mut self, _: StreamId, _: HeadKind) {
        for text in [
            &mut self.method,
            &mut self.authority,
            &mut self.path,
            &mut self.protocol,
            &mut self.host,
            &mut self.cookie,
            &mut self.lines,
        ] {
            text.clear();
        }
        self.declares_length = false;
    }

    #[inline]
    fn field(&mut self, field: Field<'_>) {
        let text = match field.kind {
            FieldKind::Method => &mut self.method,
            FieldKind::Authority => &mut self.authority,
            FieldKind::Path => &mut self.path,
            FieldKind::Protocol => &mut self.protocol,
            FieldKind::Host => &mut self.host,
            FieldKind::Cookie => {
                if !self.cookie.is_empty() {
                    self.cookie.extend_from_slice(b"; ");
                }
                &mut self.cookie
            }
            // The scheme is known from the connection.
            FieldKind::Scheme | FieldKind::Status | FieldKind::Malformed => return,
            FieldKind::ContentLength | FieldKind::Regular | FieldKind::Priority => {
                self.declares_length |= field.kind == FieldKind::ContentLength;
                return write_line(&mut self.lines, field.name, field.value);
            }
        };
        text.extend_from_slice(field.value);
    }
}

/// Name of the `content-length` line, as it is written here.
const CONTENT_LENGTH: &[u8] = b"content-length:";

fn write_status_line(status: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    write_decimal(out, u64::from(status));
    out.extend_from_slice(b" ");
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

impl DecodedHead {
    pub(super) fn kind(&self) -> Kind {
        match (&*self.method, &*self.protocol) {
            (b"CONNECT", b"") => Kind::Connect,
            (b"CONNECT", b"websocket") => Kind::WebSocket,
            (b"CONNECT", _) => Kind::UnknownProtocol,
            _ => Kind::Exchange,
        }
    }

    /// Whether the method is HEAD, which determines the framing of the response.
    pub(super) fn is_head(&self) -> bool {
        self.method == b"HEAD"
    }

    /// Returns the header lines of the trailer section.
    pub(super) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Appends the request as one of HTTP/1.1; `ends` tells that no body follows. Returns the
    /// framing of the body.
    pub(super) fn write_request(&self, ends: bool, out: &mut Vec<u8>) -> Framing {
        self.write_request_line(&self.method, out);
        out.extend_from_slice(&self.lines);
        let framing = match (ends, self.declares_length) {
            (true, _) => Framing::Nothing,
            (false, true) => Framing::Plain,
            (false, false) => Framing::Chunked,
        };
        if framing == Framing::Chunked {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        out.extend_from_slice(b"\r\n");
        framing
    }

    /// Appends a WebSocket request in the form of HTTP/1.1 (RFC 8441 §5); the bytes that follow are
    /// not framed.
    pub(super) fn write_upgrade(&self, handshake: &Handshake, out: &mut Vec<u8>) -> Framing {
        self.write_request_line(b"GET", out);
        out.extend_from_slice(b"connection: Upgrade\r\nupgrade: websocket\r\n");
        write_line(out, b"sec-websocket-key", handshake.key());
        for line in self.lines.split_inclusive(|&byte| byte == b'\n') {
            // The request has no body, and the gateway sends its own key.
            let is_of_gateway =
                [CONTENT_LENGTH, b"sec-websocket-key:"].iter().any(|start| line.starts_with(start));
            if !is_of_gateway {
                out.extend_from_slice(line);
            }
        }
        out.extend_from_slice(b"\r\n");
        Framing::Plain
    }

    /// Appends the request line that the log shows of a refused CONNECT request.
    pub(super) fn write_refused(&self, out: &mut Vec<u8>) -> Framing {
        let target = if self.path.is_empty() { &self.authority } else { &self.path };
        for part in [&*self.method, b" ", target, b" HTTP/2.0\r\n\r\n"] {
            out.extend_from_slice(part);
        }
        Framing::Plain
    }

    fn write_request_line(&self, method: &[u8], out: &mut Vec<u8>) {
        let host = if self.authority.is_empty() { &self.host } else { &self.authority };
        for part in [method, b" ", &self.path, b" HTTP/1.1\r\n"] {
            out.extend_from_slice(part);
        }
        write_line(out, b"host", host);
        if !self.cookie.is_empty() {
            write_line(out, b"cookie", &self.cookie);
        }
    }

    /// Appends the final head of a response in the form of HTTP/1.1. `ends` tells that no body
    /// follows, `asked_head` that the request method was HEAD. Returns the framing of the body.
    pub(super) fn write_response(
        &self,
        status: u16,
        ends: bool,
        asked_head: bool,
        out: &mut Vec<u8>,
    ) -> Framing {
        write_status_line(status, out);
        // Only a chunked body can have trailers, and gRPC sends its status in them.
        let is_grpc = self.has_line(b"content-type: application/grpc");
        let has_length = self.declares_length && (ends || !is_grpc);
        for line in self.lines.split_inclusive(|&byte| byte == b'\n') {
            if has_length || !line.starts_with(CONTENT_LENGTH) {
                out.extend_from_slice(line);
            }
        }
        let is_bodiless = asked_head || matches!(status, 204 | 304);
        let framing = match (ends || is_bodiless, has_length) {
            (true, _) => Framing::Nothing,
            (false, true) => Framing::Plain,
            (false, false) => Framing::Chunked,
        };
        if framing == Framing::Chunked {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
        } else if !has_length && !is_bodiless {
            write_line(out, b"content-length", b"0");
        }
        out.extend_from_slice(b"\r\n");
        framing
    }

    /// Appends an interim (1xx) response in the form of HTTP/1.1.
    pub(super) fn write_interim(&self, status: u16, out: &mut Vec<u8>) -> Framing {
        write_status_line(status, out);
        out.extend_from_slice(&self.lines);
        out.extend_from_slice(b"\r\n");
        Framing::Nothing
    }

    /// Whether a header line begins with `start`.
    fn has_line(&self, start: &[u8]) -> bool {
        self.lines.split(|&byte| byte == b'\n').any(|line| line.starts_with(start))
    }

    /// Releases capacity that an unusually long message has taken.
    pub(super) fn shrink(&mut self) {
        for text in [&mut self.cookie, &mut self.lines, &mut self.path] {
            text.clear();
            text.shrink_to(ROOM_KEPT_BYTES_MAX);
        }
    }
}
