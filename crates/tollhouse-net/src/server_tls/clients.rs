//! Verification of client certificates against the authorities of a host, up to a maximum depth.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use tollhouse_telemetry::HandshakeFailure;

use super::failure::certificate_failure;
use super::{HostError, fingerprint_of, read_certificates};
use crate::trust::{PROVIDER, TrustedCertificates, verify_handshake_1_2, verify_handshake_1_3};

/// Treatment of a client without a valid certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// A client without a valid certificate fails the handshake.
    Required,
    /// The handshake succeeds; the server of its requests calls [`ClientVerifier::verify`].
    Asked,
}

/// Verifier of the client certificates of a host.
#[derive(Debug)]
pub struct ClientVerifier {
    trusted: TrustedCertificates,
    /// Names of trusted issuers, sent to clients in the certificate request.
    subjects: Vec<DistinguishedName>,
    depth_max: u32,
    strictness: Strictness,
    fingerprint: [u8; 32],
}

impl ClientVerifier {
    /// Creates a verifier from PEM: authorities and trusted client certificates, with at most
    /// `depth_max` intermediate certificates.
    ///
    /// # Errors
    /// If the certificates cannot be read.
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

    /// Returns the fingerprint of the authorities and terms; equal only if both are equal.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// Verifies a client's certificate chain, leaf first, at the current time.
    ///
    /// # Errors
    /// The reason why the chain is not accepted.
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
        // Accepted unverified, because requests to exempt paths may come with any certificate;
        // other requests are verified later.
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
