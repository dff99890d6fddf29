//! Parses the HTTP/1.1 message written to a stream and sends it as frames. Request heads, which
//! open a stream, are handled by `request_head`.
//!
//! The bytes come from the gateway's own writers. They are parsed nevertheless, so that all
//! responses pass the same checks.

use std::io::{self, ErrorKind, IoSlice};

use tollhouse_h2::{Connection, EndStream, Field, SendError, StreamId};
use tollhouse_http::{BodyLength, ChunkedDecoder, Field as Line, HeadLimits, Known, ResponseHead};

use super::websocket::Handshake;

/// Limits of a written head: those of the received head plus what the gateway adds.
pub(super) const HEAD: HeadLimits =
    HeadLimits { line_bytes: 16 * 1024, fields_bytes: 65_535, header_count: 256 };

/// Pending output in bytes above which further heads wait, because heads are not covered by
/// flow-control windows.
const HEADS_WAITING_BYTES_MAX: usize = 128 * 1024;

/// End of a chunked body directly after the data of its last chunk.
const CHUNK_END_AND_LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// Send half of a stream, which converts HTTP/1.1 bytes to frames.
#[derive(Debug)]
pub(super) struct Outbound {
    step: Step,
    /// Buffered bytes of an incomplete head.
    partial_head: Vec<u8>,
    /// Trailer lines after the last chunk.
    trailers: Vec<u8>,
    /// Whether the request method was HEAD.
    is_head: bool,
    /// Handshake state, if the client asked for a WebSocket.
    handshake: Option<Box<Handshake>>,
}

/// Part of the message that is written next.
#[derive(Debug)]
enum Step {
    Head,
    /// Body with this many bytes left.
    Length(u64),
    Chunked(ChunkedDecoder),
    /// END_STREAM has been sent; this many bytes of redundant chunk framing are skipped.
    Swallowing(usize),
    Tunnel,
    Ended,
}

/// Result of a write to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteResult {
    /// Number of bytes taken.
    Some(usize),
    /// No window is available; the codec reports the stream when that changes.
    Blocked,
    /// The socket must first take pending output.
    Crowded,
}

impl Outbound {
    /// Creates the send half of a response.
    pub(super) fn new(is_head: bool, handshake: Option<Box<Handshake>>) -> Self {
        let (partial_head, trailers) = (Vec::new(), Vec::new());
        Self { step: Step::Head, partial_head, trailers, is_head, handshake }
    }

    /// Creates the send half of a request whose head has been sent.
    pub(super) fn request(body: BodyLength, is_head: bool) -> Self {
        let step = match body {
            BodyLength::None | BodyLength::UntilClose => Step::Ended,
            BodyLength::Known(bytes) => Step::Length(bytes),
            BodyLength::Chunked => Step::Chunked(ChunkedDecoder::new()),
        };
        Self { step, partial_head: Vec::new(), trailers: Vec::new(), is_head, handshake: None }
    }

    /// Whether the request method was HEAD.
    pub(super) fn is_head(&self) -> bool {
        self.is_head
    }

    /// Returns the node's handshake, if the client asked for a WebSocket.
    pub(super) fn handshake(&self) -> Option<&Handshake> {
        self.handshake.as_deref()
    }

