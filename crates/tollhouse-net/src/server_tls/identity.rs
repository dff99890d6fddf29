//! Certificates of a host, their selection per client, and their OCSP staples (RFC 6066 §8, RFC
//! 8446 §4.4.2.1).
//!
//! Staples are replaced while a host is in service; they are fetched elsewhere.

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use aws_lc_rs::digest::{SHA256, digest};
use rustls::SignatureAlgorithm;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{HostError, PemPair, read_certificates};
use crate::trust::certified_key;

/// Certificates for one set of names, with different types of keys.
#[derive(Debug, Default)]
pub(super) struct Identities(Vec<Arc<Identity>>);

/// A certificate with its key and its staple.
#[derive(Debug)]
pub struct Identity {
    plain: Arc<CertifiedKey>,
    /// SHA-256 of the certificate, computed on first use.
    fingerprint: OnceLock<[u8; 32]>,
    stapled: ArcSwapOption<StapledCertificate>,
}

/// A certificate with its stapled OCSP response.
#[derive(Debug)]
struct StapledCertificate {
    shown: Arc<CertifiedKey>,
    until_unix_s: i64,
}

/// OCSP response that is sent with a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staple {
    /// Response in DER, as signed by the responder.
    pub answer: Arc<[u8]>,
    /// End of its validity, in Unix time.
    pub until_unix_s: i64,
}

impl Identity {
    fn new(key: CertifiedKey) -> Arc<Self> {
        Arc::new(Self {
            plain: Arc::new(key),
            fingerprint: OnceLock::new(),
            stapled: ArcSwapOption::empty(),
        })
    }

    /// Returns the certificate chain, leaf first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.plain.cert
    }

    /// Returns the SHA-256 of the leaf certificate, computed once; zeros if the chain is empty.
    pub fn fingerprint(&self) -> &[u8; 32] {
        self.fingerprint.get_or_init(|| {
            let mut fingerprint = [0; 32];
            if let Some(own) = self.chain().first() {
                fingerprint.copy_from_slice(digest(&SHA256, own).as_ref());
            }
            fingerprint
        })
    }

    /// Sets or removes the staple, from the next handshake on.
    pub fn set_staple(&self, staple: Option<&Staple>) {
        self.stapled.store(staple.map(|staple| {
            let mut shown = CertifiedKey::clone(&self.plain);
            shown.ocsp = Some(staple.answer.to_vec());
            Arc::new(StapledCertificate {
                shown: Arc::new(shown),
                until_unix_s: staple.until_unix_s,
            })
        }));
    }

    /// Returns the certificate to present at `now_unix_s`, without an expired staple, because
    /// clients reject an expired one but accept a missing one.
    fn current(&self, now_unix_s: i64) -> Arc<CertifiedKey> {
        match &*self.stapled.load() {
            Some(stapled) if now_unix_s < stapled.until_unix_s => Arc::clone(&stapled.shown),
            _ => Arc::clone(&self.plain),
        }
    }
}

impl Identities {
    /// Reads the certificates; RSA is sorted last, because its signatures cost ten times as much.
    pub(super) fn new(pairs: &[PemPair<'_>], provider: &CryptoProvider) -> Result<Self, HostError> {
        let mut identities = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let chain = read_certificates(pair.chain).map_err(HostError::Certificate)?;
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())
                .map_err(|error| HostError::Key(error.to_string()))?;
            let identity = certified_key(chain, key, provider).map_err(HostError::Pair)?;
            identities.push(Identity::new(identity));
        }
        identities
            .sort_by_key(|identity| identity.plain.key.algorithm() == SignatureAlgorithm::RSA);
        Ok(Self(identities))
    }

    pub(super) fn all(&self) -> &[Arc<Identity>] {
        &self.0
    }
}

impl ResolvesServerCert for Identities {
    /// Returns the first certificate whose signature the client can verify.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = hello.signature_schemes();
        let fits = |it: &&Arc<Identity>| it.plain.key.choose_scheme(offered).is_some();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now_unix_s = i64::try_from(now).unwrap_or(i64::MAX);
        self.0.iter().find(fits).map(|identity| identity.current(now_unix_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staple_is_shown_until_it_is_over() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let made = rcgen::CertificateParams::default().self_signed(&key).expect("a certificate");
        let der = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let pair = CertifiedKey::from_der(vec![made.der().clone()], der, &provider);
        let identity = Identity::new(pair.expect("a pair"));
        let shown = |now| identity.current(now).ocsp.clone();
        assert_eq!(shown(0), None);
        let staple = Staple { answer: (*b"good").into(), until_unix_s: 100 };
        identity.set_staple(Some(&staple));
        assert_eq!((shown(99).as_deref(), shown(100)), (Some(&b"good"[..]), None));
        identity.set_staple(None);
        assert_eq!(shown(99), None);
    }
}
