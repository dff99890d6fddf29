//! The events a connection reports, and the receiver of header fields.

use crate::field::Field;
use crate::message::HeadKind;
use crate::{ErrorCode, StreamId};

/// Something the peer did. DATA borrows from the input bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A server received a new stream; its head has been passed to the sink. The application holds
    /// the stream until it releases it.
    Request {
        /// Stream that the peer opened.
        stream: StreamId,
        /// Whether the message has no DATA (END_STREAM).
        ends: bool,
    },
    /// A client received the final head of a response; its fields have been passed to the sink.
    Response {
        /// Stream of the request.
        stream: StreamId,
        /// Final status, 200 to 999.
        status: u16,
        /// Whether the message has no DATA (END_STREAM).
        ends: bool,
    },
    /// A client received an interim response: 100 to 199 except 101. Another response follows.
    Interim {
        /// Stream of the request.
        stream: StreamId,
        /// Interim status, 100 to 199.
        status: u16,
    },
    /// A piece of a body. Call [`crate::Connection::consume`] once it is processed. Empty only at
    /// the end of a body.
    Data {
        /// Stream of the message.
        stream: StreamId,
        /// Payload without padding.
        data: &'a [u8],
        /// Whether this piece is the last of the message (END_STREAM).
        ends: bool,
    },
    /// The trailers of a message, which is now complete; their fields have been passed to the sink.
    Trailers {
        /// Stream of the message.
        stream: StreamId,
    },
    /// Both directions of a stream ended early. The stream must still be released.
    Reset {
        /// Stream that ended.
        stream: StreamId,
        /// Error code that the RST_STREAM frame carries.
        code: ErrorCode,
        /// Side and reason of the reset.
        cause: ResetCause,
    },
    /// The peer will not process our streams above `last_stream`: they have ended, must be
    /// released, and can safely be retried elsewhere (RFC 9113 §6.8).
    GoAway {
        /// The highest stream the peer processes.
        last_stream: u32,
        /// The reason given by the peer.
        code: ErrorCode,
    },
    /// The peer's settings changed, such as the window size or the number of streams.
    Settings,
    /// The reply to one of our PINGs.
    Pong {
        /// Payload of the PING that was answered, as sent.
        payload: [u8; 8],
    },
}

/// Why a stream ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetCause {
    /// The peer sent a RST_STREAM frame.
    Peer,
    /// The peer broke a rule and was sent RST_STREAM.
    Fault,
    /// The peer did not open a window in time and was sent RST_STREAM.
    Stall,
    /// The process's budget had no room for the stream's unread bytes; the peer was sent
    /// RST_STREAM.
    Memory,
}

/// Receives the fields of heads and trailers one by one, so that the caller can store them in any
/// form.
///
/// Fields only count once the event for their head arrives. A malformed message produces no such
/// event; discard its fields at the next [`FieldSink::begin`].
pub trait FieldSink {
    /// Begins a head or trailers of `stream`.
    fn begin(&mut self, stream: StreamId, kind: HeadKind);

    /// Receives the next field, which has been checked. Pseudo-header fields come first.
    fn field(&mut self, field: Field<'_>);
}

/// Sink that ignores all fields.
impl FieldSink for () {
    fn begin(&mut self, _: StreamId, _: HeadKind) {}
    fn field(&mut self, _: Field<'_>) {}
}
