//! Opens connections to the target: TCP, Unix sockets, TLS with the case's options.

mod tls;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::case::Case;
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::target::{Endpoint, Target};

/// Byte stream of a connection. The plain variant is the hot path and costs one branch.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Opens the connections of a case; shared by all workers.
pub struct Connector {
    target: Target,
    tls: Option<tls::Session>,
}

impl Connector {
    /// Creates a connector for a case. `alpn` lists the protocols to offer over TLS, best first.
    ///
    /// # Errors
    /// If a certificate file cannot be used.
    pub fn new(case: &Case, target: &Target, alpn: &[&str]) -> Result<Self, BenchError> {
        let tls = target.is_tls.then(|| tls::Session::new(&case.tls, target, alpn)).transpose()?;
        Ok(Self { target: target.clone(), tls })
    }

    /// Opens a connection; `turn` selects one of the target's addresses.
    ///
    /// # Errors
    /// If connecting or the TLS handshake fails; the failure has the class `connect` or `tls`.
    pub async fn open(&self, turn: usize) -> Result<Stream, Failure> {
        let failed = |error: io::Error| Failure::new(FailureClass::Connect, error.to_string());
        let tcp = match (&self.target.endpoint, self.target.address(turn)) {
            (Endpoint::Unix(path), _) => {
                return UnixStream::connect(path).await.map(Stream::Unix).map_err(failed);
            }
            (Endpoint::Tcp(_), Some(address)) => {
                TcpStream::connect(address).await.map_err(failed)?
            }
            (Endpoint::Tcp(_), None) => {
                return Err(Failure::new(FailureClass::Connect, "the target has no address"));
            }
        };
        // `TCP_NODELAY`, because a request must not wait for the acknowledgement of the previous
        // one.
        tcp.set_nodelay(true).map_err(failed)?;
        self.secure(tcp).await
    }

    /// Performs the TLS handshake on an open connection, if the target uses TLS.
    ///
    /// # Errors
    /// If the handshake fails; the failure has the class `tls`.
    pub async fn secure(&self, tcp: TcpStream) -> Result<Stream, Failure> {
        let Some(session) = &self.tls else { return Ok(Stream::Tcp(tcp)) };
        let connector = TlsConnector::from(session.config.clone());
        let opened = connector.connect(session.name.clone(), tcp).await;
        let stream = opened.map_err(|error| Failure::new(FailureClass::Tls, error.to_string()))?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    pub fn target(&self) -> &Target {
        &self.target
    }
}

impl Stream {
    /// Returns the protocol negotiated by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Stream::Tls(tls) => tls.get_ref().1.alpn_protocol(),
            Stream::Tcp(_) | Stream::Unix(_) => None,
        }
    }

    /// Whether the peer has sent nothing, neither data nor the end of the stream, on an idle
    /// connection. Costs no system call unless the reactor has seen the socket change. Always true
    /// for TLS.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Stream::Tcp(tcp) => tcp.try_read(&mut byte),
            Stream::Unix(unix) => unix.try_read(&mut byte),
            // TLS session tickets arrive unsolicited.
            Stream::Tls(_) => return true,
        };
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(tcp) => Pin::new(tcp).poll_read(context, buffer),
            Stream::Unix(unix) => Pin::new(unix).poll_read(context, buffer),
            Stream::Tls(tls) => Pin::new(tls).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Stream::Unix(unix) => Pin::new(unix).poll_write(context, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(context, bytes),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(tcp) => Pin::new(tcp).poll_shutdown(context),
            Stream::Unix(unix) => Pin::new(unix).poll_shutdown(context),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }
}
