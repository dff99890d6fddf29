//! Connection of a client, with a timeout for clients that read too slowly. It owns the
//! connection's slot, so that the slot stays taken until the socket closes, even after an upgrade
//! to WebSocket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tollhouse_net::slots::Slot;

/// Timeout for a client to read [`PROGRESS_BYTES`] of an answer, or its end.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Bytes that count as progress: a few seconds on the slowest lines in use.
const PROGRESS_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    /// Timer that runs while bytes wait for the client.
    stall: Option<Pin<Box<Sleep>>>,
    /// Bytes taken by the client since the timer started.
    taken_bytes: usize,
    _slot: Slot,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, slot: Slot) -> Self {
        Self { stream, stall: None, taken_bytes: 0, _slot: slot }
    }

    /// Returns the outcome of a write, or a timeout error if the client has stalled.
    fn check_stall(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(count)) => {
                self.taken_bytes += count;
                if self.taken_bytes >= PROGRESS_BYTES {
                    self.reset_stall();
                }
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
                ready!(stall.as_mut().poll(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    fn reset_stall(&mut self) {
        self.stall = None;
        self.taken_bytes = 0;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check_stall(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.check_stall(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        // The caller flushes after everything was written.
        self.reset_stall();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tollhouse_net::slots::Slots;

    use super::*;

    fn patient<S>(stream: S) -> Patient<S> {
        let slot = Slots::new("test", 1).take(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Patient::new(stream, slot.expect("a free slot"))
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_served_and_who_does_not_is_given_up() {
        let (near, mut far) = tokio::io::duplex(1_024);
        let mut stream = patient(near);
        let length = 8 * PROGRESS_BYTES;
        let reading = tokio::spawn(async move {
            let mut piece = vec![0; PROGRESS_BYTES];
            for _ in 0..4 {
                tokio::time::sleep(STALL_MAX / 2).await;
                far.read_exact(&mut piece).await.expect("there is more");
            }
            far
        });
        let written = stream.write_all(&vec![0; length]).await;
        assert_eq!(written.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        drop(reading.await.expect("half was read"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_between_two_answers_is_no_stall() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut stream = patient(near);
        for _ in 0..3 {
            let mut seen = [0; 8];
            let (written, read) =
                tokio::join!(stream.write_all(b"12345678"), far.read_exact(&mut seen));
            assert!(written.is_ok() && read.is_ok());
            stream.flush().await.expect("flushed");
            tokio::time::sleep(2 * STALL_MAX).await;
        }
    }
}
