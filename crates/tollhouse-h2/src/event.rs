//! What a connection reports of the bytes it was fed, and where the fields of heads go.

use crate::field::Field;
use crate::message::HeadKind;
use crate::{ErrorCode, StreamId};

/// Something that the peer did. DATA borrows from the bytes that were fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// At a server: a new stream, whose head the sink has. The application holds the stream until it
    /// releases it.
    Request {
        /// The stream.
        stream: StreamId,
        /// Whether no DATA follows.
        ends: bool,
    },
    /// At a client: the final head of a response, whose fields the sink has.
    Response {
        /// The stream.
        stream: StreamId,
        /// 200 to 999.
        status: u16,
        /// Whether no DATA follows.
        ends: bool,
    },
    /// At a client: an interim response, 100 to 199 but 101; another follows.
    Interim {
        /// The stream.
        stream: StreamId,
        /// 100 to 199.
        status: u16,
    },
    /// A piece of a body, to be given back by [`crate::Connection::consume`] when it has been dealt
    /// with. Empty only where it ends the body.
    Data {
        /// The stream.
        stream: StreamId,
        /// The bytes, without padding.
        data: &'a [u8],
        /// Whether the message is complete.
        ends: bool,
    },
    /// The fields behind a body, which the sink has; the message is complete.
    Trailers {
        /// The stream.
        stream: StreamId,
    },
    /// Both directions of a stream ended early. It is still to be released.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The code of RST_STREAM.
        code: ErrorCode,
        /// Who ended it.
        cause: ResetCause,
    },
    /// The peer will not deal with streams of ours above `last_stream`: they are over, to be released,
    /// and safe to be sent elsewhere (RFC 9113 §6.8).
    GoAway {
        /// The highest stream that the peer deals with.
        last_stream: u32,
        /// Why.
        code: ErrorCode,
    },
    /// The peer's settings changed.
    Settings,
    /// The answer to a PING of ours.
    Pong {
        /// What the PING carried.
        payload: [u8; 8],
    },
}

/// Who ended a stream early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetCause {
    /// The peer sent RST_STREAM.
    Peer,
    /// The peer broke a rule, and was sent RST_STREAM.
    Fault,
    /// The peer opened no window in time, and was sent RST_STREAM.
    Stall,
    /// The budget of the process had no room for the stream's unread bytes, and the peer was sent RST_STREAM.
    Memory,
}

/// Where the fields of heads and trailers go, one by one, so that the caller can lay them out as it
/// likes.
///
/// What was handed in counts only once the event of the head comes: a message that turns out to be
/// malformed has none, and its fields are to be forgotten at the next [`FieldSink::begin`].
pub trait FieldSink {
    /// A head or trailers of `stream` begin.
    fn begin(&mut self, stream: StreamId, kind: HeadKind);

    /// The next field. Pseudo-header fields come first; which have been checked, as have all others.
    fn field(&mut self, field: Field<'_>);
}

/// For callers that want no fields.
impl FieldSink for () {
    fn begin(&mut self, _: StreamId, _: HeadKind) {}
    fn field(&mut self, _: Field<'_>) {}
}