    /// Whether the complete message has been passed to the codec.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.step, Step::Ended | Step::Swallowing(_))
    }

    pub(super) fn is_tunnel(&self) -> bool {
        matches!(self.step, Step::Tunnel)
    }

    /// Takes bytes from `parts` in order.
    ///
    /// # Errors
    /// If the stream is closed, or the bytes are not a valid response.
    pub(super) fn write(
        &mut self,
        to: &mut Sender<'_>,
        parts: &[IoSlice<'_>],
    ) -> io::Result<WriteResult> {
        let mut taken = 0;
        for (index, part) in parts.iter().enumerate() {
            let mut rest = &part[..];
            while !rest.is_empty() {
                let next = parts.get(index + 1).map_or(&[][..], |next| next);
                match self.take(to, rest, next)? {
                    WriteResult::Some(bytes) => {
                        taken += bytes;
                        rest = &rest[bytes..];
                    }
                    other if taken == 0 => return Ok(other),
                    WriteResult::Blocked | WriteResult::Crowded => {
                        return Ok(WriteResult::Some(taken));
                    }
                }
            }
        }
        Ok(WriteResult::Some(taken))
    }

    /// Ends the write direction of a tunnel.
    ///
    /// # Errors
    /// If the stream is closed already.
    pub(super) fn shut_down(&mut self, to: &mut Sender<'_>) -> io::Result<()> {
        if let Step::Tunnel = self.step {
            to.data(&[], EndStream::Yes)?;
            self.step = Step::Ended;
        }
        Ok(())
    }

    /// Takes bytes from the front of `input`; `next` is the data that follows it.
    fn take(&mut self, to: &mut Sender<'_>, input: &[u8], next: &[u8]) -> io::Result<WriteResult> {
        match &mut self.step {
            Step::Head if to.codec.output().len() > HEADS_WAITING_BYTES_MAX => {
                Ok(WriteResult::Crowded)
            }
            Step::Head => self.take_head(to, input).map(WriteResult::Some),
            Step::Length(left) => {
                let input = &input[..input.len().min(usize::try_from(*left).unwrap_or(usize::MAX))];
                let sent = to.data(input, EndStream::from(input.len() as u64 == *left))?;
                *left -= sent as u64;
                if *left == 0 {
                    self.step = Step::Ended;
                }
                Ok(written(sent))
            }
            Step::Chunked(_) => self.take_chunks(to, input, next),
            Step::Swallowing(left) => {
                let bytes = input.len().min(*left);
                *left -= bytes;
                if *left == 0 {
                    self.step = Step::Ended;
                }
                Ok(WriteResult::Some(bytes))
            }
            Step::Tunnel => Ok(written(to.data(input, EndStream::No)?)),
            Step::Ended => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Parses and sends the head, once it is complete.
    fn take_head(&mut self, to: &mut Sender<'_>, input: &[u8]) -> io::Result<usize> {
        let partial_bytes = self.partial_head.len();
        let mut bytes = input;
        if partial_bytes > 0 {
            self.partial_head.extend_from_slice(input);
            bytes = &self.partial_head;
        }
        let head = &mut *to.head;
        head.reset();
        let method: &[u8] = if self.is_head { b"HEAD" } else { b"GET" };
        if !head.parse(bytes, &HEAD, method).map_err(invalid)? {
            if partial_bytes == 0 {
                self.partial_head.extend_from_slice(input);
            }
            return Ok(input.len());
        }
        let head_bytes = head.head_bytes;
        self.step = send_head(to, bytes, self.handshake.as_deref())?;
        self.partial_head = Vec::new();
        Ok(head_bytes - partial_bytes)
    }

    fn take_chunks(
        &mut self,
        to: &mut Sender<'_>,
        input: &[u8],
        next: &[u8],
    ) -> io::Result<WriteResult> {
        let Step::Chunked(decoder) = &mut self.step else { return Ok(WriteResult::Some(0)) };
        let is_trailer = decoder.is_in_trailers();
        let mut after = *decoder;
        let step = after.step(input).map_err(invalid)?;
        let data = &input[step.data.clone()];
        if data.is_empty() {
            *decoder = after;
            if is_trailer {
                self.trailers.extend_from_slice(&input[..step.consumed]);
            }
            if after.is_done() {
                to.end(&self.trailers)?;
                self.step = Step::Ended;
            }
            return Ok(WriteResult::Some(step.consumed));
        }
        // Usually the body ends directly after this data, so its last frame can carry END_STREAM.
        let behind = &input[step.consumed..];
        let is_here = !behind.is_empty();
        let behind = if is_here { behind } else { next };
        let ends = behind == CHUNK_END_AND_LAST_CHUNK && !after.is_inside_chunk();
        let sent = to.data(data, ends.into())?;
        if sent == data.len() && ends {
            self.step = Step::Swallowing(behind.len());
            return Ok(WriteResult::Some(step.consumed));
        }
        if sent == data.len() {
            *decoder = after;
            return Ok(WriteResult::Some(step.consumed));
        }
        // Advances the decoder up to the data that was sent, framing before it included.
        let step = decoder.step(&input[..step.data.start + sent]).map_err(invalid)?;
        Ok(written(step.consumed))
    }
}

pub(super) struct Sender<'a> {
    pub(super) codec: &'a mut Connection,
    pub(super) stream: StreamId,
    /// Scratch memory for parsing a head; one per connection.
    pub(super) head: &'a mut ResponseHead,
}

impl Sender<'_> {
    fn data(&mut self, data: &[u8], ends: EndStream) -> io::Result<usize> {
        self.codec.send_data(self.stream, data, ends).map_err(broken)
    }

    /// Ends the message; `section` is a trailer section with its final empty line.
    fn end(&mut self, section: &[u8]) -> io::Result<()> {
        let lines = section.split(|&byte| byte == b'\n').filter_map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let colon = memchr::memchr(b':', line)?;
            Some(Field::new(&line[..colon], line[colon + 1..].trim_ascii()))
        });
        let mut lines = lines.peekable();
        if lines.peek().is_none() {
            return self.data(&[], EndStream::Yes).map(drop);
        }
        self.codec.send_trailers(self.stream, lines).map_err(broken)
    }
}

