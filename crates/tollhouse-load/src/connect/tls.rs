//! TLS configuration of connections: trusted roots, client identity, ALPN.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tollhouse_net::tls::{TlsError, Trust, client_config};

use crate::case::TlsOptions;
use crate::error::BenchError;
use crate::target::Target;

/// TLS settings shared by all handshakes of a case.
pub(super) struct Session {
    /// Trust, client identity and ALPN protocols.
    pub(super) config: Arc<ClientConfig>,
    /// Server name to send and to verify.
    pub(super) name: ServerName<'static>,
}

impl Session {
    /// Builds the settings from the certificate files of the case.
    pub(super) fn new(
        options: &TlsOptions,
        target: &Target,
        alpn: &[&str],
    ) -> Result<Self, BenchError> {
        let name = options.server_name.as_deref().unwrap_or(&target.host).to_owned();
        let name = ServerName::try_from(name).map_err(|error| BenchError::Case {
            key: "tls.server_name".into(),
            why: error.to_string(),
        })?;
        // Verification is disabled only by explicit option, for load tests against self-made
        // certificates.
        let verifier = match (&options.ca, options.insecure) {
            (_, true) => Trust::Anybody.verifier(),
            (None, false) => Trust::System.verifier(),
            (Some(path), false) => {
                let pem = fs::read_to_string(path).map_err(|error| bad_file(path, error))?;
                Ok(Trust::Authorities(&pem).verifier().map_err(|error| bad_file(path, error))?)
            }
        };
        let unusable =
            |error: TlsError| BenchError::Machine(format!("TLS cannot be set up: {error}"));
        let verifier = verifier.map_err(unusable)?;
        let mut config = match (&options.cert, &options.key) {
            (Some(cert), Some(key)) => {
                client_config(verifier, Some((chain(cert)?, private_key(key)?)))
                    .map_err(|error| bad_file(cert, error))?
            }
            (None, None) => client_config(verifier, None).map_err(unusable)?,
            _ => {
                let why = "a client certificate needs both cert and key".into();
                return Err(BenchError::Case { key: "tls".into(), why });
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Self { config: Arc::new(config), name })
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, BenchError> {
    let pem = fs::read(path).map_err(|error| bad_file(path, error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| bad_file(path, error))?;
    if chain.is_empty() {
        return Err(bad_file(path, "holds no certificate in PEM form"));
    }
    Ok(chain)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, BenchError> {
    let pem = fs::read(path).map_err(|error| bad_file(path, error))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| bad_file(path, error))
}

fn bad_file(path: &Path, why: impl ToString) -> BenchError {
    BenchError::File { path: path.to_owned(), why: why.to_string() }
}
