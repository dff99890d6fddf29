//! Alerts that describe a handshake failure more precisely than the session layer's own (RFC 5246
//! §7.2, RFC 8446 §6).
//!
//! All of them are sent unencrypted, before session keys are established.

use rustls::{AlertDescription, Error, ProtocolVersion};

/// Returns a TLS record with this alert at level fatal.
pub(super) fn record(alert: AlertDescription) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, alert.into()]
}

/// Returns the alert to be sent in place of the session layer's: `handshake_failure` if client and
/// host have no parameters in common (RFC 5246 §7.4.1.3, RFC 8446 §4.4.2.2), or if a client
/// certificate is missing in TLS 1.2, which has no alert for that (RFC 5246 §7.4.6).
pub(super) fn instead(error: &Error, version: Option<ProtocolVersion>) -> Option<[u8; 7]> {
    match error {
        // The session layer reports `General` if no certificate of the host suits the client.
        Error::General(_) if version != Some(ProtocolVersion::TLSv1_3) => {
            Some(record(AlertDescription::HandshakeFailure))
        }
        Error::NoCertificatesPresented if version == Some(ProtocolVersion::TLSv1_2) => {
            Some(record(AlertDescription::HandshakeFailure))
        }
        _ => None,
    }
}
