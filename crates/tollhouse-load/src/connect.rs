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

/// A connection's bytes; the plain arm is the hot path and costs one branch.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Opens connections for a case; shared by all workers.
pub struct Connector {
    target: Target,
    tls: Option<tls::Session>,
}

impl Connector {
    /// A connector for a case. `alpn` lists the protocols to offer over TLS, best first.
    ///
    /// # Errors
    /// When a certificate file cannot be used.
    pub fn new(case: &Case, target: &Target, alpn: &[&str]) -> Result<Self, BenchError> {
        let tls = target.is_tls.then(|| tls::Session::new(&case.tls, target, alpn)).transpose()?;
        Ok(Self { target: target.clone(), tls })
    }

    /// Opens a connection; `turn` chooses among the addresses of the target.
    ///
    /// # Errors
    /// A failure of the class `connect` or `tls`.
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
        // A request must not wait for the acknowledgement of the one before.
        tcp.set_nodelay(true).map_err(failed)?;
        self.secure(tcp).await
    }

    /// Speaks TLS on a connection that is open already, when the target does.
    ///
    /// # Errors
    /// A failure of the class `tls`.
    pub async fn secure(&self, tcp: TcpStream) -> Result<Stream, Failure> {
        let Some(session) = &self.tls else { return Ok(Stream::Tcp(tcp)) };
        let connector = TlsConnector::from(session.config.clone());
        let opened = connector.connect(session.name.clone(), tcp).await;
        let stream = opened.map_err(|error| Failure::new(FailureClass::Tls, error.to_string()))?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// Where it connects to.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

impl Stream {
    /// The protocol agreed on by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Stream::Tls(tls) => tls.get_ref().1.alpn_protocol(),
            Stream::Tcp(_) | Stream::Unix(_) => None,
        }
    }

    /// Whether the peer has sent something, or its end, where nothing was asked for. Costs no system
    /// call unless the reactor has seen the socket change.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Stream::Tcp(tcp) => tcp.try_read(&mut byte),
            Stream::Unix(unix) => unix.try_read(&mut byte),
            // Session tickets arrive unasked for.
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
