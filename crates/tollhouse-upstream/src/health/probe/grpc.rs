//! Probe by gRPC's health checking protocol (`grpc.health.v1.Health/Check`): one call, whose
//! response is converted to an HTTP status for the thresholds.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::task::{Context, Poll, ready};

use tollhouse_h2::driver::{Application, End, Session, Transport};
use tollhouse_h2::field::FieldKind;
use tollhouse_h2::{
    Connection, EndStream, Event, Field, FieldSink, HeadKind, Limits, RequestLine, StreamId,
};
use tollhouse_net::Stream;
use tollhouse_stdx::MemoryBudget;

use super::ProbeOutcome;

/// Maximum number of body bytes kept of a response. The message needs seven, including its prefix.
const ANSWER_BYTES_MAX: usize = 64;
/// Length of a message's prefix: the compression flag and four bytes of length.
const PREFIX_BYTES: usize = 5;
/// Size of the read buffer in bytes.
const READ_BYTES: usize = 4 * 1024;

/// Asks whether `service` is serving; an empty name means the whole server.
///
/// # Errors
/// If the node breaks the connection or does not speak HTTP/2.
pub(super) async fn check(
    stream: &mut Stream,
    authority: &str,
    service: &str,
) -> io::Result<ProbeOutcome> {
    // Windows do not need to grow in such a short exchange, so the budget is empty.
    let mut codec = Connection::client(Limits::default(), &MemoryBudget::new(0), 0);
    let line = RequestLine {
        method: b"POST",
        scheme: if stream.is_encrypted() { b"https" } else { b"http" },
        authority: authority.as_bytes(),
        path: b"/grpc.health.v1.Health/Check",
        protocol: b"",
    };
    let fields = [
        Field::new(b"content-type", b"application/grpc"),
        Field::new(b"te", b"trailers"),
        Field::new(b"user-agent", b"tollhouse"),
    ];
    let stream_id = codec.open(&line, fields, EndStream::No).map_err(io::Error::other)?;
    let message = request(service);
    if codec.send_data(stream_id, &message, EndStream::Yes).map_err(io::Error::other)?
        < message.len()
    {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the name of the service is too long"));
    }
    let session = Session::new(codec, Answer::default());
    let mut socket = NodeSocket { stream, buffer: [0; READ_BYTES] };
    poll_fn(move |context| {
        let end = session.poll_turn(context, &mut socket);
        session.with(|_, answer| answer.result(end))
    })
    .await
}

/// Encodes `HealthCheckRequest { service = 1 }` with its message prefix.
fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), &message].concat()
}

struct NodeSocket<'a> {
    stream: &'a mut Stream,
    buffer: [u8; READ_BYTES],
}

impl Transport for NodeSocket<'_> {
    fn poll_read<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        let read = ready!(self.stream.poll_read(context, &mut self.buffer))?;
        Poll::Ready(Ok(take(&self.buffer[..read])))
    }

    fn poll_write(&mut self, context: &mut Context<'_>, output: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_write(context, &[IoSlice::new(output)])
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(context)
    }
}

#[derive(Debug, Default)]
struct Answer {
    http_status: u16,
    grpc_status: Option<u16>,
    body: Vec<u8>,
    is_complete: bool,
    is_refused: bool,
}

impl Application for Answer {
    type Fields = Self;

    fn fields(&mut self) -> &mut Self {
        self
    }

    /// Returns 0 as the time, because the probe's timeout is the only deadline.
    fn received(&mut self, _: usize) -> u64 {
        0
    }

    fn event(&mut self, codec: &mut Connection, event: Event<'_>) {
        match event {
            Event::Response { status, ends, .. } => {
                self.http_status = status;
                self.is_complete |= ends;
            }
            Event::Data { stream, data, ends } => {
                self.take(data);
                codec.consume(stream, data.len());
                self.is_complete |= ends;
            }
            Event::Trailers { .. } => self.is_complete = true,
            Event::Reset { .. } | Event::GoAway { last_stream: 0, .. } => self.is_refused = true,
            _ => {}
        }
    }

    /// Does nothing, because the whole request has been sent.
    fn send(&mut self, _: &mut Connection, _: StreamId) {}
}

impl FieldSink for Answer {
    fn begin(&mut self, _: StreamId, _: HeadKind) {}

    fn field(&mut self, field: Field<'_>) {
        if field.kind == FieldKind::Regular && field.name == b"grpc-status" {
            let text = std::str::from_utf8(field.value).unwrap_or_default();
            // A status that is not a number counts as an unknown status.
            self.grpc_status = Some(text.parse().unwrap_or(u16::MAX));
        }
    }
}

