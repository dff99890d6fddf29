//! Byte stream below a connection.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Byte stream of a connection, with the buffer that its reads use.
pub trait Transport {
    /// Reads once and passes the bytes to `take`; none at the end of the stream.
    fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>>;

    /// Writes from the front of `output`; returns the number of bytes.
    fn poll_write(&mut self, cx: &mut Context<'_>, output: &[u8]) -> Poll<io::Result<usize>>;

    /// Flushes layers such as TLS. Called when all output is written.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Begins the work that a read has brought. The session is free, and output is written
    /// afterwards.
    fn after_read(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

/// Stream of the runtime, with a read buffer that the connections of a thread share.
#[derive(Debug)]
pub struct Socket<'b, S, B> {
    /// Stream below the connection.
    pub stream: S,
    buffer: &'b RefCell<B>,
}

impl<'b, S, B: AsMut<[u8]>> Socket<'b, S, B> {
    /// Creates the transport. `buffer` must not be empty; it is borrowed during each read and its
    /// events.
    pub fn new(stream: S, buffer: &'b RefCell<B>) -> Self {
        Self { stream, buffer }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, B: AsMut<[u8]>> Transport for Socket<'_, S, B> {
    fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        let mut buffer = self.buffer.borrow_mut();
        let mut room = ReadBuf::new((*buffer).as_mut());
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
        Poll::Ready(Ok(take(room.filled())))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, output: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, output)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}
