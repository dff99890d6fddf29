//! What carries the bytes of an exchange: a socket of its own, or a stream of HTTP/2, which looks like
//! one.
//!
//! An enum instead of a trait object: the socket's arm is the hot path and costs one branch.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use tollhouse_net::Stream;
use tollhouse_net::server_tls::ServerTls;
use tollhouse_telemetry::ErrorCode;

use crate::http2::stream::{Http2Stream, WebSocketCheck, Withdrawal};

/// One side's bytes.
#[derive(Debug)]
pub enum Carrier {
    /// A connection, plain or encrypted.
    Socket(Stream),
    /// One stream of a connection of HTTP/2, in the shape of HTTP/1.1.
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
    /// Whether there may be something to read; if not, the task is woken once there is.
    #[inline]
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(stream) => stream.poll_readable(context),
            Self::Http2(_) => Poll::Ready(Ok(())),
        }
    }

    /// Reads into `buffer`, which must not be empty, right behind a [`Self::poll_readable`] that was ready;
    /// 0 is the peer's end of stream.
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

    /// Writes from `parts` in order; returns the number of bytes taken.
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

    /// Has the connection end with a reset once it is dropped: see [`Stream::reset_when_dropped`]. A stream is
    /// reset by its connection.
    pub fn reset_when_dropped(&self) {
        if let Self::Socket(stream) = self {
            stream.reset_when_dropped();
        }
    }

    /// Pushes out what a layer below still holds; a stream's connection does so by itself.
    #[inline]
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(stream) => stream.poll_flush(context),
            Self::Http2(_) => Poll::Ready(Ok(())),
        }
    }

    /// Ends our direction.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(stream) => stream.poll_shutdown(context),
            Self::Http2(stream) => Poll::Ready(stream.shut_down()),
        }
    }

    /// Whether what passes is encrypted.
    #[inline]
    pub fn is_encrypted(&self) -> bool {
        match self {
            Self::Socket(stream) => stream.is_encrypted(),
            Self::Http2(stream) => stream.is_encrypted(),
        }
    }

    /// Whether an idle connection is still of use: open, with nothing to read. Streams are never kept.
    #[inline]
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Self::Socket(stream) => stream.is_quiet(),
            Self::Http2(_) => false,
        }
    }

    /// Whether it is a stream of a connection that others share: nothing to be kept for the next one.
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Notes that a node has been silent for as long as it may be.
    pub fn note_silence(&self) {
        if let Self::Http2(stream) = self {
            stream.note_silence();
        }
    }

    /// Reason why work for the client's stream should stop: it has ended before its time.
    #[inline]
    pub fn withdrawn(&self) -> Option<ErrorCode> {
        match self {
            Self::Socket(_) => None,
            Self::Http2(stream) => stream.withdrawn(),
        }
    }

    /// A handle that tells the same while the stream is borrowed; `None` for a socket.
    #[inline]
    pub(crate) fn withdrawal(&self) -> Option<Withdrawal> {
        match self {
            Self::Socket(_) => None,
            Self::Http2(stream) => stream.withdrawal(),
        }
    }

    /// The check of a node's answer, where the client asks for a WebSocket over HTTP/2.
    pub(crate) fn websocket(&self) -> Option<WebSocketCheck<'_>> {
        match self {
            Self::Socket(_) => None,
            Self::Http2(stream) => stream.websocket(),
        }
    }

    /// Whether the client's requests go over node connections of their own, because it takes back too many.
    #[inline]
    pub(crate) fn is_kept_apart(&self) -> bool {
        match self {
            Self::Socket(_) => false,
            Self::Http2(stream) => stream.is_kept_apart(),
        }
    }

    /// Whether a node has done nothing about what was sent to it.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Socket(_) => false,
            Self::Http2(stream) => stream.is_refused(),
        }
    }

    /// Tells the peer that nothing follows, where that can be done at once.
    pub fn try_say_end(&mut self) {
        match self {
            Self::Socket(stream) => stream.try_say_end(),
            Self::Http2(_) => {}
        }
    }

    /// The TLS that a client opened on this very connection.
    #[inline]
    pub fn server_tls(&self) -> Option<&ServerTls> {
        match self {
            Self::Socket(stream) => stream.server_tls(),
            Self::Http2(_) => None,
        }
    }

    /// The same, to go on with it.
    #[inline]
    pub fn server_tls_mut(&mut self) -> Option<&mut ServerTls> {
        match self {
            Self::Socket(stream) => stream.server_tls_mut(),
            Self::Http2(_) => None,
        }
    }
}
