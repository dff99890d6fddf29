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

/// TLS configuration of a listener; cheap to clone.
#[derive(Clone)]
pub struct ListenerTls(TlsAcceptor);

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
        let unusable = |error: rustls::Error| ListenerTlsError::Key(error.to_string());
        let chain = read_chain(certificate).map_err(ListenerTlsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| ListenerTlsError::Key(error.to_string()))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match client_authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let refused = |error: &dyn std::fmt::Display| {
                    ListenerTlsError::Authorities(error.to_string())
                };
                let pem = std::str::from_utf8(authorities).map_err(|error| refused(&error))?;
                let verifier = ClientVerifier::new(pem, u32::MAX, Strictness::Required)
                    .map_err(|error| refused(&error))?;
                builder.with_client_cert_verifier(Arc::new(verifier))
            }
        };
        let identity = certified_key(chain, key, &PROVIDER).map_err(unusable)?;
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        // These listeners speak only HTTP/1.1, so no other protocol is offered.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Returns a copy for a listener that speaks only HTTP/2, announced by ALPN (RFC 9113 §3.2).
    pub fn for_http2(&self) -> Self {
        let mut config = ServerConfig::clone(self.0.config());
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self(TlsAcceptor::from(Arc::new(config)))
    }

    /// Performs the handshake of an accepted connection.
    ///
    /// # Errors
    /// If the handshake fails or exceeds its timeout.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        match tokio::time::timeout(HANDSHAKE_TIME_MAX, self.0.accept(stream)).await {
            Ok(accepted) => accepted,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

fn read_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err("no certificate in PEM found".to_owned()),
        Ok(chain) => Ok(chain),
        Err(error) => Err(error.to_string()),
    }
}
