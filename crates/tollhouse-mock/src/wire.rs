//! Byte stream of a connection: plain or TLS, over TCP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Byte stream of a connection, over TCP.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

pub(super) fn poll_write_all<S: Wire>(
    stream: &mut S,
    context: &mut Context<'_>,
    part: &mut &[u8],
) -> Poll<io::Result<()>> {
    while !part.is_empty() {
        let written = ready!(Pin::new(&mut *stream).poll_write(context, part))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        *part = &part[written..];
    }
    Poll::Ready(Ok(()))
}
