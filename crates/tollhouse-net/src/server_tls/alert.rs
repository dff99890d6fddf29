//! Alerts that say more exactly than the session layer's why a handshake fails (RFC 5246 §7.2, RFC 8446 §6).
//!
//! All are sent in the clear: before the keys of a session are agreed on.

use rustls::{AlertDescription, Error, ProtocolVersion};

/// A fatal alert as a record.
pub(super) fn record(alert: AlertDescription) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, alert.into()]
}

/// The alert to be sent in the place of the session layer's: `handshake_failure` where client and host have no
/// parameters in common (RFC 5246 §7.4.1.3, RFC 8446 §4.4.2.2), and where a certificate is missing in TLS 1.2, which
/// has no alert for that (RFC 5246 §7.4.6).
pub(super) fn instead(error: &Error, version: Option<ProtocolVersion>) -> Option<[u8; 7]> {
    match error {
        // The session layer's word for a host without a certificate that suits the client.
        Error::General(_) if version != Some(ProtocolVersion::TLSv1_3) => {
            Some(record(AlertDescription::HandshakeFailure))
        }
        Error::NoCertificatesPresented if version == Some(ProtocolVersion::TLSv1_2) => {
            Some(record(AlertDescription::HandshakeFailure))
        }
        _ => None,
    }
}
