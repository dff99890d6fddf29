//! Classification of handshake failures.

use rustls::{CertificateError, Error, PeerIncompatible};
use tollhouse_telemetry::HandshakeFailure;

/// Returns the stable failure word for an error of the session layer.
pub fn failure_of(error: &Error) -> HandshakeFailure {
    match error {
        Error::InvalidCertificate(error) => certificate_failure(error),
        Error::NoCertificatesPresented => HandshakeFailure::ClientCertificateMissing,
        Error::NoApplicationProtocol => HandshakeFailure::Protocol,
        Error::AlertReceived(_) => HandshakeFailure::RefusedByClient,
        Error::PeerIncompatible(reason) => match reason {
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::SupportedVersionsExtensionRequired => HandshakeFailure::Version,
            _ => HandshakeFailure::Cipher,
        },
        // The session layer reports `General` if no certificate of the host suits the client.
        Error::General(_) => HandshakeFailure::Cipher,
        _ => HandshakeFailure::Broken,
    }
}

pub(super) fn certificate_failure(error: &CertificateError) -> HandshakeFailure {
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => HandshakeFailure::ClientCertificateExpired,
        CertificateError::UnknownIssuer => HandshakeFailure::ClientCertificateUntrusted,
        CertificateError::ApplicationVerificationFailure => {
            HandshakeFailure::ClientCertificateTooDeep
        }
        _ => HandshakeFailure::ClientCertificateInvalid,
    }
}
