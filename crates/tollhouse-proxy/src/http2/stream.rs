//! An HTTP/2 stream, presented as HTTP/1.1 bytes.

use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll};

use tollhouse_h2::StreamId;
use tollhouse_telemetry::ErrorCode;

use super::cancellations::Conduct;
use super::session::Session;

/// A stream of a shared connection; released on drop.
#[derive(Debug)]
pub struct Http2Stream {
    session: Rc<Session>,
    /// `None` until the request head opens a stream to a node.
    id: Option<StreamId>,
}

/// Handle that reports the early end of a client's stream while the stream itself is borrowed.
#[derive(Debug)]
pub(crate) struct Withdrawal {
    session: Rc<Session>,
    id: StreamId,
}

impl Withdrawal {
    /// Returns the reason to stop work for the stream.
    #[inline]
    pub(crate) fn cause(&self) -> Option<ErrorCode> {
        self.session.with(|_, streams| streams.withdrawn(self.id))
    }
}

/// Check for a WebSocket that a client opens by an extended CONNECT (RFC 8441).
#[derive(Debug)]
pub(crate) struct WebSocketCheck<'a> {
    session: &'a Session,
    id: StreamId,
}

impl WebSocketCheck<'_> {
    /// Whether the client can receive a node's response; `accept` is its `Sec-WebSocket-Accept`.
    /// Any 2xx status other than the switch would tell the client that the WebSocket is open.
    pub(crate) fn takes(&self, status: u16, accept: &[u8]) -> bool {
        match status {
            101 => self.session.with(|_, streams| streams.accepts_switch(self.id, accept)),
            status => !(200..300).contains(&status),
        }
    }
}

impl Http2Stream {
    /// Creates the stream for a request of a client.
    pub(super) fn new(session: Rc<Session>, id: StreamId) -> Self {
        Self { session, id: Some(id) }
    }

    /// Creates a stream that is opened by the first write, which must contain a whole head.
    pub(super) fn unopened(session: Rc<Session>) -> Self {
        Self { session, id: None }
    }

    /// Reads into `buffer`; 0 is the peer's end of stream.
    #[inline]
    pub(crate) fn poll_read(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.id {
            Some(id) => self.session.with(|codec, streams| streams.read(codec, id, buffer)),
            None => Poll::Ready(Err(ErrorKind::NotConnected.into())),
        }
    }

    /// Writes from `parts` in order; returns the number of bytes taken.
    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.id {
            Some(id) => self.session.with(|codec, streams| streams.write(codec, id, parts)),
            None => Poll::Ready(self.open(context, parts)),
        }
    }

    fn open(&mut self, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let head = parts.first().map_or(&[][..], |part| part);
        let opened = self.session.with(|codec, streams| streams.open(codec, head, context.waker()));
        let (id, head_bytes) = opened?;
        self.id = Some(id);
        Ok(head_bytes)
    }

    /// Ends the write direction.
    ///
    /// # Errors
    /// If the stream is closed already.
    pub(crate) fn shut_down(&mut self) -> io::Result<()> {
        match self.id {
            Some(id) => self.session.with(|codec, streams| streams.shut_down(codec, id)),
            None => Ok(()),
        }
    }

    /// Returns the reason to stop work for the client's stream, if the stream has ended early.
    pub(crate) fn withdrawn(&self) -> Option<ErrorCode> {
        self.id.and_then(|id| self.session.with(|_, streams| streams.withdrawn(id)))
    }

    /// Returns the handle that reports the early end of the stream while it is borrowed.
    pub(crate) fn withdrawal(&self) -> Option<Withdrawal> {
        let session = Rc::clone(&self.session);
        self.id.map(|id| Withdrawal { session, id })
    }

    /// Returns the check of the node's response, if the client opens a WebSocket.
    pub(crate) fn websocket(&self) -> Option<WebSocketCheck<'_>> {
        let asks = |id: &StreamId| self.session.with(|_, streams| streams.asks_websocket(*id));
        let id = self.id.filter(asks)?;
        Some(WebSocketCheck { session: &self.session, id })
    }

    /// Whether the client's requests use separate connections to nodes.
    pub(crate) fn is_kept_apart(&self) -> bool {
        self.session.with(|_, streams| streams.conduct != Conduct::Usual)
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.session.with(|_, streams| streams.is_encrypted())
    }

    /// Reports that the node exceeded its read timeout.
    pub(crate) fn note_silence(&self) {
        if let Some(id) = self.id {
            self.session.with(|_, streams| streams.note_silence(id));
            self.session.wake();
        }
    }

    /// Whether the node did not process the request, so that it may be retried elsewhere even if it
    /// is not idempotent (RFC 9113 §8.7).
    pub(crate) fn is_refused(&self) -> bool {
        self.id.is_none_or(|id| self.session.with(|_, streams| streams.is_refused(id)))
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.session.with(|codec, streams| streams.release(codec, id));
            self.session.wake();
        }
    }
}