impl Answer {
    /// Returns the result of the probe, once it is known; `end` is the state of the connection.
    fn result(&self, end: Poll<End>) -> Poll<io::Result<ProbeOutcome>> {
        if self.is_complete {
            return Poll::Ready(Ok(self.outcome()));
        }
        if self.is_refused {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        end.map(|end| match end {
            End::Broken(error) => Err(error),
            End::Fault(error) => Err(io::Error::other(error)),
            End::Closed | End::Finished => Err(ErrorKind::UnexpectedEof.into()),
        })
    }

    fn take(&mut self, data: &[u8]) {
        let room = ANSWER_BYTES_MAX - self.body.len();
        self.body.extend_from_slice(&data[..data.len().min(room)]);
    }

    fn outcome(&self) -> ProbeOutcome {
        ProbeOutcome::Answered(match (self.http_status, self.grpc_status) {
            (200, Some(0)) => serving_status(&self.body),
            (200, Some(status)) => http_status(status),
            // The node speaks HTTP/2 but not gRPC.
            (200, None) => 502,
            (status, _) => status,
        })
    }
}

/// Returns the HTTP status equivalent to the message `HealthCheckResponse { status = 1 }`.
fn serving_status(body: &[u8]) -> u16 {
    const SERVING: u8 = 1;
    const SERVICE_UNKNOWN: u8 = 3;
    match body.get(PREFIX_BYTES..) {
        Some([0x08, SERVING, ..]) if body[0] == 0 => 200,
        Some([0x08, SERVICE_UNKNOWN, ..]) if body[0] == 0 => 404,
        _ => 503,
    }
}

/// Returns the HTTP status equivalent to a gRPC status (`google.rpc.Code`).
fn http_status(grpc: u16) -> u16 {
    match grpc {
        1 => 499,
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_request_names_its_service() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("a.B"), [0, 0, 0, 0, 5, 0x0a, 3, b'a', b'.', b'B']);
        assert_eq!(request(&"x".repeat(200))[..8], [0, 0, 0, 0, 203, 0x0a, 0xc8, 1]);
    }

    /// Answers one call with these fields, body and trailers.
    async fn node(
        mut tcp: TcpStream,
        status: u16,
        fields: &[(&str, &str)],
        body: Option<&[u8]>,
        trailers: &[(&str, &str)],
    ) {
        fn pairs<'f>(fields: &'f [(&str, &str)]) -> impl Iterator<Item = Field<'f>> {
            fields.iter().map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes()))
        }
        let mut codec = Connection::server(Limits::default(), &MemoryBudget::new(0), 0);
        let mut buffer = [0; READ_BYTES];
        let mut asked = None;
        loop {
            let read = tcp.read(&mut buffer).await.unwrap();
            if read == 0 {
                return;
            }
            let mut input = &buffer[..read];
            while let Some(event) = codec.receive(&mut input, 0, &mut ()).unwrap() {
                match event {
                    Event::Request { stream, .. } => asked = Some(stream),
                    Event::Data { ends: true, .. } => {
                        let stream = asked.unwrap();
                        codec
                            .respond(stream, status, pairs(fields), body.is_none().into())
                            .unwrap();
                        if let Some(body) = body {
                            codec.send_data(stream, body, EndStream::No).unwrap();
                            codec.send_trailers(stream, pairs(trailers)).unwrap();
                        }
                    }
                    _ => {}
                }
            }
            tcp.write_all(codec.output()).await.unwrap();
            codec.written(codec.output().len());
        }
    }

    #[tokio::test]
    async fn answers_mean_what_thresholds_count() {
        type Fields = &'static [(&'static str, &'static str)];
        /// Status and fields of the head, body, trailers, and the expected outcome.
        type Case = (u16, Fields, Option<&'static [u8]>, Fields, u16);
        let ok: Fields = &[("grpc-status", "0")];
        let cases: [Case; 8] = [
            (200, &[], Some(&[0, 0, 0, 0, 2, 8, 1]), ok, 200),
            (200, &[], Some(&[0, 0, 0, 0, 2, 8, 2]), ok, 503),
            (200, &[], Some(&[0, 0, 0, 0, 2, 8, 3]), ok, 404),
            (200, &[], Some(&[0, 0, 0, 0, 0]), ok, 503),
            (200, &[("grpc-status", "12")], None, &[], 501),
            (200, &[("grpc-status", "14")], None, &[], 503),
            (200, &[], None, &[], 502),
            (404, &[], None, &[], 404),
        ];
        for (status, fields, body, trailers, expected) in cases {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(async move {
                let (tcp, _) = listener.accept().await.unwrap();
                node(tcp, status, fields, body, trailers).await;
            });
            let mut stream = tollhouse_net::connect::connect(address).await.unwrap();
            let outcome = check(&mut stream, "a.example", "").await.unwrap();
            assert_eq!(outcome, ProbeOutcome::Answered(expected));
            server.abort();
        }
    }

    #[tokio::test]
    async fn a_node_of_http_1_is_a_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut tcp, _) = listener.accept().await.unwrap();
            tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            let _ = tcp.read(&mut [0; READ_BYTES]).await;
        });
        let mut stream = tollhouse_net::connect::connect(address).await.unwrap();
        assert!(check(&mut stream, "a.example", "").await.is_err());
        server.abort();
    }
}
