//! Revocation status of a certificate by OCSP (RFC 6960): builds requests and verifies responses.
//!
//! Requests identify the issuer by SHA-1 only, because responders that sign in advance accept no
//! other hash (RFC 5019 §2.1.1). This is safe, because responses are verified by the issuer's
//! signature.
//!
//! Responses are untrusted bytes; their encoding is parsed with `certificate/der.rs`. Sending and
//! scheduling requests is not part of this file.

use aws_lc_rs::digest::{self, Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::X509Certificate;

use super::der::{self, Der, Element};
use super::parse_fields;

/// Maximum length of a response in bytes. A response about one certificate has 500 to 2,500,
/// including the responder's own certificate.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of single responses examined in one response; responders sign some together.
const SINGLE_ANSWERS_MAX: usize = 64;

/// Maximum number of certificates in a response that are tried as the signer's. A delegated
/// responder sends its own certificate along.
const RESPONDERS_MAX: usize = 4;

/// Tolerance for a responder's clock that is ahead of ours, in seconds.
const CLOCK_SKEW_S: i64 = 300;

/// Validity, in seconds, assumed for a response without `nextUpdate`. Such a response means that
/// newer information is always available (RFC 6960 §4.2.2.1).
const HOLDS_UNSAID_S: i64 = 24 * 3600;

/// OID `id-ad-ocsp`: the access method that names the responder in a certificate.
const AD_OCSP: &str = "1.3.6.1.5.5.7.48.1";

/// OID `id-pkix-ocsp-basic`: the only supported type of response.
const BASIC_ANSWER: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

/// OID `id-kp-OCSPSigning`: the key usage required of a delegated responder.
const OCSP_SIGNING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09];

/// AlgorithmIdentifier of SHA-1 with explicit NULL parameters, which responders expect.
const SHA1_IDENTIFIER: &[u8] = &[0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00];

/// Hashes by which a response may identify the issuer. The hash is an identifier only, not a proof.
static HASHES: [(&[u8], &Algorithm); 2] = [
    (&[0x2b, 0x0e, 0x03, 0x02, 0x1a], &SHA1_FOR_LEGACY_USE_ONLY),
    (&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01], &SHA256),
];

/// An OCSP request for one certificate, and the data to verify its response.
#[derive(Clone, PartialEq, Eq)]
pub struct StatusQuestion {
    /// Certificate of the authority that issued the certificate in question.
    issuer: CertificateDer<'static>,
    /// Name of the issuer, as encoded in the certificate.
    issuer_name: Vec<u8>,
    /// Bits of the issuer's public key.
    issuer_key: Vec<u8>,
    serial: Vec<u8>,
    responder: Option<String>,
}

impl std::fmt::Debug for StatusQuestion {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("StatusQuestion")
            .field("responder", &self.responder)
            .finish_non_exhaustive()
    }
}

/// Status of a certificate that a responder reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateStatus {
    Good,
    Revoked,
    /// The responder does not know the certificate.
    Unknown,
}

/// Status and validity of a response whose signature was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusAnswer {
    pub status: CertificateStatus,
    /// Start of validity (`thisUpdate`), in Unix time.
    pub since_unix_s: i64,
    /// End of validity (`nextUpdate`), in Unix time.
    pub until_unix_s: i64,
}

