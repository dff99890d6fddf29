//! One stream as a stream of bytes in the shape of HTTP/1.1.

use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll};

use tollhouse_h2::StreamId;
use tollhouse_telemetry::ErrorCode;

use super::cancellations::Conduct;
use super::session::Session;

/// A stream of a connection that others share; let go of when it is dropped.
#[derive(Debug)]
pub struct Http2Stream {
    session: Rc<Session>,
    /// None while a stream to a node has not been opened: its head does that.
    id: Option<StreamId>,
}

/// Tells whether a client's stream has ended before its time, also while the stream itself is borrowed.
#[derive(Debug)]
pub(crate) struct Withdrawal {
    session: Rc<Session>,
    id: StreamId,
}

impl Withdrawal {
    /// Reason why work for the stream should stop.
    #[inline]
    pub(crate) fn cause(&self) -> Option<ErrorCode> {
        self.session.withdrawn(self.id)
    }
}

/// A WebSocket that a client asks for by an extended CONNECT (RFC 8441).
#[derive(Debug)]
pub(crate) struct WebSocketCheck<'a> {
    session: &'a Session,
    id: StreamId,
}

impl WebSocketCheck<'_> {
    /// Whether the client can take a node's answer: `accept` is its `Sec-WebSocket-Accept`. Any other success than
    /// a switch would mean to the client that the WebSocket is open.
    pub(crate) fn takes(&self, status: u16, accept: &[u8]) -> bool {
        match status {
            101 => self.session.accepts_switch(self.id, accept),
            status => !(200..300).contains(&status),
        }
    }
}

impl Http2Stream {
    /// One that a client has opened.
    pub(super) fn new(session: Rc<Session>, id: StreamId) -> Self {
        Self { session, id: Some(id) }
    }

    /// One that is opened by the first write, which brings a whole head.
    pub(super) fn unopened(session: Rc<Session>) -> Self {
        Self { session, id: None }
    }

    /// Reads into `buffer`; 0 is the peer's end of stream.
    #[inline]
    pub(crate) fn poll_read(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.id {
            Some(id) => self.session.read(id, buffer),
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
            Some(id) => self.session.write(id, parts),
            None => Poll::Ready(self.open(context, parts)),
        }
    }

    fn open(&mut self, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let head = parts.first().map_or(&[][..], |part| part);
        let (id, head_bytes) = self.session.open(head, context.waker())?;
        self.id = Some(id);
        Ok(head_bytes)
    }

    /// Ends our direction.
    ///
    /// # Errors
    /// When the stream is closed already.
    pub(crate) fn shut_down(&mut self) -> io::Result<()> {
        match self.id {
            Some(id) => self.session.shut_down(id),
            None => Ok(()),
        }
    }

    /// Reason why work for the client's stream should stop: it has ended before its time.
    pub(crate) fn withdrawn(&self) -> Option<ErrorCode> {
        self.id.and_then(|id| self.session.withdrawn(id))
    }

    /// A handle that tells the same while the stream is borrowed.
    pub(crate) fn withdrawal(&self) -> Option<Withdrawal> {
        let session = Rc::clone(&self.session);
        self.id.map(|id| Withdrawal { session, id })
    }

    /// The check of a node's answer, where the client asks for a WebSocket.
    pub(crate) fn websocket(&self) -> Option<WebSocketCheck<'_>> {
        let id = self.id.filter(|id| self.session.asks_websocket(*id))?;
        Some(WebSocketCheck { session: &self.session, id })
    }

    /// Whether requests of its client go over connections of their own.
    pub(crate) fn is_kept_apart(&self) -> bool {
        self.session.conduct() != Conduct::Usual
    }

    /// Whether what passes is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.session.is_encrypted()
    }

    /// Notes that the node has been silent for as long as it may be.
    pub(crate) fn note_silence(&self) {
        if let Some(id) = self.id {
            self.session.note_silence(id);
        }
    }

    /// Whether the node has done nothing about it, so that the request may go elsewhere, whatever it
    /// asks for (RFC 9113 §8.7).
    pub(crate) fn is_refused(&self) -> bool {
        self.id.is_none_or(|id| self.session.is_refused(id))
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.session.release(id);
        }
    }
}
