//! The listener in front of an [`AdminApi`]: plain HTTP, or TLS with or without certificates of
//! clients. Each connection is a task of the caller's runtime, ended with the listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tollhouse_net::accept::{self, Bounds, Stopping};

use crate::api::AdminApi;
use crate::host;
use crate::limits::{CONNECTIONS_MAX, HANDSHAKE_TIME_MAX, HEAD_TIME_MAX};

/// How long requests under way may take once the listener has to stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// Why a listener cannot speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The certificate cannot be read.
    #[error("read the certificate of the Admin API: {0}")]
    Certificate(String),
    /// The private key cannot be read, or is not the certificate's.
    #[error("read the private key of the Admin API: {0}")]
    Key(String),
    /// The certificates that sign those of clients cannot be read.
    #[error("read the certificates that sign the Admin API's clients: {0}")]
    Authorities(String),
}

/// How a listener speaks TLS.
#[derive(Clone)]
pub struct TlsConfig(Arc<ServerConfig>);

impl TlsConfig {
    /// Of PEM texts: a certificate chain, its key, and, where clients must show certificates,
    /// those that sign theirs.
    ///
    /// # Errors
    /// One of them cannot be read, or the key is not the certificate's.
    pub fn from_pem(
        certificate: &[u8],
        key: &[u8],
        client_authorities: Option<&[u8]>,
    ) -> Result<Self, ServeError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = read_chain(certificate).map_err(ServeError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| ServeError::Key(error.to_string()))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| ServeError::Key(error.to_string()))?;
        let builder = match client_authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let refused = |error: String| ServeError::Authorities(error);
                let mut roots = rustls::RootCertStore::empty();
                for authority in read_chain(authorities).map_err(refused)? {
                    roots.add(authority).map_err(|error| refused(error.to_string()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| refused(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| ServeError::Key(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

fn read_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err("there is none".to_owned()),
        Ok(chain) => Ok(chain),
        Err(error) => Err(error.to_string()),
    }
}

/// Serves until `stop` is ready; requests under way then have a few seconds to end. At most
/// `connections_max` are open at a time, or [`CONNECTIONS_MAX`] if that is less. Peers that the allow
/// list does not have are refused in places of their own.
pub async fn serve(
    listener: TcpListener,
    api: AdminApi,
    tls: Option<TlsConfig>,
    connections_max: usize,
    stop: impl Future<Output = ()>,
) {
    let acceptor = tls.map(|config| TlsAcceptor::from(config.0));
    let bounds = Bounds {
        name: "admin",
        connections_max: connections_max.min(CONNECTIONS_MAX),
        drain_time: DRAIN_TIME_MAX,
    };
    let stop = async {
        stop.await;
        api.end_watches();
    };
    let is_expected = |peer| api.admits(peer);
    accept::serve(listener, bounds, stop, is_expected, |stream, peer, stopping| {
        take(stream, peer, acceptor.clone(), api.clone(), stopping)
    })
    .await;
}

async fn take(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    api: AdminApi,
    stopping: Stopping,
) {
    let Some(acceptor) = acceptor else { return connection(stream, peer, api, stopping).await };
    match tokio::time::timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => connection(stream, peer, api, stopping).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "admin handshake failed"),
        Err(_) => tracing::debug!(%peer, "admin handshake too slow"),
    }
}

async fn connection<S>(stream: S, peer: SocketAddr, api: AdminApi, mut stopping: Stopping)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request| {
        let api = api.clone();
        async move {
            let answer = match host::check(&request) {
                Ok(()) => api.handle(request, peer).await,
                Err(refusal) => api.refuse(refusal),
            };
            Ok::<_, Infallible>(answer)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopped = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let done = tokio::select! {
        done = &mut connection => done,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = done {
        tracing::debug!(%peer, %error, "admin connection ended early");
    }
}
