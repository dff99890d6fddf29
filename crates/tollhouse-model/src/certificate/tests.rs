//! Tests with certificates for every kind of key, generated here, and with every kind of fault.

use std::time::Duration;

use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm, SigningKey, date_time_ymd};
pub(crate) use tollhouse_testkit::certificate::pem;
use tollhouse_testkit::certificate::version_one;

use super::*;

/// PEM texts of a certificate and its key.
pub(crate) struct Made {
    pub(crate) cert: String,
    pub(crate) key: String,
}

/// Generates a certificate for `a.com` and `*.a.com`, valid from 2001 to the given year.
pub(crate) fn make(algorithm: &'static SignatureAlgorithm, until_year: i32) -> Made {
    let names = vec!["a.com".to_owned(), "*.a.com".to_owned()];
    let mut params = CertificateParams::new(names).expect("they are DNS names");
    params.not_before = date_time_ymd(2001, 2, 3);
    params.not_after = date_time_ymd(until_year, 4, 5);
    let key = KeyPair::generate_for(algorithm).expect("a key can be made");
    let certificate = params.self_signed(&key).expect("a certificate can be made");
    Made {
        cert: pem("CERTIFICATE", certificate.der()),
        key: pem("PRIVATE KEY", &key.serialize_der()),
    }
}

pub(crate) fn usual() -> Made {
    make(&rcgen::PKCS_ECDSA_P256_SHA256, 2090)
}

fn said<T: std::fmt::Debug>(result: Result<T, CertificateError>) -> String {
    result.expect_err("it is refused").to_string()
}

#[test]
fn a_certificate_and_its_key_belong_together_whatever_the_kind() {
    let algorithms = [
        &rcgen::PKCS_RSA_SHA256,
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ECDSA_P521_SHA512,
        &rcgen::PKCS_ED25519,
    ];
    let other = usual();
    for algorithm in algorithms {
        let made = make(algorithm, 2090);
        let facts = check_pair(&made.cert, &made.key).expect("they belong together");
        assert_eq!(facts.subject_names, ["a.com", "*.a.com"]);
        assert_eq!(format_date(facts.not_before_unix_s), "2001-02-03");
        assert_eq!(format_date(facts.not_after_unix_s), "2090-04-05");
        assert_eq!(facts.intermediates, 0);
        assert_eq!(check_pair(&made.cert, &other.key), Err(CertificateError::Mismatch));
        assert_eq!(check_pair(&other.cert, &made.key), Err(CertificateError::Mismatch));
        assert_eq!(check_key(&made.key), Ok(()));
    }
}

#[test]
fn a_certificate_of_version_1_is_read_with_its_key_and_names_nothing() {
    let names = vec!["a.com".to_owned()];
    let key = KeyPair::generate().expect("a key can be made");
    let made = CertificateParams::new(names).expect("a name").self_signed(&key).expect("made");
    let old = version_one(made.der(), |text| key.sign(text).expect("signed"));
    let (cert, key) = (pem("CERTIFICATE", &old), pem("PRIVATE KEY", &key.serialize_der()));
    let facts = check_pair(&cert, &key).expect("they belong together");
    assert_eq!((facts.subject_names.len(), facts.subject_addresses.len()), (0, 0));
    assert_eq!(check_pair(&cert, &usual().key), Err(CertificateError::Mismatch));
    assert_eq!(check_authorities(&cert), Ok(()));
    let chain = usual().cert + &cert;
    assert_eq!(check_chain(&chain).expect("it can be read").intermediates, 1);
    for length in 0..old.len() {
        assert!(CertificateParts::parse(&old[..length]).is_none(), "{length}");
    }
}

