//! Checks of certificates and private keys in objects.

use serde_json::Value;
use tollhouse_model::certificate::{self, CertificateError};
use tollhouse_model::secret::is_reference;

use crate::context::Parts;
use crate::reply::Reply;

/// Checks that the certificate and the private key in these fields match. `place` is the field for
/// which the key was sealed.
pub(super) fn check_pair_of(
    value: &Value,
    (cert, key): (&str, &str),
    place: &str,
    parts: &Parts,
) -> Result<(), Reply> {
    let (Some(cert), Some(key)) = (value.get(cert), value.get(key)) else { return Ok(()) };
    check_pair(cert, key, place, parts).map_err(Reply::bad)
}

/// Checks that a certificate and a private key match. References to secrets are not resolved and
/// pass.
pub(super) fn check_pair(
    cert: &Value,
    key: &Value,
    place: &str,
    parts: &Parts,
) -> Result<(), String> {
    let (Some(cert), Some(key)) = (cert.as_str(), key.as_str()) else { return Ok(()) };
    let is_known = |text: &str| !is_reference(text);
    // Secret references are checked where they are used.
    if !is_known(cert) || !is_known(key) {
        return Ok(());
    }
    let opened = if key.starts_with("---") { None } else { parts.keyring.hidden_in(key, place) };
    if opened.is_none() && !key.starts_with("---") {
        // The certificate is checked first, as it is with a readable key.
        certificate::check_chain(cert).map_err(|error| error_text(&error))?;
        return Err("failed to decrypt previous encrypted key".to_owned());
    }
    let key = opened.as_deref().unwrap_or(key);
    certificate::check_pair(cert, key).map(drop).map_err(|error| error_text(&error))
}

/// Error text in the words of OpenSSL, which clients know.
pub(super) fn error_text(error: &CertificateError) -> String {
    match error {
        CertificateError::Certificate(_) => {
            "failed to parse cert: PEM_read_bio_X509_AUX() failed".to_owned()
        }
        CertificateError::Key(_) => {
            "failed to parse key: PEM_read_bio_PrivateKey() failed".to_owned()
        }
        CertificateError::StillEncrypted | CertificateError::Mismatch => error.to_string(),
    }
}
