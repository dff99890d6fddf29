//! Checks of certificates and their keys: whether they can be parsed, belong together, and are in
//! date.
//!
//! This file checks chains, pairs and CA certificates. Public keys are derived in
//! `certificate/key.rs`; revocation is checked in `certificate/status.rs`. Trust is decided by the
//! peers of a connection, not here.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tollhouse_stdx::civil::CivilTime;
use webpki::EndEntityCert;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

mod der;
mod key;
mod parts;
pub mod status;
mod view;

pub use parts::{CertificateParts, refuses_to_sign, requires_staple};
pub use view::CertificateView;

use status::StatusQuestion;

/// Maximum number of certificates in one text. TLS libraries follow no longer chains, and a bundle
/// of all public CA certificates has some 150.
const CERTIFICATES_MAX: usize = 1_000;

/// Names and validity of a certificate chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// DNS names in the subject alternative names, as written. The common name does not count, as
    /// with current clients.
    pub subject_names: Vec<String>,
    /// IP addresses in the subject alternative names.
    pub subject_addresses: Vec<IpAddr>,
    /// First second in which the certificate is valid, in Unix time.
    pub not_before_unix_s: i64,
    /// Last second in which the certificate is valid, in Unix time.
    pub not_after_unix_s: i64,
    /// Number of certificates in the chain after the first one.
    pub intermediates: usize,
    /// Position, from 1, of the first certificate that was not signed by the next one.
    pub misplaced: Option<usize>,
    /// Whether clients that check revocation refuse the certificate without a stapled response.
    pub requires_staple: bool,
    /// Whether OCSP requests are possible: the certificate names a responder, and its issuer's
    /// certificate follows it.
    pub has_responder: bool,
}

/// State of a certificate's validity at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// The validity period has not begun.
    NotYet,
    Valid,
    Expired,
}

impl CertificateFacts {
    /// Whether the certificate covers `name`, which is in lower case: exact, or `*.` before a
    /// domain. An address, with or without brackets for IPv6, must be among the IP addresses (RFC
    /// 9110 §4.3.5), so that a name `*.0.2.1` does not cover 192.0.2.1.
    pub fn covers(&self, name: &str) -> bool {
        if let Ok(address) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
            return self.subject_addresses.contains(&address);
        }
        let parent = name.split_once('.').map(|(_, parent)| parent);
        self.subject_names.iter().any(|subject| {
            let rest = subject.strip_prefix("*.");
            subject.eq_ignore_ascii_case(name)
                || rest.zip(parent).is_some_and(|(rest, parent)| rest.eq_ignore_ascii_case(parent))
        })
    }

    /// Whether the certificate expires within `time` from `now`.
    pub fn ends_within(&self, now: SystemTime, time: Duration) -> bool {
        self.validity(now + time) == Validity::Expired
    }

    pub fn validity(&self, now: SystemTime) -> Validity {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now_unix_s = i64::try_from(seconds).unwrap_or(i64::MAX);
        if now_unix_s < self.not_before_unix_s {
            Validity::NotYet
        } else if now_unix_s > self.not_after_unix_s {
            Validity::Expired
        } else {
            Validity::Valid
        }
    }
}

/// Formats a Unix time as `2026-11-21`.
pub fn format_date(unix_s: i64) -> String {
    let date = CivilTime::from_unix_seconds(unix_s);
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

/// Why a certificate or its key is invalid. The texts are those of APISIX.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("failed to parse cert: {0}")]
    Certificate(String),
    /// The private key is not PEM text. For example, it is still encrypted with a key that was
    /// lost.
    #[error("failed to decrypt previous encrypted key")]
    StillEncrypted,
    #[error("failed to parse key: {0}")]
    Key(String),
    /// The private key belongs to another certificate.
    #[error("the key does not belong to the certificate")]
    Mismatch,
}

/// Parses a certificate chain and a private key, and checks that they belong together.
///
/// # Errors
/// If the chain or the key cannot be parsed, or they do not belong together. An expired certificate
/// is accepted.
pub fn check_pair(cert_pem: &str, key_pem: &str) -> Result<CertificateFacts, CertificateError> {
    let chain = read_chain(cert_pem)?;
    let certificate = parse_fields(&chain[0])?;
    if key::public_key(key_pem)? != *certificate.public_key().subject_public_key.data {
        return Err(CertificateError::Mismatch);
    }
    facts(&chain)
}