#[test]
fn a_certificate_stands_for_its_names_and_addresses_and_no_others() {
    let names = ["a.com", "*.b.com", "192.0.2.1", "2001:db8::1"];
    let params = CertificateParams::new(names.map(str::to_owned)).expect("they are names");
    let key = KeyPair::generate().expect("a key can be made");
    let certificate = params.self_signed(&key).expect("a certificate can be made");
    let facts = check_chain(&pem("CERTIFICATE", certificate.der())).expect("it can be read");
    assert_eq!(facts.subject_names, ["a.com", "*.b.com"]);
    for covered in
        ["a.com", "x.b.com", "192.0.2.1", "2001:db8::1", "[2001:db8::1]", "[2001:db8:0:0:0:0:0:1]"]
    {
        assert!(facts.covers(covered), "{covered}");
    }
    for other in
        ["x.a.com", "b.com", "x.y.b.com", "192.0.2.2", "[2001:db8::2]", "192.0.2.9", "[::]", ""]
    {
        assert!(!facts.covers(other), "{other}");
    }
}

#[test]
fn a_chain_is_read_to_its_end() {
    let (own, next) = (usual(), usual());
    let chain = format!("some words\n{}{}{}", own.cert, next.cert, next.cert);
    let facts = check_pair(&chain, &own.key).expect("the first is the key's");
    assert_eq!(facts.intermediates, 2);
    assert_eq!(check_chain(&chain).as_ref(), Ok(&facts));
    assert_eq!(check_pair(&chain, &next.key), Err(CertificateError::Mismatch));
    let broken = format!("{}{}", own.cert, pem("CERTIFICATE", b"no certificate"));
    assert!(said(check_pair(&broken, &own.key)).starts_with("failed to parse cert: "));
    assert_eq!(check_authorities(&chain), Ok(()));
    assert!(check_authorities(&broken).is_err());
}

#[test]
fn what_is_wrong_is_said_as_apisix_does() {
    let made = usual();
    let encrypted = pem("ENCRYPTED PRIVATE KEY", &[0; 64]);
    let older = made.key.replacen('\n', "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0\n\n", 1);
    let cut = &made.cert[..made.cert.len() / 2];
    let table = [
        ("", made.key.as_str(), "failed to parse cert: no certificate in PEM found"),
        (&made.key, &made.key, "failed to parse cert: no certificate in PEM found"),
        (cut, &made.key, "failed to parse cert: "),
        (&pem("CERTIFICATE", b"\x30\x00"), &made.key, "failed to parse cert: "),
        (&made.cert, "aGVsbG8=", "failed to decrypt previous encrypted key"),
        (&made.cert, &made.cert, "failed to parse key: "),
        (&made.cert, &pem("PRIVATE KEY", b"x"), "failed to parse key: not a key of RSA"),
        (&made.cert, &pem("RSA PRIVATE KEY", b"x"), "failed to parse key: not a key of"),
        (&made.cert, &pem("EC PRIVATE KEY", b"x"), "failed to parse key: not a key of"),
        (&made.cert, &encrypted, "failed to parse key: a passphrase protects it"),
        (&made.cert, &older, "failed to parse key: a passphrase protects it"),
    ];
    for (cert, key, expected) in table {
        let found = said(check_pair(cert, key));
        assert!(found.starts_with(expected), "{expected}: {found}");
    }
}

#[test]
fn a_certificate_is_in_date_between_its_dates() {
    let facts = check_chain(&make(&rcgen::PKCS_ED25519, 2002).cert).expect("it can be read");
    let at = |unix_s: i64| {
        let seconds = u64::try_from(unix_s).expect("it is after 1970");
        facts.validity(UNIX_EPOCH + Duration::from_secs(seconds))
    };
    assert_eq!(at(0), Validity::NotYet);
    assert_eq!(at(facts.not_before_unix_s - 1), Validity::NotYet);
    assert_eq!(at(facts.not_before_unix_s), Validity::Valid);
    assert_eq!(at(facts.not_after_unix_s), Validity::Valid);
    assert_eq!(at(facts.not_after_unix_s + 1), Validity::Expired);
}
