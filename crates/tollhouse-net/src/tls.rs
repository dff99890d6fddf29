//! TLS towards upstreams: one connector per client certificate.
//!
//! As in APISIX, certificates are verified where that is asked for: upstreams are named by address.
//! Serving TLS lives elsewhere.

use std::sync::{Arc, LazyLock};

use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;

use crate::trust::{PROVIDER, certified_key};

pub use crate::trust::ServerVerifier;

/// HTTP/2 as ALPN names it (RFC 9113 §3.2).
const HTTP2: &[u8] = b"h2";

/// Why a client certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate chain is not PEM, or empty.
    #[error("failed to parse cert: {0}")]
    Certificate(String),
    /// The key is not PEM.
    #[error("failed to parse key: {0}")]
    Key(String),
    /// Key and certificate do not fit, or no protocol version is left.
    #[error("failed to handle cert-key pair: {0}")]
    Pair(#[from] rustls::Error),
}

/// Opens TLS sessions towards upstreams; cheap to clone.
#[derive(Clone)]
pub struct Connector(TlsConnector);

impl Connector {
    /// The same for nodes that are to speak HTTP/2: it is the one protocol that ALPN offers.
    #[must_use]
    pub fn for_http2(&self) -> Self {
        let mut config = ClientConfig::clone(self.0.config());
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }

    /// The session layer's own connector.
    pub(crate) fn inner(&self) -> &TlsConnector {
        &self.0
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Connector")
    }
}

/// Whose certificates servers must show.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// Anybody's, of which they have the key.
    Anybody,
    /// What the system's authorities have signed, for the name that is asked for.
    System,
    /// The same by these authorities, PEM.
    Authorities(&'a str),
}

impl Trust<'_> {
    /// Verifies the certificates of servers accordingly.
    ///
    /// # Errors
    /// When the authorities cannot be used.
    pub fn verifier(self) -> Result<ServerVerifier, TlsError> {
        Ok(match self {
            Trust::Anybody => ServerVerifier::any(),
            Trust::System => ServerVerifier::signed_by(Arc::clone(&SYSTEM_ROOTS))?,
            Trust::Authorities(pem) => ServerVerifier::listed(parse_chain(pem)?)?,
        })
    }
}

/// Opens TLS to servers that `trust` takes, with a client certificate (PEM chain, PEM key) or without.
///
/// # Errors
/// When the certificate, the key or the authorities cannot be used.
pub fn connector(client: Option<(&str, &str)>, trust: Trust<'_>) -> Result<Connector, TlsError> {
    let client = match client {
        None => None,
        Some((chain, key)) => Some((parse_chain(chain)?, parse_key(key)?)),
    };
    let config = client_config(trust.verifier()?, client)?;
    Ok(Connector(TlsConnector::from(Arc::new(config))))
}

/// How sessions are opened to servers that `verifier` takes, with a client certificate or without.
///
/// # Errors
/// When the key cannot be used, or is another certificate's.
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

/// A connector whose handshakes all fail for the given reason: the settings of TLS cannot be honoured.
///
/// # Errors
/// When no protocol version is left.
pub fn refusing_connector(reason: &'static str) -> Result<Connector, TlsError> {
    let config = client_config(ServerVerifier::refusing(reason), None)?;
    Ok(Connector(TlsConnector::from(Arc::new(config))))
}

/// The authorities that the system trusts, read once: that takes milliseconds. Where none can be read,
/// no server is taken.
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