/// Why a request cannot be built, or a response is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// The chain does not contain the issuer's certificate.
    #[error("the chain does not contain the certificate of the issuer")]
    NoIssuer,
    /// The certificate or that of its issuer cannot be parsed.
    #[error("the certificate cannot be read")]
    Unreadable,
    #[error("the answer cannot be read: {0}")]
    Malformed(&'static str),
    /// The responder returned an error status.
    #[error("the responder refuses: {0}")]
    Refused(&'static str),
    /// The response is about another certificate.
    #[error("the answer is about another certificate")]
    OtherCertificate,
    /// The response is signed neither by the issuer nor by a delegated responder.
    #[error("the answer is signed neither by the issuer nor on its behalf")]
    Untrusted,
    /// The validity of the response begins in the future.
    #[error("the answer is not valid yet")]
    NotYet,
    /// The response is out of date.
    #[error("the answer has expired")]
    Expired,
}

impl StatusQuestion {
    /// Builds a request for the first certificate of a PEM text; the second one must be its issuer.
    ///
    /// # Errors
    /// If a certificate is missing or unreadable, or the second one is not the issuer.
    pub fn from_pem(chain: &str) -> Result<Self, StatusError> {
        let mut blocks = CertificateDer::pem_slice_iter(chain.as_bytes());
        let mut next = || blocks.next().transpose().map_err(|_| StatusError::Unreadable);
        let own = next()?.ok_or(StatusError::Unreadable)?;
        let issuer = next()?.ok_or(StatusError::NoIssuer)?;
        Self::from_pair(&own, &issuer)
    }

    /// Builds a request for a certificate signed by `issuer`.
    ///
    /// # Errors
    /// If a certificate cannot be parsed, or the names of issuer and signer differ.
    pub fn from_pair(
        own: &CertificateDer<'_>,
        issuer: &CertificateDer<'_>,
    ) -> Result<Self, StatusError> {
        let fields = parse_fields(own).map_err(|_| StatusError::Unreadable)?;
        let signer = parse_fields(issuer).map_err(|_| StatusError::Unreadable)?;
        if fields.issuer().as_raw() != signer.subject().as_raw() {
            return Err(StatusError::NoIssuer);
        }
        Ok(Self {
            issuer: issuer.clone().into_owned(),
            issuer_name: fields.issuer().as_raw().to_vec(),
            issuer_key: signer.public_key().subject_public_key.data.to_vec(),
            serial: fields.raw_serial().to_vec(),
            responder: responder(&fields),
        })
    }

    /// Returns the URL of the responder named in the certificate.
    pub fn responder(&self) -> Option<&str> {
        self.responder.as_deref()
    }

    /// Encodes the request (RFC 6960 §4.1.1). Without a nonce, because responders sign in advance
    /// (RFC 5019); a replayed response is limited by its dates.
    pub fn to_der(&self) -> Vec<u8> {
        let hash = |bytes: &[u8]| digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes);
        let mut id = SHA1_IDENTIFIER.to_vec();
        der::put(der::OCTETS, hash(&self.issuer_name).as_ref(), &mut id);
        der::put(der::OCTETS, hash(&self.issuer_key).as_ref(), &mut id);
        der::put(der::INTEGER, &self.serial, &mut id);
        // Nested sequences: CertID, Request, requestList, TBSRequest, OCSPRequest.
        (0..5).fold(id, |inner, _| {
            let mut outer = Vec::with_capacity(inner.len() + 4);
            der::put(der::SEQUENCE, &inner, &mut outer);
            outer
        })
    }

    /// Verifies a response at the time `now_unix_s`.
    ///
    /// # Errors
    /// If the response is malformed, covers another certificate, has no valid signature, or is not
    /// valid now.
    pub fn read(&self, answer: &[u8], now_unix_s: i64) -> Result<StatusAnswer, StatusError> {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(StatusError::Malformed("longer than 16 KiB"));
        }
        let signed = SignedResponse::parse(answer)?;
        let single = self.find(signed.data.content)?;
        // The dates of a response without a valid signature are not examined.
        self.check_signature(&signed, now_unix_s)?;
        if single.since_unix_s > now_unix_s.saturating_add(CLOCK_SKEW_S) {
            return Err(StatusError::NotYet);
        }
        if single.until_unix_s <= now_unix_s {
            return Err(StatusError::Expired);
        }
        Ok(single)
    }

    /// Finds the single response for this certificate in a `ResponseData`.
    fn find(&self, data: &[u8]) -> Result<StatusAnswer, StatusError> {
        const WHAT: StatusError = StatusError::Malformed("invalid list of responses");
        let mut fields = Der::new(data);
        // Skips the version and the responder's id. The signer is determined by the signature.
        fields.skip_if(der::EXPLICIT_0);
        let who = fields.next().ok_or(WHAT)?;
        if !matches!(who.tag, der::EXPLICIT_1 | der::EXPLICIT_2) {
            return Err(WHAT);
        }
        fields.expect(der::GENERALIZED_TIME).ok_or(WHAT)?;
        let mut singles = Der::new(fields.expect(der::SEQUENCE).ok_or(WHAT)?.content);
        for _ in 0..SINGLE_ANSWERS_MAX {
            let Some(single) = singles.next() else { break };
            let mut single = Der::new(single.content);
            let id = single.expect(der::SEQUENCE).ok_or(WHAT)?;
            if self.is_named_by(id.content) {
                return read_single(&mut single).ok_or(StatusError::Malformed("invalid dates"));
            }
        }
        Err(StatusError::OtherCertificate)
    }

    /// Whether a `CertID` identifies this certificate.
    fn is_named_by(&self, id: &[u8]) -> bool {
        let mut id = Der::new(id);
        let hash = id.expect(der::SEQUENCE).and_then(|it| Der::new(it.content).expect(der::OID));
        let known = hash.and_then(|it| HASHES.iter().find(|(oid, _)| *oid == it.content));
        let Some((_, algorithm)) = known else { return false };
        let is_hash_of = |named: Option<Element<'_>>, bytes: &[u8]| {
            let hash = digest::digest(algorithm, bytes);
            named.is_some_and(|named| named.content == hash.as_ref())
        };
        is_hash_of(id.expect(der::OCTETS), &self.issuer_name)
            && is_hash_of(id.expect(der::OCTETS), &self.issuer_key)
            && id.expect(der::INTEGER).is_some_and(|serial| serial.content == self.serial)
    }

    /// Checks that the response is signed by the issuer, or by a responder that the issuer has
    /// certified for it.
    fn check_signature(
        &self,
        signed: &SignedResponse<'_>,
        now_unix_s: i64,
    ) -> Result<(), StatusError> {
        if signed.is_by(&self.issuer) {
            return Ok(());
        }
        let anchor = webpki::anchor_from_trusted_cert(&self.issuer);
        let anchor = anchor.map_err(|_| StatusError::Unreadable)?;
        let seconds = u64::try_from(now_unix_s).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let is_meant = |certificate: &CertificateDer<'_>| {
            let usage = KeyUsage::required(OCSP_SIGNING);
            EndEntityCert::try_from(certificate).is_ok_and(|responder| {
                let anchors = [anchor.clone()];
                let algorithms = ALL_VERIFICATION_ALGS;
                responder
                    .verify_for_usage(algorithms, &anchors, &[], now, usage, None, None)
                    .is_ok()
            })
        };
        let mut responders = signed.certificates.iter().take(RESPONDERS_MAX);
        match responders.any(|responder| is_meant(responder) && signed.is_by(responder)) {
            true => Ok(()),
            false => Err(StatusError::Untrusted),
        }
    }
}

