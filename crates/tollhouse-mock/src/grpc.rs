//! gRPC in a mock: calls are answered with the received messages, whatever their type.
//!
//! Messages are not decoded, because an echo needs no descriptor. The client understands the
//! response if the text field of the response type has the number of the text field of the request
//! type.

use bytes::{Buf, Bytes, BytesMut};
use tollhouse_h2::Field;

use super::behaviour::{Grpc, GrpcAnswer};
use super::choice::Verdict;
use super::worker::Worker;

/// Maximum message length: the usual limit of clients and servers.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Length of the message prefix: compression flag and length.
const PREFIX_BYTES: usize = 5;

/// Prefix of the content type of calls.
const CONTENT_TYPE: &[u8] = b"application/grpc";

/// Status `RESOURCE_EXHAUSTED`, for a message that is too long.
const TOO_LONG: u8 = 8;

/// Status `INTERNAL`, for an injected error or a call that ends within a message.
pub(super) const INTERNAL: u8 = 13;

/// Whether a request with this `content-type` is a gRPC call; `application/grpc-web` is another
/// protocol.
pub(super) fn is_call(kind: Option<&[u8]>) -> bool {
    let rest = kind.and_then(|kind| kind.strip_prefix(CONTENT_TYPE));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

pub(super) fn digits(status: u8) -> String {
    status.to_string()
}

/// Returns the trailers that end a call.
pub(super) fn trailers(digits: &str, status: u8) -> impl Iterator<Item = Field<'_>> {
    let message = (status != 0).then(|| Field::new(b"grpc-message", b"asked of the mock"));
    std::iter::once(Field::new(b"grpc-status", digits.as_bytes())).chain(message)
}

/// A call in progress. The latency applies to the head of the response; messages after it are not
/// delayed.
#[derive(Debug)]
pub(super) struct Call {
    /// Random decision about the call's response.
    pub(super) verdict: Verdict,
    pub(super) encoding: Option<Vec<u8>>,
    /// Received messages not yet sent back.
    pub(super) messages: Messages,
    /// Last received message, if only that is sent back.
    last: Option<Bytes>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send a message this many times.
    Send(Bytes, u32),
    Wait,
    End(u8),
}

impl Call {
    pub(super) fn new(worker: &Worker, encoding: Option<Vec<u8>>) -> Self {
        Self { verdict: worker.verdict(), encoding, messages: Messages::default(), last: None }
    }

    /// Determines the next step; `has_ended` tells that the client sends no more.
    pub(super) fn next(&mut self, grpc: Grpc, has_ended: bool) -> Step {
        loop {
            match (self.messages.next(), grpc.answer) {
                (Err(MessageTooLong), _) => return Step::End(TOO_LONG),
                (Ok(Some(message)), GrpcAnswer::Each) => return Step::Send(message, grpc.repeat),
                (Ok(Some(message)), GrpcAnswer::Last) => self.last = Some(message),
                (Ok(None), _) => break,
            }
        }
        if !has_ended {
            return Step::Wait;
        }
        match self.last.take() {
            Some(message) => Step::Send(message, grpc.repeat),
            None if self.messages.is_between() => Step::End(0),
            None => Step::End(INTERNAL),
        }
    }
}

/// Splits the bytes of a call into messages, including their prefixes.
#[derive(Debug, Default)]
pub(super) struct Messages {
    bytes: BytesMut,
}

/// Error for a message longer than [`MESSAGE_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
struct MessageTooLong;

impl Messages {
    pub(super) fn feed(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

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

    /// Whether no partial message is buffered.
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
            assert_eq!(is_call(Some(kind.as_bytes())), is, "{kind}");
        }
    }
}
