//! Verifies the certificates of clients: against the authorities of a host, up to a depth.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use tollhouse_telemetry::HandshakeFailure;

use super::failure::certificate_failure;
use super::{HostError, fingerprint_of, read_certificates};
use crate::trust::{PROVIDER, TrustedCertificates, verify_handshake_1_2, verify_handshake_1_3};

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
    trusted: TrustedCertificates,
    /// Names of issuers, as clients are told.
    subjects: Vec<DistinguishedName>,
    depth_max: u32,
    strictness: Strictness,
    fingerprint: [u8; 32],
}

impl ClientVerifier {
    /// Of authorities, and clients' own certificates, in PEM; at most `depth_max` certificates between a client's
    /// own and an authority's.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub fn new(ca_pem: &str, depth_max: u32, strictness: Strictness) -> Result<Self, HostError> {
        let certificates = read_certificates(ca_pem).map_err(HostError::Authorities)?;
        let terms = [&depth_max.to_be_bytes()[..], &[u8::from(strictness == Strictness::Asked)]];
        let ders = certificates.iter().map(|certificate| certificate.as_ref());
        let fingerprint = fingerprint_of(terms.into_iter().chain(ders));
        let trusted = TrustedCertificates::new(certificates)
            .map_err(|error| HostError::Authorities(error.to_string()))?;
        let subjects = trusted.issuer_names();
        Ok(Self { trusted, subjects, depth_max, strictness, fingerprint })
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
        if self.trusted.check_client(own, intermediates, now)? > self.depth_max as usize {
            return Err(CertificateError::ApplicationVerificationFailure);
        }
        Ok(())
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
        verify_handshake_1_2(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_handshake_1_3(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}
