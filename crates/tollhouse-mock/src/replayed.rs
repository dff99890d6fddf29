//! Stream wrapper that first replays bytes already read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Stream that returns bytes which were read already before it reads further ones.
#[derive(Debug)]
pub(super) struct Replayed<S> {
    first: Vec<u8>,
    /// Number of replayed bytes already read.
    read: usize,
    stream: S,
}

impl<S> Replayed<S> {
    pub(super) fn new(first: Vec<u8>, stream: S) -> Self {
        Self { first, read: 0, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Replayed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let replayed = &mut *self;
        let left = &replayed.first[replayed.read..];
        if left.is_empty() {
            return Pin::new(&mut replayed.stream).poll_read(context, buffer);
        }
        let here = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..here]);
        replayed.read += here;
        if replayed.read == replayed.first.len() {
            replayed.first = Vec::new();
            replayed.read = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Replayed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
