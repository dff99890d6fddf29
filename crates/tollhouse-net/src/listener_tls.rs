//! TLS of operator listeners: one certificate from files, with or without client certificates.
//!
//! TLS of the data plane, with certificates by server name, is in `server_tls.rs`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::sign::SingleCertAndKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tollhouse_telemetry::HandshakeFailure;

use crate::server_tls::{ClientVerifier, Strictness};
use crate::trust::{PROVIDER, certified_key};

/// Timeout of a handshake, so that a stalled client does not occupy its place forever.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// Why a listener cannot use TLS.
#[derive(Debug, thiserror::Error)]
pub enum ListenerTlsError {
    /// The certificate cannot be read.
    #[error("read the certificate: {0}")]
    Certificate(String),
    /// The private key cannot be read or does not match the certificate.
    #[error("read the private key: {0}")]
    Key(String),
    /// The authorities for client certificates cannot be read.
    #[error("read the certificates that sign those of clients: {0}")]
    Authorities(String),
}

/// Outcome of a handshake.
pub enum Accepted {
    /// The client has a valid certificate, or the listener requires none.
    Client(TlsStream<TcpStream>),
    /// The client has no valid certificate, which is required.
    Stranger(TlsStream<TcpStream>, CertificateFault),
}

/// Why a client's certificate is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateFault {
    Missing,
    Invalid(HandshakeFailure),
}

impl From<HandshakeFailure> for CertificateFault {
    fn from(failure: HandshakeFailure) -> Self {
        match failure {
            HandshakeFailure::ClientCertificateMissing => Self::Missing,
            failure => Self::Invalid(failure),
        }
    }
}

/// TLS configuration of a listener; cheap to clone.
#[derive(Clone)]
pub struct ListenerTls {
    acceptor: TlsAcceptor,
    /// Verifier of certificates after the handshake, for a listener that answers strangers.
    verifier: Option<Arc<ClientVerifier>>,
}

impl std::fmt::Debug for ListenerTls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ListenerTls")
    }
}

impl ListenerTls {
    /// Creates a configuration from PEM texts: a certificate chain, its key, and the authorities of
    /// client certificates if these are required.
    ///
    /// # Errors
    /// If a text cannot be read, or the key does not match the certificate.
    pub fn from_pem(
        certificate: &[u8],
        key: &[u8],
        client_authorities: Option<&[u8]>,
    ) -> Result<Self, ListenerTlsError> {
        Self::build((certificate, key), client_authorities, Strictness::Required)
    }

    /// Creates a configuration like [`from_pem`](Self::from_pem) under which a client without a
    /// valid certificate passes the handshake as an [`Accepted::Stranger`], so that the server can
    /// answer its request with the reason.
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem).
    pub fn answering_strangers(
        certificate: &[u8],
        key: &[u8],
        client_authorities: Option<&[u8]>,
    ) -> Result<Self, ListenerTlsError> {
        Self::build((certificate, key), client_authorities, Strictness::Asked)
    }

    fn build(
        (certificate, key): (&[u8], &[u8]),
        client_authorities: Option<&[u8]>,
        strictness: Strictness,
    ) -> Result<Self, ListenerTlsError> {
        let unusable = |error: rustls::Error| ListenerTlsError::Key(error.to_string());
        let chain = read_chain(certificate).map_err(ListenerTlsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| ListenerTlsError::Key(error.to_string()))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let verifier = client_authorities.map(|pem| verifier(pem, strictness)).transpose()?;
        let builder = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => {
                builder.with_client_cert_verifier(Arc::<ClientVerifier>::clone(verifier))
            }
        };
        let identity = certified_key(chain, key, &PROVIDER).map_err(unusable)?;
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        // These listeners speak only HTTP/1.1, so no other protocol is offered.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let verifier = verifier.filter(|_| strictness == Strictness::Asked);
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), verifier })
    }

    /// Returns a copy for a listener that speaks only HTTP/2, announced by ALPN (RFC 9113 §3.2).
    pub fn for_http2(&self) -> Self {
        let mut config = ServerConfig::clone(self.acceptor.config());
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self { acceptor, verifier: self.verifier.clone() }
    }

    /// Performs the handshake of an accepted connection.
    ///
    /// # Errors
    /// If the handshake fails or exceeds its timeout, or a required certificate is missing or
    /// invalid.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        match self.accept_any(stream).await? {
            Accepted::Client(stream) => Ok(stream),
            Accepted::Stranger(..) => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Performs the handshake of an accepted connection, and verifies the client's certificate.
    ///
    /// # Errors
    /// If the handshake fails or exceeds its timeout.
    pub async fn accept_any(&self, stream: TcpStream) -> io::Result<Accepted> {
        let accepted = tokio::time::timeout(HANDSHAKE_TIME_MAX, self.acceptor.accept(stream));
        let stream = accepted.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let Some(verifier) = &self.verifier else { return Ok(Accepted::Client(stream)) };
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        Ok(match verifier.verify(chain) {
            Ok(()) => Accepted::Client(stream),
            Err(failure) => Accepted::Stranger(stream, failure.into()),
        })
    }
}

fn verifier(pem: &[u8], strictness: Strictness) -> Result<Arc<ClientVerifier>, ListenerTlsError> {
    let refused = |error: &dyn std::fmt::Display| ListenerTlsError::Authorities(error.to_string());
    let pem = std::str::from_utf8(pem).map_err(|error| refused(&error))?;
    let verifier = ClientVerifier::new(pem, u32::MAX, strictness);
    verifier.map(Arc::new).map_err(|error| refused(&error))
}

fn read_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err("no certificate in PEM found".to_owned()),
        Ok(chain) => Ok(chain),
        Err(error) => Err(error.to_string()),
    }
}
