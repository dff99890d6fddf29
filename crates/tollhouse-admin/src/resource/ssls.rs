//! Certificates with their keys, which are stored encrypted and never given back.

use serde_json::Value;
use tollhouse_model::certificate::{self, CertificateError};
use tollhouse_model::secret::is_reference;

use super::{Candidate, Layout, Resource, Verb, no_guard};
use crate::api::Parts;
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "ssls",
    kind: "ssl",
    summary: "A certificate with its key: shown to clients by server name, or to nodes by id.",
    schema: "ssl",
    layout: Layout::Id,
    further: &[Verb::Post, Verb::Patch],
    plugins: None,
    check,
    guard: no_guard,
};

fn check(ssl: &Candidate<'_>) -> Result<(), Reply> {
    check_pair_of(ssl.value, ("cert", "key"), "ssl.key", ssl.parts)?;
    let list = |name: &str| ssl.value.get(name).and_then(Value::as_array);
    let empty = Vec::new();
    let certs = list("certs").unwrap_or(&empty);
    let keys = list("keys").unwrap_or(&empty);
    if certs.len() != keys.len() {
        return Err(Reply::bad("mismatched number of certs and keys"));
    }
    for (index, (cert, key)) in certs.iter().zip(keys).enumerate() {
        check_pair(cert, key, "ssl.keys", ssl.parts).map_err(|error| {
            Reply::bad(format!("failed to handle cert-key pair[{}]: {error}", index + 1))
        })?;
    }
    let authority = ssl.value.get("client").and_then(|client| client.get("ca"));
    if let Some(Value::String(authority)) = authority
        && !is_reference(authority)
        && let Err(error) = certificate::check_authorities(authority)
    {
        return Err(Reply::bad(format!("failed to validate client_cert: {}", error_text(&error))));
    }
    Ok(())
}

/// Refuses a certificate and key, under these names, that do not go together. A key that is sealed
/// was sealed for `place`.
pub(super) fn check_pair_of(
    value: &Value,
    (cert, key): (&str, &str),
    place: &str,
    parts: &Parts,
) -> Result<(), Reply> {
    let (Some(cert), Some(key)) = (value.get(cert), value.get(key)) else { return Ok(()) };
    check_pair(cert, key, place, parts).map_err(Reply::bad)
}

fn check_pair(cert: &Value, key: &Value, place: &str, parts: &Parts) -> Result<(), String> {
    let (Some(cert), Some(key)) = (cert.as_str(), key.as_str()) else { return Ok(()) };
    let is_known = |text: &str| !is_reference(text);
    // What is kept elsewhere can only be judged where it is used.
    if !is_known(cert) || !is_known(key) {
        return Ok(());
    }
    let opened =
        if key.starts_with("---") { None } else { parts.keyring.hidden_in(key, place) };
    if opened.is_none() && !key.starts_with("---") {
        // The certificate is looked at first, as when the key is good.
        certificate::check_chain(cert).map_err(|error| error_text(&error))?;
        return Err("failed to decrypt previous encrypted key".to_owned());
    }
    let key = opened.as_deref().unwrap_or(key);
    certificate::check_pair(cert, key).map(drop).map_err(|error| error_text(&error))
}

/// What is wrong in the words that clients know, which are those of OpenSSL: they tell what could
/// not be read, and not why.
fn error_text(error: &CertificateError) -> String {
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
