//! Opens a stream to a node with a head in the form of HTTP/1.1.

use std::io::{self, ErrorKind};

use tollhouse_h2::{Connection, Field, RequestLine, SendError, StreamId};
use tollhouse_http::{Field as Line, Known, RequestHead};

use super::outbound::{HEAD, Outbound};
use crate::grpc;

/// A stream opened for a request.
pub(super) struct OpenedRequest {
    pub(super) stream: StreamId,
    /// Send half of the stream, for the body.
    pub(super) outbound: Outbound,
    pub(super) head_bytes: usize,
}

/// Opens a stream with the head at the start of `input`; `head` is scratch memory for parsing.
///
/// # Errors
/// `ConnectionRefused` if the peer accepts no stream now. `InvalidData` if the head is incomplete,
/// invalid, or cannot be expressed in HTTP/2.
pub(super) fn open(
    codec: &mut Connection,
    head: &mut RequestHead,
    input: &[u8],
    is_encrypted: bool,
) -> io::Result<OpenedRequest> {
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
    // gRPC sends its status in trailers, and some servers omit them unless the request asks for
    // trailers.
    let trailers = is_grpc.then(|| Field::new(b"te", b"trailers"));
    let fields = fields.map(|line| field(line, input)).chain(trailers);
    let outbound = Outbound::request(head.body, method == b"HEAD");
    let stream =
        codec.open(&line, fields, outbound.is_ended().into()).map_err(|error| match error {
            SendError::NoStream | SendError::Closed => ErrorKind::ConnectionRefused,
            SendError::Field(_) | SendError::OutOfOrder => ErrorKind::InvalidData,
        })?;
    Ok(OpenedRequest { stream, outbound, head_bytes: head.head_bytes })
}

fn field<'b>(line: &Line, bytes: &'b [u8]) -> Field<'b> {
    let name = line.name().bytes_in(bytes);
    let value = line.value().bytes_in(bytes);
    // The compression table is shared by all clients of the connection. Secrets are kept out of it,
    // so that another client cannot guess them (RFC 7541 §7.1.3).
    match line.known {
        Known::Authorization | Known::Cookie => Field::sensitive(name, value),
        _ => Field::new(name, value),
    }
}
