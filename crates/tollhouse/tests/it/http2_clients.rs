//! Clients of HTTP/2 that are not ours (the h2 crate), in clear text and over TLS: one connection, over which
//! a test asks whatever it likes.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::tls_support::TlsClient;

/// No test waits longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test on one thread.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime.expect("a runtime"), async {
        tokio::time::timeout(PATIENCE, test).await.expect("the test hangs");
    });
}

/// An open connection; a clone asks over the same one.
#[derive(Clone)]
pub(crate) struct Http2Client {
    sender: SendRequest<Bytes>,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub text: String,
}

fn broken(error: h2::Error) -> io::Error {
    io::Error::other(error)
}

impl Http2Client {
    /// In clear text, by prior knowledge.
    pub(crate) async fn plain(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect(address).await?).await
    }

    /// Over TLS, opened for `name`.
    pub(crate) async fn tls(
        client: &TlsClient,
        address: SocketAddr,
        name: &str,
    ) -> io::Result<Self> {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let stream = TcpStream::connect(address).await?;
        let stream = TlsConnector::from(Arc::clone(&client.0)).connect(name, stream).await?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        Self::over(stream).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<Self> {
        let (sender, connection) = h2::client::handshake(stream).await.map_err(broken)?;
        // Its errors are those of the requests.
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(Self { sender })
    }

    /// Sends a request without a body, and reads the answer whole.
    pub(crate) async fn send(&self, request: Request<()>) -> io::Result<Answer> {
        let mut sender = self.sender.clone().ready().await.map_err(broken)?;
        let (response, _) = sender.send_request(request, true).map_err(broken)?;
        let (head, mut body) = response.await.map_err(broken)?.into_parts();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            let data = data.map_err(broken)?;
            body.flow_control().release_capacity(data.len()).map_err(broken)?;
            bytes.extend_from_slice(&data);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Answer { status: head.status.as_u16(), text })
    }

    /// Asks a host, by GET.
    pub(crate) async fn get(&self, host: &str, target: &str) -> io::Result<Answer> {
        let request = Request::get(format!("https://{host}{target}"));
        self.send(request.body(()).expect("a request")).await
    }
}
