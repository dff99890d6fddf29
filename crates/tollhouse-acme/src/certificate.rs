//! Certificates as issued by the authority and as stored.

use instant_acme::CertificateIdentifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, Der};
use serde_json::{Value, json};
use tollhouse_model::Kind;
use tollhouse_model::certificate::{CertificateFacts, check_pair};
use tollhouse_model::encryption::{Keyring, Owner, SSL_FIELDS, open_fields, seal_fields};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::failure::{Code, Failure, bounded};

/// Properties of a certificate that has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Common name of the issuing authority.
    pub(crate) issuer: String,
    /// First second of validity, in Unix time.
    pub(crate) not_before_s: u64,
    /// Last second of validity, in Unix time.
    pub(crate) not_after_s: u64,
    /// Id of the certificate in requests for renewal information (RFC 9773 §4.1). `None` if the
    /// certificate lacks the necessary extension.
    pub(crate) renewal_id: Option<CertificateIdentifier<'static>>,
}

/// Checks that a chain parses, matches the key, covers the name, and has not expired.
///
/// # Errors
/// If one of these checks fails.
pub(crate) fn check(cert: &str, key: &str, host: &str, now_s: u64) -> Result<Facts, Failure> {
    let unusable = |reason: String| Failure::new(Code::CertificateUnusable, reason);
    let facts = check_pair(cert, key).map_err(|error| unusable(error.to_string()))?;
    let CertificateFacts { subject_names, not_before_unix_s, not_after_unix_s, .. } = &facts;
    if !subject_names.iter().any(|name| name.eq_ignore_ascii_case(host)) {
        return Err(unusable(format!("it covers {}, not {host}", subject_names.join(", "))));
    }
    let seconds = |unix_s: i64| u64::try_from(unix_s).unwrap_or(0);
    let (not_before_s, not_after_s) = (seconds(*not_before_unix_s), seconds(*not_after_unix_s));
    if now_s > not_after_s {
        return Err(unusable("it has expired already".to_owned()));
    }
    let (issuer, renewal_id) = further(cert).unwrap_or_default();
    Ok(Facts { issuer, not_before_s, not_after_s, renewal_id })
}

/// Returns the issuer and the renewal id of the first certificate in a PEM chain.
fn further(cert: &str) -> Option<(String, Option<CertificateIdentifier<'static>>)> {
    let der = CertificateDer::from_pem_slice(cert.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let issuer = certificate.issuer();
    let common_name = issuer.iter_common_name().next().and_then(|name| name.as_str().ok());
    let issuer = common_name.map_or_else(|| issuer.to_string(), str::to_owned);
    let authority_key =
        certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref(),
            _ => None,
        });
    let renewal_id = authority_key.map(|authority_key| {
        let serial = Der::from_slice(certificate.raw_serial());
        CertificateIdentifier::new(Der::from_slice(authority_key.0), serial).into_owned()
    });
    Some((bounded(&issuer), renewal_id))
}

/// Builds the `ssls` object, as the Admin API would store it.
pub(crate) fn object(parts: &ObjectParts<'_>, keyring: &Keyring) -> Value {
    let mut object = json!({
        "id": parts.id,
        "type": "server",
        "snis": [parts.host],
        "cert": parts.cert,
        "key": parts.key,
        "status": 1,
        "labels": { "managed-by": "acme" },
        "create_time": parts.now_s,
        "update_time": parts.now_s,
    });
    let name = name_of(parts.id);
    seal_fields(&mut object, Owner { object: &name, part: "ssl" }, &SSL_FIELDS, keyring);
    object
}

/// Returns the object path to which the sealed values of the object are bound.
fn name_of(id: &str) -> String {
    format!("{}/{id}", Kind::Ssl.plural())
}

/// Values from which an `ssls` object is built.
pub(crate) struct ObjectParts<'a> {
    pub(crate) id: &'a str,
    pub(crate) host: &'a str,
    pub(crate) cert: &'a str,
    pub(crate) key: &'a str,
    pub(crate) now_s: u64,
}

/// Returns the properties of the certificate in an object, if it is usable for the name.
pub(crate) fn read_facts(bytes: &[u8], keyring: &Keyring, host: &str, now_s: u64) -> Option<Facts> {
    let mut object: Value = serde_json::from_slice(bytes).ok()?;
    let name = name_of(object.get("id").and_then(Value::as_str).unwrap_or_default());
    let owner = Owner { object: &name, part: "ssl" };
    if !open_fields(&mut object, owner, &SSL_FIELDS, keyring).is_empty() {
        return None;
    }
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    check(text("cert")?, text("key")?, host, now_s).ok()
}
