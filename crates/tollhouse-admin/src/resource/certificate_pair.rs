//! Checks of certificates and private keys in objects.

use serde_json::Value;
use tollhouse_model::certificate::{self, CertificateError};
use tollhouse_model::secret::is_reference;

use crate::reply::Reply;

/// Refuses an object whose fields `cert` and `key` contain a certificate and a private key that do
/// not match. A key that is still sealed was sealed for another object or field, or with a key that
/// the keyring lacks.
pub(super) fn check_pair_of(value: &Value, cert: &str, key: &str) -> Result<(), Reply> {
    let (Some(cert), Some(key)) = (value.get(cert), value.get(key)) else { return Ok(()) };
    check_pair(cert, key).map_err(Reply::bad)
}

/// Checks that a certificate and a private key match. References to secrets are not resolved and
/// pass.
pub(super) fn check_pair(cert: &Value, key: &Value) -> Result<(), String> {
    let (Some(cert), Some(key)) = (cert.as_str(), key.as_str()) else { return Ok(()) };
    // References to secrets are resolved and checked where they are used.
    if is_reference(cert) || is_reference(key) {
        return Ok(());
    }
    if !key.starts_with("---") {
        // The certificate is checked first, so that its error does not depend on the key.
        certificate::check_chain(cert).map_err(|error| error_text(&error))?;
        return Err("failed to decrypt previous encrypted key".to_owned());
    }
    certificate::check_pair(cert, key).map(drop).map_err(|error| error_text(&error))
}

/// Returns the error text in the words of OpenSSL, which clients know from APISIX.
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
