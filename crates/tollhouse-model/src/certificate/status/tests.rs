//! Tests of OCSP requests, and of valid and invalid responses. Certificates are generated here.
//! Responses are bytes from the test kit, signed with the key that a test chooses.

use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SigningKey,
};
use rustls_pki_types::CertificateDer;
use tollhouse_testkit::responder::{AUTHORITY_INFORMATION_ACCESS, Answer, Says, der, responder_at};

use super::*;

const NOW: i64 = 1_795_000_000;
const DAY: i64 = 24 * 3600;

/// Authority that signs certificates and OCSP responses.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// Returns a certificate whose OCSP responder is at `uri`, and its key.
    fn certify(&self, uri: &str, purpose: ExtendedKeyUsagePurpose) -> (Vec<u8>, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        params.extended_key_usages = vec![purpose];
        let access =
            CustomExtension::from_oid_content(&AUTHORITY_INFORMATION_ACCESS, responder_at(uri));
        params.custom_extensions.push(access);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.der().to_vec(), key)
    }

    fn server(&self) -> CertificateDer<'static> {
        let uri = "http://ocsp.test/a";
        self.certify(uri, ExtendedKeyUsagePurpose::ServerAuth).0.into()
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.issuer.key().sign(text).expect("it signs")
    }

    fn question(&self) -> StatusQuestion {
        StatusQuestion::from_pair(&self.server(), &self.certificate).expect("a question")
    }
}

fn good() -> Answer {
    Answer::good(NOW - DAY, NOW + DAY)
}

#[test]
fn an_issuer_answers_for_its_certificates() {
    let authority = Authority::new("root");
    let question = authority.question();
    assert_eq!(question.responder(), Some("http://ocsp.test/a"));
    for (says, status) in [
        (Says::Good, CertificateStatus::Good),
        (Says::Revoked, CertificateStatus::Revoked),
        (Says::Unknown, CertificateStatus::Unknown),
    ] {
        let answer = Answer { says, ..good() };
        let answer = answer.to(&question.to_der(), |text| authority.sign(text));
        let expected = StatusAnswer { status, since_unix_s: NOW - DAY, until_unix_s: NOW + DAY };
        assert_eq!(question.read(&answer, NOW), Ok(expected));
    }
}

#[test]
fn somebody_answers_on_its_behalf_who_is_certified_for_that_and_nobody_else() {
    let authority = Authority::new("root");
    let question = authority.question();
    let (meant, meant_key) = authority.certify("", ExtendedKeyUsagePurpose::OcspSigning);
    let (other, other_key) = authority.certify("", ExtendedKeyUsagePurpose::ServerAuth);
    // The issuer has the same name, but another key.
    let (stranger, stranger_key) =
        Authority::new("root").certify("", ExtendedKeyUsagePurpose::OcspSigning);
    for (certificates, key, expected) in [
        (vec![meant.clone()], &meant_key, Ok(())),
        (vec![other.clone(), meant.clone()], &meant_key, Ok(())),
        (vec![meant.clone()], &other_key, Err(StatusError::Untrusted)),
        (vec![other], &other_key, Err(StatusError::Untrusted)),
        (vec![stranger], &stranger_key, Err(StatusError::Untrusted)),
        (vec![], &meant_key, Err(StatusError::Untrusted)),
        (vec![b"no certificate".to_vec()], &meant_key, Err(StatusError::Untrusted)),
    ] {
        let answer = Answer { certificates, ..good() };
        let answer = answer.to(&question.to_der(), |text| key.sign(text).expect("it signs"));
        assert_eq!(question.read(&answer, NOW).map(|_| ()), expected);
    }
}

const OUTER: &str = "not an OCSP response";

