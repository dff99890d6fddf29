//! Self-signed certificate of our own server, generated at each start.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::BenchError;

/// Creates a TLS acceptor with a self-signed certificate, which clients must accept unverified.
pub(super) fn acceptor() -> Result<TlsAcceptor, BenchError> {
    let failed = |error: &dyn std::error::Error| {
        BenchError::Machine(format!("a certificate cannot be made: {error}; leave --tls out"))
    };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .map_err(|error| failed(&error))?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .map_err(|error| failed(&error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
