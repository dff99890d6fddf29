//! The TLS side of connecting: whom to trust, who to be, what to offer.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tollhouse_net::tls::AcceptAny;

use crate::case::TlsOptions;
use crate::error::BenchError;
use crate::target::Target;

/// What every handshake of a case uses.
pub(super) struct Session {
    /// Trust, identity, protocols.
    pub(super) config: Arc<ClientConfig>,
    /// The name to ask for and to verify.
    pub(super) name: ServerName<'static>,
}

impl Session {
    /// Reads the case's files.
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
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| BenchError::Machine(format!("TLS cannot be set up: {error}")))?;
        // Off by the user's word only: load tests run against certificates of one's own.
        let builder = if options.insecure {
            let verifier = Arc::new(AcceptAny::new(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier)
        } else {
            builder.with_root_certificates(roots(options)?)
        };
        let mut config = match (&options.cert, &options.key) {
            (Some(cert), Some(key)) => builder
                .with_client_auth_cert(chain(cert)?, private_key(key)?)
                .map_err(|error| bad_file(cert, error))?,
            (None, None) => builder.with_no_client_auth(),
            _ => {
                let why = "a client certificate needs both cert and key".into();
                return Err(BenchError::Case { key: "tls".into(), why });
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Self { config: Arc::new(config), name })
    }
}

fn roots(options: &TlsOptions) -> Result<RootCertStore, BenchError> {
    let mut roots = RootCertStore::empty();
    match &options.ca {
        Some(path) => {
            for certificate in chain(path)? {
                roots.add(certificate).map_err(|error| bad_file(path, error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
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
