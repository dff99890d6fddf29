//! Byte stream, plain or encrypted, polled by the task that owns it.
//!
//! An enum instead of a trait object, because the plain variant is the hot path and costs one
//! branch.

use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::server_tls::ServerTls;

/// Byte stream of a connection, plain or encrypted.
#[derive(Debug)]
pub enum Stream {
    /// Plain TCP. Shared, so that a [`Departure`](crate::Departure) can watch the socket while it
    /// is in use.
    Plain(Arc<TcpStream>),
    /// TLS session to an upstream.
    Tls(Box<TlsStream<TcpStream>>),
    /// TLS session opened by a client.
    ServerTls(Box<ServerTls>),
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Self {
        Self::Plain(Arc::new(tcp))
    }
}

impl Stream {
    /// Reads into `buffer`, which must not be empty; 0 is the peer's end of stream.
    #[inline]
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(tcp) => receive(tcp, context, buffer),
            Stream::Tls(_) | Stream::ServerTls(_) => self.poll_read_readable(context, buffer),
        }
    }

    /// Polls for readability; registers the task's waker if there is nothing to read. Always ready
    /// for encrypted streams, which must be read to tell.
    #[inline]
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(tcp) => tcp.poll_read_ready(context),
            Stream::Tls(_) | Stream::ServerTls(_) => Poll::Ready(Ok(())),
        }
    }

    /// Like [`Self::poll_read`], directly after [`Self::poll_readable`] returned ready.
    #[inline]
    pub fn poll_read_readable(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(tcp) => match receive_now(tcp, buffer) {
                Some(received) => Poll::Ready(received),
                None => receive(tcp, context, buffer),
            },
            Stream::Tls(tls) => read_into(tls.as_mut(), context, buffer),
            Stream::ServerTls(tls) => tls.poll_read(context, buffer),
        }
    }

    /// Writes from `parts` in order; returns the number of bytes taken.
    #[inline]
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A plain send costs the kernel less than a vectored one.
        let mut filled = parts.iter().filter(|part| !part.is_empty());
        let only = filled.next().filter(|_| filled.next().is_none());
        match self {
            Stream::Plain(tcp) => match only {
                Some(part) => send(tcp, context, part),
                None => send_parts(tcp, context, parts),
            },
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(context, parts),
            Stream::ServerTls(tls) => tls.poll_write(context, parts),
        }
    }

    /// Sends what the TLS layer still holds.
    #[inline]
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(context),
            Stream::ServerTls(tls) => tls.poll_flush(context),
        }
    }

    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(tcp) => Poll::Ready(shut_down(tcp)),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(context),
            Stream::ServerTls(tls) => tls.poll_shutdown(context),
        }
    }

    /// Signals an orderly end to the peer, if that is possible without waiting.
    pub fn try_say_end(&mut self) {
        if let Stream::ServerTls(tls) = self {
            tls.try_say_end(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Makes the connection end with a reset when it is dropped. An orderly end would keep the
    /// local port for a minute, so that a client which cancels requests as fast as it sends them
    /// could use up all ports.
    pub fn reset_when_dropped(&self) {
        let tcp = match self {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
            Stream::ServerTls(tls) => tls.tcp(),
        };
        // The connection ends in either case.
        let _ = tcp.set_zero_linger();
    }

    /// Returns the client's TLS session, if any.
    #[inline]
    pub fn server_tls(&self) -> Option<&ServerTls> {
        match self {
            Stream::ServerTls(tls) => Some(tls),
            Stream::Plain(_) | Stream::Tls(_) => None,
        }
    }

    /// Returns the client's TLS session, to continue its handshake.
    pub fn server_tls_mut(&mut self) -> Option<&mut ServerTls> {
        match self {
            Stream::ServerTls(tls) => Some(tls),
            Stream::Plain(_) | Stream::Tls(_) => None,
        }
    }

    /// Returns the socket of a stream that a client may have opened.
    pub(crate) fn client_socket(&self) -> Option<&Arc<TcpStream>> {
        match self {
            Stream::Plain(tcp) => Some(tcp),
            Stream::ServerTls(tls) => Some(tls.tcp()),
            Stream::Tls(_) => None,
        }
    }

    #[inline]
    pub fn is_encrypted(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(_) => true,
            Stream::ServerTls(tls) => tls.is_encrypted(),
        }
    }

    /// Whether an idle connection can be reused: open, with nothing to read. Costs no system call
    /// unless the reactor has seen an event on the socket.
    #[inline]
    pub fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        match self {
            Stream::Plain(tcp) => {
                tcp.try_read(&mut byte).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
            }
            Stream::Tls(_) | Stream::ServerTls(_) => {
                self.poll_read(&mut Context::from_waker(Waker::noop()), &mut byte).is_pending()
            }
        }
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    /// If the socket is no longer connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Stream::Plain(tcp) => tcp.peer_addr(),
            Stream::Tls(tls) => tls.get_ref().0.peer_addr(),
            Stream::ServerTls(tls) => tls.tcp().peer_addr(),
        }
    }
}

