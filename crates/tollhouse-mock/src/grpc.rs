//! gRPC of a mock: calls are answered with the messages that came, whatever their type.
//!
//! Nothing is decoded: an echo needs no descriptor, and a message in which the reply's text has the number
//! of the request's is understood by the client.

use std::rc::Rc;

use bytes::{Buf, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};

use super::behaviour::{Grpc, GrpcAnswer};
use super::choice::Verdict;
use super::http2::send_data;
use super::worker::Worker;

/// Longest message: the usual limit of clients and servers.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes in front of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Calls have this content type, or one that begins so.
const CONTENT_TYPE: &[u8] = b"application/grpc";

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// `RESOURCE_EXHAUSTED`: a message is too long.
const TOO_LONG: u8 = 8;

/// `INTERNAL`: an injected error, or a call that breaks off within a message.
const INTERNAL: u8 = 13;

/// Whether a request is a call of gRPC; `application/grpc-web` is another protocol.
pub(super) fn is_call<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(CONTENT_TYPE));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// Answers a call. The latency is that of the answer's head; messages after it pass as they come.
pub(super) async fn call(
    worker: Rc<Worker>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let verdict = worker.verdict();
    if worker.until(worker.due_ns()).await.is_err() {
        return;
    }
    let ended = match verdict {
        Verdict::Reset => {
            worker.counts().resets.add_one();
            respond.send_reset(Reason::INTERNAL_ERROR);
            return;
        }
        Verdict::Error => {
            worker.counts().errors.add_one();
            refuse(&request, &mut respond, INTERNAL)
        }
        Verdict::Answer(_) if worker.shared.grpc.status != 0 => {
            refuse(&request, &mut respond, worker.shared.grpc.status)
        }
        Verdict::Answer(_) => echo(worker.shared.grpc, request, &mut respond).await,
    };
    // What fails here is a stream that the client has given up.
    drop(ended);
}

/// Ends a call with a status and nothing else.
fn refuse(
    request: &Request<RecvStream>,
    respond: &mut SendResponse<Bytes>,
    status: u8,
) -> Result<(), h2::Error> {
    let mut response = head(request);
    response.headers_mut().extend(trailers(status));
    respond.send_response(response, true).map(drop)
}

/// The head of an answer: the type and the compression of the call, since its messages come back.
fn head(request: &Request<RecvStream>) -> Response<()> {
    let mut response = Response::new(());
    for name in [header::CONTENT_TYPE, GRPC_ENCODING] {
        if let Some(value) = request.headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

fn trailers(status: u8) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, HeaderValue::from(u16::from(status)));
    if status != 0 {
        trailers.insert(GRPC_MESSAGE, HeaderValue::from_static("asked of the mock"));
    }
    trailers
}

async fn echo(
    grpc: Grpc,
    request: Request<RecvStream>,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let mut stream = respond.send_response(head(&request), false)?;
    let status = relay(grpc, request.into_body(), &mut stream).await?;
    stream.send_trailers(trailers(status))
}

/// Sends back what comes; tells the status of the call.
async fn relay(
    grpc: Grpc,
    mut body: RecvStream,
    stream: &mut SendStream<Bytes>,
) -> Result<u8, h2::Error> {
    let mut messages = Messages::default();
    let mut last = None;
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        messages.feed(&data);
        while let Some(message) = match messages.next() {
            Ok(message) => message,
            Err(MessageTooLong) => return Ok(TOO_LONG),
        } {
            match grpc.answer {
                GrpcAnswer::Each => repeat(stream, &message, grpc.repeat).await?,
                GrpcAnswer::Last => last = Some(message),
            }
        }
    }
    if let Some(message) = last {
        repeat(stream, &message, grpc.repeat).await?;
    }
    Ok(if messages.is_between() { 0 } else { INTERNAL })
}

async fn repeat(
    stream: &mut SendStream<Bytes>,
    message: &Bytes,
    times: u32,
) -> Result<(), h2::Error> {
    for _ in 0..times {
        send_data(stream, message.clone()).await?;
    }
    Ok(())
}

/// Cuts the bytes of a call into messages, prefixes included.
#[derive(Debug, Default)]
struct Messages {
    bytes: BytesMut,
}

/// A message is longer than [`MESSAGE_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
struct MessageTooLong;

impl Messages {
    fn feed(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// The next whole message.
    fn next(&mut self) -> Result<Option<Bytes>, MessageTooLong> {
        let Some(mut prefix) = self.bytes.get(..PREFIX_BYTES) else { return Ok(None) };
        prefix.advance(1);
        let length = usize::try_from(prefix.get_u32()).unwrap_or(usize::MAX);
        if length > MESSAGE_BYTES_MAX {
            return Err(MessageTooLong);
        }
        if self.bytes.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        Ok(Some(self.bytes.split_to(PREFIX_BYTES + length).freeze()))
    }

    /// Whether no part of a message is left over.
    fn is_between(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_their_bytes_are_split() {
        let bytes = b"\0\0\0\0\x02ab\0\0\0\0\0\x01\0\0\0\x01c";
        for size in 1..=bytes.len() {
            let mut messages = Messages::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                messages.feed(piece);
                while let Some(message) = messages.next().expect("short") {
                    found.push(message);
                }
            }
            assert_eq!(found, [&bytes[..7], &bytes[7..12], &bytes[12..]], "{size}");
            assert!(messages.is_between());
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_by_its_prefix() {
        let mut messages = Messages::default();
        messages.feed(&[0, 0xff, 0, 0, 0]);
        assert_eq!(messages.next(), Err(MessageTooLong));
        assert!(!messages.is_between());
    }

    #[test]
    fn calls_are_known_by_their_content_type() {
        for (kind, is) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            let request = Request::builder().header("content-type", kind).body(());
            assert_eq!(is_call(&request.expect("valid")), is, "{kind}");
        }
    }
}