/// Parses the rest of a `SingleResponse`, after its CertID.
fn read_single(fields: &mut Der<'_>) -> Option<StatusAnswer> {
    let status = match fields.next()?.tag {
        der::IMPLICIT_0 => CertificateStatus::Good,
        der::EXPLICIT_1 => CertificateStatus::Revoked,
        der::IMPLICIT_2 => CertificateStatus::Unknown,
        _ => return None,
    };
    let since_unix_s = der::time(fields.next()?)?;
    let until = fields.skip_if(der::EXPLICIT_0);
    let until_unix_s = match until {
        Some(until) => der::time(Der::new(until.content).next()?)?,
        None => since_unix_s.saturating_add(HOLDS_UNSAID_S),
    };
    Some(StatusAnswer { status, since_unix_s, until_unix_s })
}

/// A parsed `BasicOCSPResponse`.
struct SignedResponse<'a> {
    data: Element<'a>,
    algorithm: &'a [u8],
    signature: &'a [u8],
    certificates: Vec<CertificateDer<'a>>,
}

impl<'a> SignedResponse<'a> {
    /// Parses an `OCSPResponse` (RFC 6960 §4.2.1).
    fn parse(answer: &'a [u8]) -> Result<Self, StatusError> {
        const OUTER: StatusError = StatusError::Malformed("not an OCSP response");
        let mut whole = Der::new(answer);
        let mut outer = Der::new(whole.expect(der::SEQUENCE).ok_or(OUTER)?.content);
        // Trailing bytes would be stapled along with the response, unsigned.
        if whole.next().is_some() || !whole.is_at_end() {
            return Err(StatusError::Malformed("trailing bytes"));
        }
        let status = outer.expect(der::ENUMERATED).ok_or(OUTER)?;
        match status.content {
            [0] => {}
            [1] => return Err(StatusError::Refused("malformed request")),
            [2] => return Err(StatusError::Refused("internal error")),
            [3] => return Err(StatusError::Refused("try later")),
            [5] => return Err(StatusError::Refused("the request should be signed")),
            [6] => {
                return Err(StatusError::Refused("unauthorized: it does not know the certificate"));
            }
            _ => return Err(OUTER),
        }
        let bytes = outer.expect(der::EXPLICIT_0).ok_or(OUTER)?;
        let mut bytes =
            Der::new(Der::new(bytes.content).expect(der::SEQUENCE).ok_or(OUTER)?.content);
        if bytes.expect(der::OID).ok_or(OUTER)?.content != BASIC_ANSWER {
            return Err(StatusError::Malformed("unknown response type"));
        }
        let basic = bytes.expect(der::OCTETS).ok_or(OUTER)?;
        Self::parse_basic(basic.content).ok_or(OUTER)
    }

