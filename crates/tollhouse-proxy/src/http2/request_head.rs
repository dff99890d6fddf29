//! Opens a stream towards a node with a head that is written as one of HTTP/1.1.

use std::io::{self, ErrorKind};

use tollhouse_h2::{Connection, Field, RequestLine, SendError, StreamId};
use tollhouse_http::{Field as Line, Known, RequestHead};

use super::outbound::{HEAD, Outbound};
use crate::grpc;

/// A stream that was opened.
pub(super) struct Asked {
    pub(super) stream: StreamId,
    /// What takes the body.
    pub(super) outbound: Outbound,
    pub(super) head_bytes: usize,
}

/// Opens a stream with the head that `input` begins with; `head` is room to take it apart.
///
/// # Errors
/// `ConnectionRefused` where the peer takes no stream now; `InvalidData` where the bytes are no whole
/// head, or one that HTTP/2 has no form for.
pub(super) fn open(
    codec: &mut Connection,
    head: &mut RequestHead,
    input: &[u8],
    is_encrypted: bool,
) -> io::Result<Asked> {
    head.reset();
    let is_whole = head.parse(input, &HEAD).map_err(|_| ErrorKind::InvalidData)?;
    if !is_whole {
        return Err(ErrorKind::InvalidData.into());
    }
    let method = head.method.bytes_in(input);
    let path = head.origin_form(input);
    let line = RequestLine {
        method,
        scheme: if is_encrypted { b"https" } else { b"http" },
        authority: head.authority.bytes_in(input),
        path: &path,
        protocol: b"",
    };
    let content_type = head.fields.first(Known::ContentType);
    let is_grpc = content_type.is_some_and(|kind| grpc::is_content_type(kind.bytes_in(input)));
    let fields = head.fields.visible().filter(|line| match line.known {
        Known::Host | Known::Expect => false,
        known => !known.is_hop_by_hop(),
    });
    // What comes of a call stands in its trailers, which some servers send to none that does not ask.
    let trailers = is_grpc.then(|| Field::new(b"te", b"trailers"));
    let fields = fields.map(|line| field(line, input)).chain(trailers);
    let outbound = Outbound::request(head.body, method == b"HEAD");
    let stream = codec.open(&line, fields, outbound.is_ended()).map_err(|error| match error {
        SendError::NoStream | SendError::Closed => ErrorKind::ConnectionRefused,
        SendError::Field(_) | SendError::OutOfOrder => ErrorKind::InvalidData,
    })?;
    Ok(Asked { stream, outbound, head_bytes: head.head_bytes })
}

fn field<'b>(line: &Line, bytes: &'b [u8]) -> Field<'b> {
    let name = line.name().bytes_in(bytes);
    let value = line.value().bytes_in(bytes);
    // The table is shared by all clients: what one of them must not guess of another's does not enter
    // it (RFC 7541 §7.1.3).
    match line.known {
        Known::Authorization | Known::Cookie => Field::sensitive(name, value),
        _ => Field::new(name, value),
    }
}