/// Sends without polling the reactor first, because a socket accepts nearly every message at once.
/// The reactor is needed only to be woken otherwise.
#[inline]
pub(crate) fn send(
    tcp: &TcpStream,
    context: &mut Context<'_>,
    part: &[u8],
) -> Poll<io::Result<usize>> {
    match rustix::net::send(tcp, part, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => send_when_ready(tcp, context, || tcp.try_write(part)),
        sent => Poll::Ready(sent.map_err(io::Error::from)),
    }
}

/// Sends several pieces in one call.
pub(crate) fn send_parts(
    tcp: &TcpStream,
    context: &mut Context<'_>,
    parts: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let sent = ready!(send_when_ready(tcp, context, || tcp.try_write_vectored(parts)))?;
    // A partial write means that the socket is full, so another attempt would be a wasted system
    // call.
    if sent > 0 && sent < parts.iter().map(|part| part.len()).sum() {
        forget_readiness(tcp, Interest::WRITABLE);
    }
    Poll::Ready(Ok(sent))
}

fn send_when_ready(
    tcp: &TcpStream,
    context: &mut Context<'_>,
    send: impl Fn() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(tcp.poll_write_ready(context))?;
        match send() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            sent => return Poll::Ready(sent),
        }
    }
}

/// Clears the readiness, so that the reactor reports the next change before the kernel is asked
/// again.
fn forget_readiness(tcp: &TcpStream, interest: Interest) {
    let _ = tcp.try_io(interest, || Err::<(), _>(ErrorKind::WouldBlock.into()));
}

/// Shuts down the write direction; a connection that the peer has reset counts as ended.
pub(crate) fn shut_down(tcp: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(tcp, Shutdown::Write) {
        Err(Errno::NOTCONN) => Ok(()),
        ended => ended.map_err(io::Error::from),
    }
}

/// Largest read through [`AsyncRead`], in bytes. The buffer is zeroed before a read, so more would
/// only cost time.
const READ_BYTES_MAX: usize = 16 << 10;

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes_max = buffer.remaining().min(READ_BYTES_MAX);
        let piece = buffer.initialize_unfilled_to(bytes_max);
        let bytes = ready!(Stream::poll_read(self.get_mut(), context, piece))?;
        buffer.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_write(self.get_mut(), context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_write(self.get_mut(), context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_flush(self.get_mut(), context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_shutdown(self.get_mut(), context)
    }
}

/// Waits until the socket is readable and receives its bytes.
#[inline]
pub(crate) fn receive(
    tcp: &TcpStream,
    context: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    loop {
        ready!(tcp.poll_read_ready(context))?;
        if let Some(received) = receive_now(tcp, buffer) {
            return Poll::Ready(received);
        }
    }
}

/// Receives available bytes; `None` without any, after clearing the readiness.
#[inline]
fn receive_now(tcp: &TcpStream, buffer: &mut [u8]) -> Option<io::Result<usize>> {
    loop {
        let received = tcp.try_io(Interest::READABLE, || {
            let (bytes, _) = rustix::net::recv(tcp, &mut *buffer, RecvFlags::empty())?;
            Ok(bytes)
        });
        match received {
            // A partial read means that nothing is left, so another attempt would be a wasted
            // system call before the reactor reports more.
            Ok(bytes) if (1..buffer.len()).contains(&bytes) => {
                forget_readiness(tcp, Interest::READABLE);
                return Some(Ok(bytes));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => return Some(received),
        }
    }
}

#[inline]
fn read_into(
    stream: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut read = ReadBuf::new(buffer);
    ready!(Pin::new(stream).poll_read(context, &mut read))?;
    Poll::Ready(Ok(read.filled().len()))
}
