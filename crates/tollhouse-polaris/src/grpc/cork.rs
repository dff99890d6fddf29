//! A stream that gathers what is written and sends it when its connection has nothing more to say.
//!
//! HTTP/2 flushes after each frame of some length; a system call for each would cost more than
//! everything else an answer needs. So flushing is left to [`Pipe::poll_send`], which the connection
//! calls once a turn. Buffers belong to the thread: a connection without unsent bytes holds none.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::{CORK_BUFFERS_KEPT_MAX, CORK_BYTES};
use super::unsent::{OnItsWay, Unsent};

/// Buffers that wait for the next connection that has something to say.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
}

/// The way to the client, shared by HTTP/2, which writes, and the connection, which sends.
pub(super) struct Pipe<S> {
    buffers: Rc<Buffers>,
    ends: RefCell<Ends<S>>,
    /// Goes up whenever bytes arrive.
    arrivals: Rc<Cell<u64>>,
    unsent: Rc<Unsent>,
}

struct Ends<S> {
    stream: S,
    gathered: Vec<u8>,
    /// How many of the gathered bytes are sent.
    sent: usize,
    /// There while the client's side is full.
    blocked: Option<OnItsWay>,
}

/// The end that HTTP/2 holds.
pub(super) struct Corked<S>(pub(super) Rc<Pipe<S>>);

impl Buffers {
    fn take(&self) -> Vec<u8> {
        let kept = self.free.borrow_mut().pop();
        kept.unwrap_or_else(|| Vec::with_capacity(CORK_BYTES))
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if buffer.capacity() > 0 && free.len() < CORK_BUFFERS_KEPT_MAX {
            buffer.clear();
            free.push(buffer);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Pipe<S> {
    /// A pipe over `stream`; `arrivals` goes up whenever bytes arrive, and in `unsent` is entered what
    /// waits for the client.
    pub(super) fn new(
        stream: S,
        buffers: Rc<Buffers>,
        arrivals: Rc<Cell<u64>>,
        unsent: Rc<Unsent>,
    ) -> Rc<Self> {
        let ends = RefCell::new(Ends { stream, gathered: Vec::new(), sent: 0, blocked: None });
        Rc::new(Self { buffers, ends, arrivals, unsent })
    }

    /// Sends what is gathered. Pending means that the client's side is full, and the task is woken
    /// when it is not.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends.borrow_mut();
        if ends.gathered.is_empty() {
            return Poll::Ready(Ok(()));
        }
        ready!(ends.poll_drain(cx, &self.unsent))?;
        self.buffers.give_back(std::mem::take(&mut ends.gathered));
        Pin::new(&mut ends.stream).poll_flush(cx)
    }

    fn poll_gather(&self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut ends = self.ends.borrow_mut();
        if ends.gathered.capacity() == 0 {
            ends.gathered = self.buffers.take();
        }
        if ends.gathered.len() >= CORK_BYTES {
            ready!(ends.poll_drain(cx, &self.unsent))?;
        }
        let mut taken = 0;
        for piece in pieces {
            let room = CORK_BYTES - ends.gathered.len();
            let size = piece.len().min(room);
            ends.gathered.extend_from_slice(&piece[..size]);
            taken += size;
        }
        Poll::Ready(Ok(taken))
    }
}

impl<S: AsyncWrite + Unpin> Ends<S> {
    fn poll_drain(&mut self, cx: &mut Context<'_>, unsent: &Rc<Unsent>) -> Poll<io::Result<()>> {
        while self.sent < self.gathered.len() {
            let left = &self.gathered[self.sent..];
            let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, left) else {
                self.blocked.get_or_insert_with(|| unsent.begin());
                return Poll::Pending;
            };
            let count = written?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count;
            if let Some(blocked) = &mut self.blocked {
                blocked.advance(count);
            }
        }
        self.gathered.clear();
        self.sent = 0;
        self.blocked = None;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Corked<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let mut ends = self.0.ends.borrow_mut();
        ready!(Pin::new(&mut ends.stream).poll_read(cx, into))?;
        if into.filled().len() > before {
            self.0.arrivals.set(self.0.arrivals.get() + 1);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_gather(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_gather(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Later, all at once: see `Pipe::poll_send`.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_send(cx))?;
        Pin::new(&mut self.0.ends.borrow_mut().stream).poll_shutdown(cx)
    }
}

impl<S> Drop for Pipe<S> {
    fn drop(&mut self) {
        let ends = self.ends.get_mut();
        self.buffers.give_back(std::mem::take(&mut ends.gathered));
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn piped(room: usize) -> (Rc<Pipe<tokio::io::DuplexStream>>, tokio::io::DuplexStream) {
        let (near, far) = tokio::io::duplex(room);
        (Pipe::new(near, Rc::default(), Rc::default(), Rc::default()), far)
    }

    #[tokio::test]
    async fn nothing_leaves_before_it_is_sent() {
        let (pipe, mut far) = piped(1_024);
        let mut corked = Corked(Rc::clone(&pipe));
        corked.write_all(b"ab").await.expect("gathered");
        corked.flush().await.expect("left for later");
        corked.write_all(b"cd").await.expect("gathered");
        poll_fn(|cx| pipe.poll_send(cx)).await.expect("sent");
        let mut seen = [0; 16];
        assert_eq!(far.read(&mut seen).await.expect("arrived"), 4);
        assert_eq!(pipe.ends.borrow().gathered.capacity(), 0, "the buffer is given back");
        assert_eq!(pipe.buffers.free.borrow().len(), 1);
    }

    #[tokio::test]
    async fn more_than_a_buffer_goes_out_in_order_to_a_slow_reader() {
        let (pipe, mut far) = piped(100);
        let mut corked = Corked(Rc::clone(&pipe));
        let bytes: Vec<u8> = (0..3 * CORK_BYTES + 7).map(|index| index as u8).collect();
        let mut seen = Vec::new();
        let writing = async {
            corked.write_all(&bytes).await.expect("gathered or sent");
            poll_fn(|cx| pipe.poll_send(cx)).await.expect("sent");
            corked.shutdown().await.expect("shut");
        };
        let (_, read) = tokio::join!(writing, far.read_to_end(&mut seen));
        assert_eq!(read.expect("read"), bytes.len());
        assert_eq!(seen, bytes);
    }

    #[tokio::test]
    async fn arrivals_are_counted() {
        let (pipe, mut far) = piped(100);
        let mut corked = Corked(Rc::clone(&pipe));
        far.write_all(b"x").await.expect("written");
        corked.read_u8().await.expect("read");
        assert_eq!(pipe.arrivals.get(), 1);
        drop(far);
        assert_eq!(corked.read(&mut [0]).await.expect("the end"), 0);
        assert_eq!(pipe.arrivals.get(), 1);
    }
}
