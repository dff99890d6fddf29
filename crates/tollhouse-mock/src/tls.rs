//! TLS of a mock, with a certificate from files or a generated one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use tokio_rustls::TlsAcceptor;

use super::behaviour::{Behaviour, Tls};
use super::worker::Acceptor;
use crate::error::MockError;

/// ALPN protocols, in order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Creates the TLS acceptor; `None` without TLS.
pub(super) fn acceptor(behaviour: &Behaviour) -> Result<Option<Acceptor>, MockError> {
    let (chain, key) = match &behaviour.tls {
        Tls::Off => return Ok(None),
        Tls::SelfSigned => self_signed(behaviour)?,
        Tls::Files { certificate, key } => from_files(certificate, key)?,
    };
    let unusable = |error: rustls::Error| match &behaviour.tls {
        Tls::Files { key, .. } => MockError::File {
            path: key.clone(),
            why: format!("does not fit the certificate: {error}"),
        },
        Tls::Off | Tls::SelfSigned => cannot_make(&error),
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Some(Acceptor(TlsAcceptor::from(Arc::new(config)))))
}

fn from_files(certificate: &Path, key: &Path) -> Result<Identity, MockError> {
    let error = |path: &Path, why: String| MockError::File { path: path.to_owned(), why };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|reason| error(certificate, reason.to_string()))?;
    if chain.is_empty() {
        return Err(error(certificate, "has no certificate in it; a PEM file is needed".into()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|reason| error(key, reason.to_string()))?;
    Ok((chain, key))
}

/// Generates a certificate for localhost and the listening addresses.
fn self_signed(behaviour: &Behaviour) -> Result<Identity, MockError> {
    let mut names: BTreeSet<String> =
        ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into_iter().collect();
    names.extend(behaviour.listen.iter().map(|address| address.ip().to_string()));
    let names: Vec<String> = names.into_iter().collect();
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| cannot_make(&error))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

fn cannot_make(error: &dyn std::error::Error) -> MockError {
    MockError::Machine(format!("a certificate cannot be made: {error}; use --tls-cert"))
}
