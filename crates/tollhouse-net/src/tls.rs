//! TLS towards upstreams: one connector per client certificate.
//!
//! As in APISIX, certificates are verified where that is asked for: upstreams are named by address.
//! Serving TLS lives elsewhere.

use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::TlsConnector;

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

/// Opens TLS to servers that `trust` takes, with a client certificate (PEM chain, PEM key) or without.
///
/// # Errors
/// When the certificate, the key or the authorities cannot be used.
pub fn connector(client: Option<(&str, &str)>, trust: Trust<'_>) -> Result<Connector, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match trust {
        Trust::Anybody => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
        }
        Trust::System => builder.with_root_certificates(Arc::clone(&SYSTEM_ROOTS)),
        Trust::Authorities(pem) => builder.with_root_certificates(parse_roots(pem)?),
    };
    let config = match client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            builder.with_client_auth_cert(parse_chain(chain)?, parse_key(key)?)?
        }
    };
    Ok(Connector(TlsConnector::from(Arc::new(config))))
}

/// A connector whose handshakes all fail for the given reason: the settings of TLS cannot be honoured.
///
/// # Errors
/// When no protocol version is left.
pub fn refusing_connector(reason: &'static str) -> Result<Connector, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = RefuseAll { reason, accepting: AcceptAny::new(Arc::clone(&provider)) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Connector(TlsConnector::from(Arc::new(config))))
}

/// Refuses any certificate.
#[derive(Debug)]
struct RefuseAll {
    reason: &'static str,
    /// Names the algorithms that a server may sign with.
    accepting: AcceptAny,
}

impl ServerCertVerifier for RefuseAll {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Err(rustls::Error::General(self.reason.to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.accepting.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.accepting.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.accepting.supported_verify_schemes()
    }
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

fn parse_roots(pem: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in parse_chain(pem)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

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

/// Takes any certificate, but checks that the peer has its key: for what is told not to verify.
#[derive(Debug)]
pub struct AcceptAny(Arc<CryptoProvider>);

impl AcceptAny {
    /// With the signature algorithms of a provider.
    pub fn new(provider: Arc<CryptoProvider>) -> Self {
        Self(provider)
    }
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
