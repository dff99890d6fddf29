//! Whether a certificate has been revoked, as the responder of its authority says (OCSP, RFC 6960): what
//! is asked, and what an answer is worth.
//!
//! Questions name the issuer by SHA-1, without an option to name it otherwise: responders whose answers are
//! signed beforehand know no other name (RFC 5019 §2.1.1), and nothing rests on it, since answers are measured by
//! the issuer's signature.
//!
//! Here: questions, and the verdict about answers, each of which is bytes from a stranger. Taking answers
//! apart is in `certificate/der.rs`. Who asks, when and how is nothing of this file.

use aws_lc_rs::digest::{self, Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::X509Certificate;

use super::der::{self, Der, Element};
use super::parse_fields;

/// Bytes of an answer, at most: one about one certificate has 500 to 2,500, the responder's own
/// certificate included.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Answers about single certificates that one may hold: responders sign some together.
const SINGLE_ANSWERS_MAX: usize = 64;

/// Certificates that an answer may bring along: that of a responder to whom its authority has left this.
const RESPONDERS_MAX: usize = 4;

/// By how much the responder's clock may be ahead of ours, in seconds.
const CLOCK_SKEW_S: i64 = 300;

/// How long an answer holds, in seconds, that does not say until when: newer ones may be had at any time
/// (RFC 6960 §4.2.2.1).
const HOLDS_UNSAID_S: i64 = 24 * 3600;

/// `id-ad-ocsp`: where a certificate names its responder.
const AD_OCSP: &str = "1.3.6.1.5.5.7.48.1";

/// `id-pkix-ocsp-basic`, the one type of answers.
const BASIC_ANSWER: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

/// `id-kp-OCSPSigning`: what the certificate of a responder is good for that is not the authority itself.
const OCSP_SIGNING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09];

/// SHA-1 as an algorithm identifier, with its absent parameters spelt out, as responders know it.
const SHA1_IDENTIFIER: &[u8] = &[0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00];

/// The hashes by which an authority may be named: a name, which proves nothing.
static HASHES: [(&[u8], &Algorithm); 2] = [
    (&[0x2b, 0x0e, 0x03, 0x02, 0x1a], &SHA1_FOR_LEGACY_USE_ONLY),
    (&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01], &SHA256),
];

/// A question about one certificate, and what answers to it are measured by.
#[derive(Clone, PartialEq, Eq)]
pub struct StatusQuestion {
    /// The certificate of whoever has signed it.
    issuer: CertificateDer<'static>,
    /// The issuer's name, as the certificate has it.
    issuer_name: Vec<u8>,
    /// The bits of the issuer's key.
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

/// What a responder says of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateStatus {
    /// It is not revoked.
    Good,
    /// It is.
    Revoked,
    /// The responder does not know it.
    Unknown,
}

/// An answer that the authority stands behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusAnswer {
    /// What it says.
    pub status: CertificateStatus,
    /// Since when that is so, in Unix time.
    pub since_unix_s: i64,
    /// Until when it holds, in Unix time.
    pub until_unix_s: i64,
}

