//! The certificates of one host, and which of them a client is shown.

use std::sync::Arc;

use rustls::SignatureAlgorithm;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

use super::{HostError, PemPair, read_certificates};

/// Certificates for the same names, of different types of keys.
#[derive(Debug)]
pub(super) struct Identities(Vec<Arc<CertifiedKey>>);

impl Identities {
    /// RSA goes last: signing with it costs ten times as much as with the others.
    pub(super) fn new(pairs: &[PemPair<'_>], provider: &CryptoProvider) -> Result<Self, HostError> {
        let mut identities = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let chain = read_certificates(pair.chain).map_err(HostError::Certificate)?;
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())
                .map_err(|error| HostError::Key(error.to_string()))?;
            let identity = CertifiedKey::from_der(chain, key, provider).map_err(HostError::Pair)?;
            identities.push(Arc::new(identity));
        }
        identities.sort_by_key(|identity| identity.key.algorithm() == SignatureAlgorithm::RSA);
        Ok(Self(identities))
    }
}

impl ResolvesServerCert for Identities {
    /// The first with which the client can verify a signature.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = hello.signature_schemes();
        let fits = |identity: &&Arc<CertifiedKey>| identity.key.choose_scheme(offered).is_some();
        self.0.iter().find(fits).cloned()
    }
}
