//! Elements of a certificate of any version (RFC 5280 §4.1), in encoded form.
//!
//! Signatures, dates, names and extensions are not checked here.

use x509_parser::certificate::Validity;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::der::{self, Der};

/// Slices of the DER of one certificate.
#[derive(Debug, Clone, Copy)]
pub struct CertificateParts<'a> {
    /// X.509 version: 1, 2 or 3.
    pub version: u8,
    /// Bytes that the issuer has signed (`TBSCertificate`).
    pub signed: &'a [u8],
    /// Signature algorithm, without the tag and the length of its sequence.
    pub algorithm: &'a [u8],
    /// Bits of the issuer's signature.
    pub signature: &'a [u8],
    /// Issuer's name, with tag and length.
    pub issuer: &'a [u8],
    /// Subject's name, with tag and length.
    pub subject: &'a [u8],
    /// Public key (`SubjectPublicKeyInfo`), with tag and length.
    pub public_key: &'a [u8],
    validity: &'a [u8],
}

impl<'a> CertificateParts<'a> {
    /// Splits a certificate; `None` if an element is missing, or if the two fields that name the
    /// signature algorithm differ.
    pub fn parse(certificate: &'a [u8]) -> Option<Self> {
        let mut outer = Der::new(certificate);
        let mut fields = Der::new(outer.expect(der::SEQUENCE)?.content);
        let signed = fields.expect(der::SEQUENCE)?;
        let algorithm = fields.expect(der::SEQUENCE)?.content;
        let (0, signature) = fields.expect(der::BITS)?.content.split_first()? else { return None };
        if !outer.is_at_end() || !fields.is_at_end() {
            return None;
        }
        let mut inner = Der::new(signed.content);
        let version = match inner.skip_if(der::EXPLICIT_0) {
            None => 1,
            Some(version) => match Der::new(version.content).expect(der::INTEGER)?.content {
                [number @ 0..=2] => number + 1,
                _ => return None,
            },
        };
        inner.expect(der::INTEGER)?;
        if inner.expect(der::SEQUENCE)?.content != algorithm {
            return None;
        }
        let mut sequence = || inner.expect(der::SEQUENCE).map(|element| element.whole);
        let (issuer, validity) = (sequence()?, sequence()?);
        let (subject, public_key) = (sequence()?, sequence()?);
        let signed = signed.whole;
        Some(Self { version, signed, algorithm, signature, issuer, subject, public_key, validity })
    }

    /// Returns the first and last second of validity, in Unix time.
    pub fn seconds(&self) -> Option<std::ops::RangeInclusive<i64>> {
        let (_, validity) = Validity::from_der(self.validity).ok()?;
        Some(validity.not_before.timestamp()..=validity.not_after.timestamp())
    }
}

/// OID of the TLS feature extension (RFC 7633 §4.2.2), in encoded form.
const TLS_FEATURES: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x18];

/// TLS feature `status_request` (RFC 6066 §8): the server staples an OCSP response.
const STATUS_REQUEST: &[u8] = &[5];

/// Whether clients that check revocation refuse the certificate without a stapled response ("must
/// staple", RFC 7633).
pub fn requires_staple(certificate: &[u8]) -> bool {
    let Ok((_, fields)) = X509Certificate::from_der(certificate) else { return false };
    let mut extensions = fields.extensions().iter();
    let features = extensions.find(|extension| extension.oid.as_bytes() == TLS_FEATURES);
    let Some(features) = features else { return false };
    let list = Der::new(features.value).expect(der::SEQUENCE);
    let mut list = Der::new(list.map_or(&[], |list| list.content));
    std::iter::from_fn(|| list.expect(der::INTEGER)).any(|it| it.content == STATUS_REQUEST)
}

/// Whether the basic constraints forbid the certificate to sign others (RFC 5280 §4.2.1.9). False
/// without that extension.
pub fn refuses_to_sign(certificate: &[u8]) -> bool {
    let Ok((_, fields)) = X509Certificate::from_der(certificate) else { return false };
    matches!(fields.basic_constraints(), Ok(Some(constraints)) if !constraints.value.ca)
}
