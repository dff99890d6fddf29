//! Transport of an exchange's bytes: a socket, or an HTTP/2 stream behind the interface of a
//! socket.
//!
//! An enum rather than a trait object, because the socket variant is the hot path and costs one
//! branch.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use tollhouse_net::Stream;
use tollhouse_net::server_tls::ServerTls;
use tollhouse_telemetry::ErrorCode;

use crate::http2::stream::{Http2Stream, WebSocketCheck, Withdrawal};

/// Byte transport of one side of an exchange.
#[derive(Debug)]
pub enum Carrier {
    /// TCP connection, plain or encrypted.
    Socket(Stream),
    /// An HTTP/2 stream, presented as HTTP/1.1 bytes.
    Http2(Http2Stream),
}

impl From<Stream> for Carrier {
    fn from(stream: Stream) -> Self {
        Self::Socket(stream)
    }
}

impl From<Http2Stream> for Carrier {
    fn from(stream: Http2Stream) -> Self {
        Self::Http2(stream)
    }
}

impl Carrier {
    /// Polls for readability; registers the task's waker if there is nothing to read.
    #[inline]
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(stream) => stream.poll_readable(context),
            Self::Http2(_) => Poll::Ready(Ok(())),
        }
    }

    /// Reads into `buffer`, which must not be empty, directly after [`Self::poll_readable`]
    /// returned ready. Returns 0 at the peer's end of stream.
    #[inline]
    pub fn poll_read_readable(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(stream) => stream.poll_read_readable(context, buffer),
            Self::Http2(stream) => stream.poll_read(buffer),
        }
    }

    /// Writes from `parts` in order; returns the number of bytes written.
    #[inline]
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(stream) => stream.poll_write(context, parts),
            Self::Http2(stream) => stream.poll_write(context, parts),
        }
    }

    /// Makes the connection end with a reset when it is dropped; see
    /// [`Stream::reset_when_dropped`]. Has no effect on an HTTP/2 stream, which its connection
    /// resets.
    pub fn reset_when_dropped(&self) {
        if let Self::Socket(stream) = self {
            stream.reset_when_dropped();
        }
    }

    /// Flushes the layers below. Does nothing for an HTTP/2 stream, whose connection flushes
    /// itself.
    #[inline]
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(stream) => stream.poll_flush(context),
            Self::Http2(_) => Poll::Ready(Ok(())),
        }
    }

    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(stream) => stream.poll_shutdown(context),
            Self::Http2(stream) => Poll::Ready(stream.shut_down()),
        }
    }

    #[inline]
    pub fn is_encrypted(&self) -> bool {
        match self {
            Self::Socket(stream) => stream.is_encrypted(),
            Self::Http2(stream) => stream.is_encrypted(),
        }
    }

    /// Whether an idle connection can be reused: open, with nothing to read. Always `false` for
    /// HTTP/2 streams, which are not pooled.
    #[inline]
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Self::Socket(stream) => stream.is_quiet(),
            Self::Http2(_) => false,
        }
    }

    /// Whether the carrier is a stream of a shared connection, which is not pooled.
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Reports to the HTTP/2 connection that the node exceeded its read timeout.
    pub fn note_silence(&self) {
        if let Self::Http2(stream) = self {
            stream.note_silence();
        }
    }

    /// Returns the reason to stop work for the client's stream, if the stream has ended early.
    #[inline]
    pub fn withdrawn(&self) -> Option<ErrorCode> {
        match self {
            Self::Socket(_) => None,
            Self::Http2(stream) => stream.withdrawn(),
        }
    }

    /// Returns the handle that reports the early end of the client's stream while the stream is
    /// borrowed; `None` for a socket.
    #[inline]
    pub(crate) fn withdrawal(&self) -> Option<Withdrawal> {
        match self {
            Self::Socket(_) => None,
            Self::Http2(stream) => stream.withdrawal(),
        }
    }

    /// Returns the check of the node's response, if the client opens a WebSocket over HTTP/2.
    pub(crate) fn websocket(&self) -> Option<WebSocketCheck<'_>> {
        match self {
            Self::Socket(_) => None,
            Self::Http2(stream) => stream.websocket(),
        }
    }

    /// Whether the client's requests use separate connections to nodes, because the client cancels
    /// too many streams.
    #[inline]
    pub(crate) fn is_kept_apart(&self) -> bool {
        match self {
            Self::Socket(_) => false,
            Self::Http2(stream) => stream.is_kept_apart(),
        }
    }

    /// Whether the node reported that it did not process the request (a refused HTTP/2 stream).
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Socket(_) => false,
            Self::Http2(stream) => stream.is_refused(),
        }
    }

    /// Signals the end of our data to the peer, if that is possible without waiting.
    pub fn try_say_end(&mut self) {
        match self {
            Self::Socket(stream) => stream.try_say_end(),
            Self::Http2(_) => {}
        }
    }

    /// Returns the server side of the TLS session on this connection, if any.
    #[inline]
    pub fn server_tls(&self) -> Option<&ServerTls> {
        match self {
            Self::Socket(stream) => stream.server_tls(),
            Self::Http2(_) => None,
        }
    }

    #[inline]
    pub fn server_tls_mut(&mut self) -> Option<&mut ServerTls> {
        match self {
            Self::Socket(stream) => stream.server_tls_mut(),
            Self::Http2(_) => None,
        }
    }
}