#[test]
fn an_answer_holds_between_its_dates() {
    let authority = Authority::new("root");
    let question = authority.question();
    for (since, until, expected) in [
        (NOW - DAY, Some(NOW + 1), Ok(NOW + 1)),
        (NOW - DAY, Some(NOW), Err(StatusError::Expired)),
        (NOW + 300, Some(NOW + DAY), Ok(NOW + DAY)),
        (NOW + 301, Some(NOW + DAY), Err(StatusError::NotYet)),
        // `nextUpdate` may be absent.
        (NOW - 10, None, Ok(NOW - 10 + DAY)),
        (NOW - DAY, None, Err(StatusError::Expired)),
    ] {
        let answer = Answer { since_unix_s: since, until_unix_s: until, ..good() };
        let answer = answer.to(&question.to_der(), |text| authority.sign(text));
        assert_eq!(question.read(&answer, NOW).map(|it| it.until_unix_s), expected);
    }
}

#[test]
fn answers_about_others_are_none() {
    let authority = Authority::new("root");
    let (question, other) = (authority.question(), authority.question());
    let answer = good().to(&other.to_der(), |text| authority.sign(text));
    assert_eq!(question.read(&answer, NOW), Err(StatusError::OtherCertificate));
}

#[test]
fn refusals_say_why() {
    let question = Authority::new("root").question();
    for (number, expected) in [
        (1, StatusError::Refused("malformed request")),
        (3, StatusError::Refused("try later")),
        (6, StatusError::Refused("unauthorized: it does not know the certificate")),
        (4, StatusError::Malformed(OUTER)),
        (0, StatusError::Malformed(OUTER)),
    ] {
        assert_eq!(question.read(&Answer::refusal(number), NOW), Err(expected), "{number}");
    }
    let long = vec![0x30; ANSWER_BYTES_MAX + 1];
    assert!(matches!(question.read(&long, NOW), Err(StatusError::Malformed(_))));
    assert!(matches!(question.read(b"<html>", NOW), Err(StatusError::Malformed(_))));
}

#[test]
fn a_chain_without_the_issuer_asks_nobody() {
    let authority = Authority::new("root");
    let (own, stranger) = (authority.server(), Authority::new("other"));
    let asked = StatusQuestion::from_pair(&own, &stranger.certificate);
    assert_eq!(asked, Err(StatusError::NoIssuer));
    let none = StatusQuestion::from_pair(&own, &b"none"[..].into());
    assert_eq!(none, Err(StatusError::Unreadable));
    assert_eq!(StatusQuestion::from_pem(""), Err(StatusError::Unreadable));
}

#[test]
fn responders_are_asked_over_plain_http_or_not_at_all() {
    let authority = Authority::new("root");
    for (uri, expected) in [
        ("http://ocsp.test", Some("http://ocsp.test")),
        ("https://ocsp.test", None),
        ("ldap://ocsp.test", None),
        ("file:///etc/passwd", None),
        ("", None),
    ] {
        let own = authority.certify(uri, ExtendedKeyUsagePurpose::ServerAuth).0.into();
        let question = StatusQuestion::from_pair(&own, &authority.certificate).expect("a question");
        assert_eq!(question.responder(), expected, "{uri}");
    }
}

#[test]
fn no_bit_of_a_good_answer_may_be_another() {
    let authority = Authority::new("root");
    let question = authority.question();
    let answer = good().to(&question.to_der(), |text| authority.sign(text));
    let expected = question.read(&answer, NOW).expect("it is good");
    for place in 0..answer.len() {
        let mut other = answer.clone();
        other[place] ^= 1;
        // A change outside the signed part does not change the result.
        if let Ok(found) = question.read(&other, NOW) {
            assert_eq!(found, expected, "byte {place}");
        }
        assert!(question.read(&answer[..place], NOW).is_err(), "cut at {place}");
    }
    let behind = [&answer[..], &der(0x05, &[])].concat();
    assert!(question.read(&behind, NOW).is_err());
}

proptest! {
    #[test]
    fn whatever_comes_is_an_answer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut elements = der::Der::new(&bytes);
        let mut seen = 0;
        while let Some(element) = elements.next() {
            seen += element.whole.len();
            prop_assert!(element.content.len() < element.whole.len());
        }
        prop_assert!(seen <= bytes.len());
        prop_assert!(SignedResponse::parse(&bytes).is_err());
    }
}
