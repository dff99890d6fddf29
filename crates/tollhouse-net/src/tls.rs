//! TLS sessions to upstreams: one connector per client certificate.
//!
//! Certificates of nodes are verified only if configured, as in APISIX, because upstreams are
//! usually addressed by IP. The server side is in `server_tls.rs`.

use std::sync::{Arc, LazyLock};

use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;

use crate::trust::{PROVIDER, certified_key};

pub use crate::trust::ServerVerifier;

/// ALPN name of HTTP/2 (RFC 9113 §3.2).
const HTTP2: &[u8] = b"h2";

/// Why a client certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate chain is empty or not PEM.
    #[error("failed to parse cert: {0}")]
    Certificate(String),
    /// The private key is not in PEM format.
    #[error("failed to parse key: {0}")]
    Key(String),
    /// Key and certificate do not match, or no protocol version is left.
    #[error("failed to handle cert-key pair: {0}")]
    Pair(#[from] rustls::Error),
}

/// Opens TLS sessions to upstreams; cheap to clone.
#[derive(Clone)]
pub struct Connector(TlsConnector);

impl Connector {
    /// Returns a copy of the connector with HTTP/2 as the only ALPN protocol.
    #[must_use]
    pub fn for_http2(&self) -> Self {
        let mut config = ClientConfig::clone(self.0.config());
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }

    pub(crate) fn inner(&self) -> &TlsConnector {
        &self.0
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Connector")
    }
}

/// Rule for which server certificates are accepted.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// Any certificate is accepted if the server has its key.
    Anybody,
    /// A certificate signed by the system's authorities for the requested name.
    System,
    /// A certificate signed by these authorities (PEM) for the requested name.
    Authorities(&'a str),
}

impl Trust<'_> {
    /// Returns the verifier of server certificates.
    ///
    /// # Errors
    /// If the authorities are unusable.
    pub fn verifier(self) -> Result<ServerVerifier, TlsError> {
        Ok(match self {
            Trust::Anybody => ServerVerifier::any(),
            Trust::System => ServerVerifier::signed_by(Arc::clone(&SYSTEM_ROOTS))?,
            Trust::Authorities(pem) => ServerVerifier::listed(parse_chain(pem)?)?,
        })
    }
}

/// Creates a connector for servers that `trust` accepts, with or without a client certificate (PEM
/// chain, PEM key).
///
/// # Errors
/// If the certificate, the key or the authorities are unusable.
pub fn connector(client: Option<(&str, &str)>, trust: Trust<'_>) -> Result<Connector, TlsError> {
    let client = match client {
        None => None,
        Some((chain, key)) => Some((parse_chain(chain)?, parse_key(key)?)),
    };
    let config = client_config(trust.verifier()?, client)?;
    Ok(Connector(TlsConnector::from(Arc::new(config))))
}

/// Returns the session configuration for servers that `verifier` accepts, with or without a client
/// certificate.
///
/// # Errors
/// If the key is unusable or does not match the certificate.
pub fn client_config(
    verifier: ServerVerifier,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(match client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let identity = certified_key(chain, key, &PROVIDER)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
    })
}

/// Creates a connector whose handshakes all fail for the given reason, because its TLS settings
/// cannot be applied.
///
/// # Errors
/// If no protocol version is left.
pub fn refusing_connector(reason: &'static str) -> Result<Connector, TlsError> {
    let config = client_config(ServerVerifier::refusing(reason), None)?;
    Ok(Connector(TlsConnector::from(Arc::new(config))))
}

/// Authorities trusted by the system, read once because that takes milliseconds. If none can be
/// read, every server is refused.
static SYSTEM_ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some root certificates of the system cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    Arc::new(roots)
});

fn parse_chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let chain = chain.map_err(|error| TlsError::Certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::Certificate("no certificate in the text".into()));
    }
    Ok(chain)
}

fn parse_key(pem: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| TlsError::Key(error.to_string()))
}