    fn parse_basic(basic: &'a [u8]) -> Option<Self> {
        let mut fields = Der::new(Der::new(basic).expect(der::SEQUENCE)?.content);
        let data = fields.expect(der::SEQUENCE)?;
        let algorithm = fields.expect(der::SEQUENCE)?.content;
        // The first octet is the number of unused bits, which is 0 for whole octets.
        let (0, signature) = fields.expect(der::BITS)?.content.split_first()? else { return None };
        let mut certificates = Vec::new();
        if let Some(list) = fields.skip_if(der::EXPLICIT_0) {
            let mut list = Der::new(Der::new(list.content).expect(der::SEQUENCE)?.content);
            while let Some(certificate) = list.next() {
                certificates.push(CertificateDer::from(certificate.whole));
            }
        }
        Some(Self { data, algorithm, signature, certificates })
    }

    /// Whether the signature was made with the key of `signer`.
    fn is_by(&self, signer: &CertificateDer<'_>) -> bool {
        let Ok(signer) = EndEntityCert::try_from(signer) else { return false };
        let mut candidates = ALL_VERIFICATION_ALGS.iter();
        candidates.any(|candidate| {
            candidate.signature_alg_id().as_ref() == self.algorithm
                && signer.verify_signature(*candidate, self.data.whole, self.signature).is_ok()
        })
    }
}

/// Returns the first responder URL of a certificate if it uses plain HTTP. Responses are signed; a
/// request over TLS would first need the status of another certificate (RFC 5019 §5).
fn responder(fields: &X509Certificate<'_>) -> Option<String> {
    let descriptions =
        fields.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityInfoAccess(access) => Some(&access.accessdescs),
            _ => None,
        })?;
    descriptions.iter().find_map(|description| match &description.access_location {
        GeneralName::URI(uri) if description.access_method.to_id_string() == AD_OCSP => {
            uri.starts_with("http://").then(|| (*uri).to_owned())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
