//! gRPC of a mock: calls are answered with the messages that came, whatever their type.
//!
//! Nothing is decoded: an echo needs no descriptor, and a message in which the reply's text has the number
//! of the request's is understood by the client.

use bytes::{Buf, Bytes, BytesMut};
use tollhouse_h2::Field;

use super::behaviour::{Grpc, GrpcAnswer};
use super::choice::Verdict;
use super::worker::Worker;

/// Longest message: the usual limit of clients and servers.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes in front of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Calls have this content type, or one that begins so.
const CONTENT_TYPE: &[u8] = b"application/grpc";

/// `RESOURCE_EXHAUSTED`: a message is too long.
const TOO_LONG: u8 = 8;

/// `INTERNAL`: an injected error, or a call that breaks off within a message.
pub(super) const INTERNAL: u8 = 13;

/// Whether a request with this `content-type` is a call of gRPC; `application/grpc-web` is another
/// protocol.
pub(super) fn is_call(kind: Option<&[u8]>) -> bool {
    let rest = kind.and_then(|kind| kind.strip_prefix(CONTENT_TYPE));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// The decimal digits of a status.
pub(super) fn digits(status: u8) -> String {
    status.to_string()
}

/// The fields that end a call.
pub(super) fn trailers(digits: &str, status: u8) -> impl Iterator<Item = Field<'_>> {
    let message = (status != 0).then(|| Field::new(b"grpc-message", b"asked of the mock"));
    std::iter::once(Field::new(b"grpc-status", digits.as_bytes())).chain(message)
}

/// A call that is being answered. The latency is that of the answer's head; messages after it pass as
/// they come.
#[derive(Debug)]
pub(super) struct Call {
    /// What becomes of it.
    pub(super) verdict: Verdict,
    /// Its `grpc-encoding`.
    pub(super) encoding: Option<Vec<u8>>,
    /// What came and was not sent back.
    pub(super) messages: Messages,
    /// The message that came last, where only that is answered.
    last: Option<Bytes>,
}

/// What a call does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It sends a message, so many times.
    Send(Bytes, u32),
    /// It waits for the client.
    Wait,
    /// It ends with a status.
    End(u8),
}

impl Call {
    pub(super) fn new(worker: &Worker, encoding: Option<Vec<u8>>) -> Self {
        Self { verdict: worker.verdict(), encoding, messages: Messages::default(), last: None }
    }

    /// What to do next; `has_ended` says that the client sends no more.
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

/// Cuts the bytes of a call into messages, prefixes included.
#[derive(Debug, Default)]
pub(super) struct Messages {
    bytes: BytesMut,
}

/// A message is longer than [`MESSAGE_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
struct MessageTooLong;

impl Messages {
    pub(super) fn feed(&mut self, data: &[u8]) {
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
            assert_eq!(is_call(Some(kind.as_bytes())), is, "{kind}");
        }
    }
}
