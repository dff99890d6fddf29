//! Adapter from [`Stream`] to the reading and writing traits of the HTTP library.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use tollhouse_net::Stream;

/// Largest read in bytes. The data is copied into the library's buffer, so more would only cost
/// stack.
const READ_BYTES_MAX: usize = 8 << 10;

/// Connection stream with the IO traits of hyper.
pub(super) struct HyperStream(Stream);

impl HyperStream {
    pub fn new(stream: Stream) -> Self {
        Self(stream)
    }
}

impl Read for HyperStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; READ_BYTES_MAX];
        let bytes_max = buffer.remaining().min(READ_BYTES_MAX);
        let bytes = ready!(self.0.poll_read(context, &mut piece[..bytes_max]))?;
        buffer.put_slice(&piece[..bytes]);
        Poll::Ready(Ok(()))
    }
}

impl Write for HyperStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, &[IoSlice::new(bytes)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, parts)
    }
}