/// Sends the head parsed from `bytes`; returns the next step.
fn send_head(to: &mut Sender<'_>, bytes: &[u8], handshake: Option<&Handshake>) -> io::Result<Step> {
    let head = &*to.head;
    let value = |known| head.fields.first(known).map(|span| span.bytes_in(bytes));
    let (status, step) = match (head.status, handshake) {
        (101, Some(handshake)) => {
            let accept = head.fields.find(b"sec-websocket-accept", bytes).unwrap_or_default();
            if !handshake.is_accepted(accept) {
                return refuse(to);
            }
            (200, Step::Tunnel)
        }
        (101, None) => return refuse(to),
        // A 2xx status would tell the client that the WebSocket is open.
        (200..300, Some(_)) => return refuse(to),
        (status, _) if status < 200 => (status, Step::Head),
        (status, _) => (
            status,
            match head.body {
                BodyLength::None => Step::Ended,
                BodyLength::Known(bytes) => Step::Length(bytes),
                BodyLength::Chunked => Step::Chunked(ChunkedDecoder::new()),
                BodyLength::UntilClose => Step::Tunnel,
            },
        ),
    };
    // A gRPC response without a body consists of trailers only, which may not declare a length.
    let is_grpc =
        value(Known::ContentType).is_some_and(|kind| kind.starts_with(b"application/grpc"));
    let is_upgrade = handshake.is_some() && matches!(step, Step::Tunnel);
    let hides_length = is_upgrade || (is_grpc && matches!(step, Step::Ended));
    let fields = head.fields.visible().filter(|line| match line.known {
        Known::ContentLength => !hides_length,
        known => !known.is_hop_by_hop(),
    });
    let fields = fields.map(|line| field(line, bytes));
    let fields = fields
        .filter(|field| !(is_upgrade && field.name.eq_ignore_ascii_case(b"sec-websocket-accept")));
    let ends = EndStream::from(matches!(step, Step::Ended));
    match to.codec.respond(to.stream, status, fields, ends) {
        Ok(()) => Ok(step),
        // A field that HTTP/1.1 permits and HTTP/2 does not.
        Err(SendError::Field(_)) => refuse(to),
        Err(error) => Err(broken(error)),
    }
}

/// Answers 502, because the client could not parse what was to be sent.
#[cold]
fn refuse(to: &mut Sender<'_>) -> io::Result<Step> {
    to.codec.respond(to.stream, 502, [], EndStream::Yes).map_err(broken)?;
    Err(ErrorKind::InvalidData.into())
}

fn field<'b>(line: &Line, bytes: &'b [u8]) -> Field<'b> {
    let name = line.name().bytes_in(bytes);
    let value = line.value().bytes_in(bytes);
    // Kept out of the compression table, from which secrets could be guessed (RFC 7541 §7.1.3).
    let is_sensitive = match line.known {
        Known::Authorization => true,
        Known::Other => name.eq_ignore_ascii_case(b"set-cookie"),
        _ => false,
    };
    if is_sensitive { Field::sensitive(name, value) } else { Field::new(name, value) }
}

fn written(bytes: usize) -> WriteResult {
    if bytes == 0 { WriteResult::Blocked } else { WriteResult::Some(bytes) }
}

fn broken(_: SendError) -> io::Error {
    ErrorKind::BrokenPipe.into()
}

fn invalid<E>(_: E) -> io::Error {
    ErrorKind::InvalidData.into()
}
