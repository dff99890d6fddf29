//! Counts the bytes that go over a shared connection. Frames of several exchanges mix on it, so the bytes
//! since the last count go to the exchange that ends; the sums are exact.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connect::Stream;

/// Bytes not yet taken over.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    sent: Cell<u64>,
    received: Cell<u64>,
}

impl Traffic {
    /// Bytes sent and received since the last call.
    pub(super) fn take(&self) -> (u64, u64) {
        (self.sent.take(), self.received.take())
    }
}

/// A stream that counts.
pub(super) struct Counted {
    stream: Stream,
    traffic: Rc<Traffic>,
}

impl Counted {
    pub(super) fn new(stream: Stream, traffic: Rc<Traffic>) -> Self {
        Self { stream, traffic }
    }

    fn wrote(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(bytes) = written {
            self.traffic.sent.set(self.traffic.sent.get() + bytes as u64);
        }
        Poll::Ready(written)
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let bytes = (buffer.filled().len() - before) as u64;
        self.traffic.received.set(self.traffic.received.get() + bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        self.wrote(written)
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
