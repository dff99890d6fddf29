//! Verifies the certificates of clients: against the authorities of a host, up to a depth.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use tollhouse_telemetry::HandshakeFailure;
use webpki::{EndEntityCert, KeyUsage};

use super::failure::certificate_failure;
use super::{HostError, PROVIDER, fingerprint_of, read_certificates};

/// What becomes of a client without a good certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// The handshake fails.
    Required,
    /// It gets its connection; whoever serves its requests asks [`ClientVerifier::verify`].
    Asked,
}

/// Whom a host takes as clients.
#[derive(Debug)]
pub struct ClientVerifier {
    authorities: Vec<TrustAnchor<'static>>,
    /// Their names, as clients are told.
    subjects: Vec<DistinguishedName>,
    depth_max: u32,
    strictness: Strictness,
    algorithms: WebPkiSupportedAlgorithms,
    fingerprint: [u8; 32],
}

impl ClientVerifier {
    /// Of authorities in PEM; at most `depth_max` certificates may stand between a client's own and
    /// one of them.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub fn new(ca_pem: &str, depth_max: u32, strictness: Strictness) -> Result<Self, HostError> {
        let certificates = read_certificates(ca_pem).map_err(HostError::Authorities)?;
        let mut authorities = Vec::with_capacity(certificates.len());
        for certificate in &certificates {
            let anchor = webpki::anchor_from_trusted_cert(certificate)
                .map_err(|error| HostError::Authorities(error.to_string()))?;
            authorities.push(anchor.to_owned());
        }
        let subject = |anchor: &TrustAnchor<'_>| DistinguishedName::in_sequence(&anchor.subject);
        let terms = [&depth_max.to_be_bytes()[..], &[u8::from(strictness == Strictness::Asked)]];
        let ders = certificates.iter().map(|certificate| certificate.as_ref());
        Ok(Self {
            subjects: authorities.iter().map(subject).collect(),
            authorities,
            depth_max,
            strictness,
            algorithms: provider().signature_verification_algorithms,
            fingerprint: fingerprint_of(terms.into_iter().chain(ders)),
        })
    }

    /// The same for the same authorities and terms, and for no other.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// Whether the chain that a client has shown, its own certificate first, is good now.
    ///
    /// # Errors
    /// Why it is not.
    pub fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), HandshakeFailure> {
        let (own, rest) = chain.split_first().ok_or(HandshakeFailure::ClientCertificateMissing)?;
        self.check(own, rest, UnixTime::now()).map_err(|error| certificate_failure(&error))
    }

    fn check(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        let certificate = EndEntityCert::try_from(own).map_err(certificate_error)?;
        let usage = KeyUsage::client_auth();
        let path = certificate
            .verify_for_usage(
                self.algorithms.all,
                &self.authorities,
                intermediates,
                now,
                usage,
                None,
                None,
            )
            .map_err(certificate_error)?;
        if path.intermediate_certificates().count() > self.depth_max as usize {
            return Err(CertificateError::ApplicationVerificationFailure);
        }
        Ok(())
    }
}

fn provider() -> &'static Arc<CryptoProvider> {
    &PROVIDER
}

fn certificate_error(error: webpki::Error) -> CertificateError {
    match error {
        webpki::Error::BadDer | webpki::Error::BadDerTime => CertificateError::BadEncoding,
        webpki::Error::CertExpired { .. } => CertificateError::Expired,
        webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
        webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer,
        webpki::Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        webpki::Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.strictness == Strictness::Required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // Where paths are exempt, those who ask for them may show whatever they have.
        if self.strictness == Strictness::Required {
            self.check(end_entity, intermediates, now)?;
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