/// Parses a certificate chain.
///
/// # Errors
/// If one of the certificates cannot be parsed.
pub fn check_chain(cert_pem: &str) -> Result<CertificateFacts, CertificateError> {
    facts(&read_chain(cert_pem)?)
}

/// Parses a private key.
///
/// # Errors
/// If the key cannot be parsed, or is protected by a passphrase.
pub fn check_key(key_pem: &str) -> Result<(), CertificateError> {
    key::public_key(key_pem).map(|_| ())
}

/// Parses CA certificates.
///
/// # Errors
/// If a certificate cannot be parsed.
pub fn check_authorities(ca_pem: &str) -> Result<(), CertificateError> {
    for certificate in pem_blocks(ca_pem)? {
        webpki::anchor_from_trusted_cert(&certificate)
            .map_err(|error| unreadable(&error.to_string()))?;
    }
    Ok(())
}

/// Parses all certificates of a PEM text; at least one. X.509 version 1 is accepted, because
/// clients decide whether they trust it.
fn read_chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let chain = pem_blocks(pem)?;
    for certificate in &chain {
        parse_fields(certificate)?;
        if !is_version_one(certificate) {
            parse(certificate)?;
        }
    }
    Ok(chain)
}

fn is_version_one(certificate: &CertificateDer<'_>) -> bool {
    CertificateParts::parse(certificate).is_some_and(|parts| parts.version == 1)
}

/// Returns the DNS names of a certificate; empty for version 1, which has no extensions (RFC 5280
/// §4.1).
fn dns_names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, CertificateError> {
    if is_version_one(certificate) {
        return Ok(Vec::new());
    }
    Ok(parse(certificate)?.valid_dns_names().map(str::to_owned).collect())
}

fn pem_blocks(pem: &str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let mut chain = Vec::new();
    for block in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        chain.push(block.map_err(|error| unreadable(&error.to_string()))?);
        if chain.len() > CERTIFICATES_MAX {
            return Err(unreadable(&format!("more than {CERTIFICATES_MAX} certificates")));
        }
    }
    if chain.is_empty() {
        return Err(unreadable("no certificate in PEM found"));
    }
    Ok(chain)
}

fn parse<'a>(certificate: &'a CertificateDer<'a>) -> Result<EndEntityCert<'a>, CertificateError> {
    EndEntityCert::try_from(certificate).map_err(|error| unreadable(&error.to_string()))
}

/// Parses the fields that webpki does not expose. Validity of certificates is still decided by
/// webpki.
fn parse_fields<'a>(
    certificate: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, CertificateError> {
    let parsed = X509Certificate::from_der(certificate);
    parsed.map(|(_, certificate)| certificate).map_err(|error| unreadable(&error.to_string()))
}

fn facts(chain: &[CertificateDer<'_>]) -> Result<CertificateFacts, CertificateError> {
    let own = &chain[0];
    let fields = parse_fields(own)?;
    let validity = fields.validity();
    let mut misplaced = None;
    for (place, (one, next)) in chain.iter().zip(&chain[1..]).enumerate() {
        let (one, next) = (parse_fields(one)?, parse_fields(next)?);
        if one.issuer().as_raw() != next.subject().as_raw() {
            misplaced = misplaced.or(Some(place + 1));
        }
    }
    Ok(CertificateFacts {
        misplaced,
        subject_names: dns_names(own)?,
        subject_addresses: addresses(&fields),
        not_before_unix_s: validity.not_before.timestamp(),
        not_after_unix_s: validity.not_after.timestamp(),
        intermediates: chain.len() - 1,
        requires_staple: requires_staple(own),
        has_responder: chain.get(1).is_some_and(|issuer| {
            StatusQuestion::from_pair(own, issuer).is_ok_and(|it| it.responder().is_some())
        }),
    })
}

/// Returns the IP addresses in the subject alternative names, which take four or sixteen bytes each
/// (RFC 5280 §4.2.1.6).
fn addresses(fields: &X509Certificate<'_>) -> Vec<IpAddr> {
    let Ok(Some(names)) = fields.subject_alternative_name() else { return Vec::new() };
    let address = |name: &GeneralName<'_>| match name {
        GeneralName::IPAddress(bytes) => <[u8; 4]>::try_from(*bytes)
            .map(IpAddr::from)
            .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
            .ok(),
        _ => None,
    };
    names.value.general_names.iter().filter_map(address).collect()
}

fn unreadable(reason: &str) -> CertificateError {
    CertificateError::Certificate(reason.to_owned())
}

#[cfg(test)]
pub(crate) mod tests;