/// Why there is no question, or no answer to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// Whoever has signed the certificate is not in the chain.
    #[error("the chain does not hold the certificate of its issuer")]
    NoIssuer,
    /// The certificate or its issuer's cannot be read.
    #[error("the certificate cannot be read")]
    Unreadable,
    /// What came is no answer.
    #[error("the answer cannot be read: {0}")]
    Malformed(&'static str),
    /// The responder answers that it does not answer.
    #[error("the responder refuses: {0}")]
    Refused(&'static str),
    /// It answers about others.
    #[error("the answer is about another certificate")]
    OtherCertificate,
    /// Neither the issuer nor somebody on its behalf has signed it.
    #[error("the answer is not signed by the issuer nor on its behalf")]
    Untrusted,
    /// It is of times to come.
    #[error("the answer does not hold yet")]
    NotYet,
    /// It is over.
    #[error("the answer does not hold any more")]
    Expired,
}

impl StatusQuestion {
    /// About the first certificate of a PEM text, behind which stands whoever has signed it.
    ///
    /// # Errors
    /// The text holds none, or not its issuer.
    pub fn from_pem(chain: &str) -> Result<Self, StatusError> {
        let mut blocks = CertificateDer::pem_slice_iter(chain.as_bytes());
        let mut next = || blocks.next().transpose().map_err(|_| StatusError::Unreadable);
        let own = next()?.ok_or(StatusError::Unreadable)?;
        let issuer = next()?.ok_or(StatusError::NoIssuer)?;
        Self::from_pair(&own, &issuer)
    }

    /// About a certificate that `issuer` has signed.
    ///
    /// # Errors
    /// One of them cannot be read, or it has not.
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

    /// Where the certificate says that is to be asked.
    pub fn responder(&self) -> Option<&str> {
        self.responder.as_deref()
    }

    /// What a responder is sent (RFC 6960 §4.1.1). Without a nonce: responders sign ahead of time
    /// (RFC 5019), and what is repeated to us is worth no more than its dates.
    pub fn to_der(&self) -> Vec<u8> {
        let hash = |bytes: &[u8]| digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes);
        let mut id = SHA1_IDENTIFIER.to_vec();
        der::put(der::OCTETS, hash(&self.issuer_name).as_ref(), &mut id);
        der::put(der::OCTETS, hash(&self.issuer_key).as_ref(), &mut id);
        der::put(der::INTEGER, &self.serial, &mut id);
        // The id in a request, that in the list of them, that in what could be signed, that in all of it.
        (0..5).fold(id, |inner, _| {
            let mut outer = Vec::with_capacity(inner.len() + 4);
            der::put(der::SEQUENCE, &inner, &mut outer);
            outer
        })
    }

    /// What an answer comes to at `now_unix_s`.
    ///
    /// # Errors
    /// It is none, is about something else, is signed by somebody else, or is not of today.
    pub fn read(&self, answer: &[u8], now_unix_s: i64) -> Result<StatusAnswer, StatusError> {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(StatusError::Malformed("it is longer than 16 KiB"));
        }
        let signed = Signed::parse(answer)?;
        let single = self.find(signed.data.content)?;
        // What somebody else has signed is not even looked at for its dates.
        self.check_signature(&signed, now_unix_s)?;
        if single.since_unix_s > now_unix_s.saturating_add(CLOCK_SKEW_S) {
            return Err(StatusError::NotYet);
        }
        if single.until_unix_s <= now_unix_s {
            return Err(StatusError::Expired);
        }
        Ok(single)
    }

    /// The answer about this certificate, of those in a `ResponseData`.
    fn find(&self, data: &[u8]) -> Result<StatusAnswer, StatusError> {
        const WHAT: StatusError = StatusError::Malformed("its list of answers");
        let mut fields = Der::new(data);
        // The version and who answers; whose signature it is decides the signature.
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
                return read_single(&mut single).ok_or(StatusError::Malformed("its dates"));
            }
        }
        Err(StatusError::OtherCertificate)
    }

    /// Whether a `CertID` names this certificate.
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

    /// Whether the issuer has signed the answer, or somebody whom it has certified for that.
    fn check_signature(&self, signed: &Signed<'_>, now_unix_s: i64) -> Result<(), StatusError> {
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

/// The answer in what is left of a `SingleResponse` behind whom it is about.
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

/// A `BasicOCSPResponse`, taken apart.
struct Signed<'a> {
    data: Element<'a>,
    algorithm: &'a [u8],
    signature: &'a [u8],
    certificates: Vec<CertificateDer<'a>>,
}

impl<'a> Signed<'a> {
    /// Of an `OCSPResponse` (RFC 6960 §4.2.1).
    fn parse(answer: &'a [u8]) -> Result<Self, StatusError> {
        const OUTER: StatusError = StatusError::Malformed("it is no answer of a responder");
        let mut whole = Der::new(answer);
        let mut outer = Der::new(whole.expect(der::SEQUENCE).ok_or(OUTER)?.content);
        // Bytes behind the answer would be stapled along, unsigned.
        if whole.next().is_some() || !whole.is_at_end() {
            return Err(StatusError::Malformed("something follows behind it"));
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
            return Err(StatusError::Malformed("its type is none that is known"));
        }
        let basic = bytes.expect(der::OCTETS).ok_or(OUTER)?;
        Self::parse_basic(basic.content).ok_or(OUTER)
    }

    fn parse_basic(basic: &'a [u8]) -> Option<Self> {
        let mut fields = Der::new(Der::new(basic).expect(der::SEQUENCE)?.content);
        let data = fields.expect(der::SEQUENCE)?;
        let algorithm = fields.expect(der::SEQUENCE)?.content;
        // The first octet counts the bits that are none, of which whole octets leave none.
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

    /// Whether the key of `signer` has made the signature.
    fn is_by(&self, signer: &CertificateDer<'_>) -> bool {
        let Ok(signer) = EndEntityCert::try_from(signer) else { return false };
        let mut candidates = ALL_VERIFICATION_ALGS.iter();
        candidates.any(|candidate| {
            candidate.signature_alg_id().as_ref() == self.algorithm
                && signer.verify_signature(*candidate, self.data.whole, self.signature).is_ok()
        })
    }
}

/// The responder that a certificate names first, if that can be asked over plain HTTP: an answer is signed,
/// and asking over TLS would ask for another certificate's answer first (RFC 5019 §5).
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
