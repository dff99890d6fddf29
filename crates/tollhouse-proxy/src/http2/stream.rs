//! One stream as a stream of bytes in the shape of HTTP/1.1.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::Poll;

use tollhouse_h2::StreamId;

use super::session::Session;

/// A stream of a connection that others share; let go of when it is dropped.
#[derive(Debug)]
pub struct Http2Stream {
    session: Rc<Session>,
    id: StreamId,
}

impl Http2Stream {
    pub(super) fn new(session: Rc<Session>, id: StreamId) -> Self {
        Self { session, id }
    }

    /// Reads into `buffer`; 0 is the peer's end of stream.
    #[inline]
    pub(crate) fn poll_read(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.session.read(self.id, buffer)
    }

    /// Writes from `parts` in order; returns the number of bytes taken.
    #[inline]
    pub(crate) fn poll_write(&mut self, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.session.write(self.id, parts)
    }

    /// Ends our direction.
    ///
    /// # Errors
    /// When the stream is closed already.
    pub(crate) fn shut_down(&mut self) -> io::Result<()> {
        self.session.shut_down(self.id)
    }

    /// Whether what passes is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.session.is_encrypted()
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.session.release(self.id);
    }
}
