//! Tests of SSL objects: every field, and the problems of invalid ones.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::*;
use crate::Problems;
use crate::certificate::tests::{Made, make, usual};

/// A moment in 2026.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_000_000)
}

fn parse(value: &Value) -> (Option<Ssl>, Problems) {
    Ssl::parse_at(Id::new("1"), value, "ssls[0]", now())
}

fn good(value: &Value) -> Ssl {
    let (ssl, problems) = parse(value);
    assert_eq!(problems.to_string(), "");
    ssl.expect("no problem was found")
}

fn server(made: &Made) -> Value {
    json!({"cert": made.cert, "key": made.key, "sni": "A.com"})
}

fn with(mut value: Value, field: &str, content: Value) -> Value {
    value[field] = content;
    value
}

fn without(mut value: Value, field: &str) -> Value {
    value.as_object_mut().expect("it is an object").shift_remove(field);
    value
}

#[test]
fn a_certificate_that_requires_a_staple_and_can_get_none_is_warned_of() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(vec!["a.com".to_owned()]).expect("a name");
    let feature = [1, 3, 6, 1, 5, 5, 7, 1, 24];
    let content = vec![0x30, 3, 2, 1, 5];
    params.custom_extensions = vec![rcgen::CustomExtension::from_oid_content(&feature, content)];
    let certificate = params.self_signed(&key).expect("a certificate");
    let made = Made {
        cert: crate::certificate::tests::pem("CERTIFICATE", certificate.der()),
        key: crate::certificate::tests::pem("PRIVATE KEY", &key.serialize_der()),
    };
    let (ssl, problems) = parse(&server(&made));
    assert!(ssl.is_some(), "{problems}");
    assert!(problems.to_string().contains("must-staple"), "{problems}");
}

#[test]
fn a_server_is_read_whole() {
    let (first, second) = (usual(), make(&rcgen::PKCS_ED25519, 2090));
    let ssl = good(&json!({
        "id": 1,
        "type": "server",
        "cert": first.cert,
        "key": first.key,
        "certs": [second.cert],
        "keys": [second.key],
        "snis": ["A.com", "*.a.com", "*"],
        "client": {"ca": first.cert, "depth": 3, "skip_mtls_uri_regex": ["^/health", "(?=/x)"]},
        "ssl_protocols": ["TLSv1.1", "TLSv1.3"],
        "status": 0,
        "name": "n", "desc": "d", "labels": {"a": "b"}, "create_time": 1, "update_time": 2,
    }));
    assert_eq!(ssl.kind, SslKind::Server);
    assert_eq!(ssl.certificates.len(), 2);
    assert_eq!(ssl.certificates[1].key.expose(), second.key);
    assert_eq!(ssl.snis, ["a.com", "*.a.com", "*"]);
    let client = ssl.client.expect("it was given");
    assert_eq!((client.ca, client.depth), (first.cert, 3));
    assert_eq!(client.skip_mtls_uri_regex, ["^/health", "(?=/x)"]);
    assert_eq!(ssl.protocols, [TlsVersion::V1_1, TlsVersion::V1_3]);
    assert!(!ssl.enabled);
}

#[test]
fn defaults_are_apisix_ones() {
    let made = usual();
    let ssl = good(&with(server(&made), "client", json!({"ca": made.cert})));
    assert_eq!((ssl.kind, ssl.enabled), (SslKind::Server, true));
    assert_eq!(ssl.snis, ["a.com"]);
    assert_eq!(ssl.protocols, []);
    let client = ssl.client.expect("it was given");
    assert_eq!((client.depth, client.skip_mtls_uri_regex.len()), (1, 0));

    let client = json!({"type": "client", "cert": made.cert, "key": made.key});
    let ssl = good(&client);
    assert_eq!((ssl.kind, ssl.snis.len()), (SslKind::Client, 0));
}

#[test]
fn settings_of_stapling_are_those_of_apisix() {
    let made = usual();
    let with_settings = |settings: Value| parse(&with(server(&made), "ocsp_stapling", settings));
    for (settings, warned) in [
        (json!({}), ""),
        (json!({"enabled": true, "skip_verify": false, "cache_ttl": 60}), ""),
        (json!({"enabled": false}), "stapling cannot be turned off for one certificate"),
        (json!({"enabled": true, "skip_verify": true}), "responses are verified all the same"),
    ] {
        let (ssl, problems) = with_settings(settings.clone());
        assert!(ssl.is_some(), "{settings}: {problems}");
        let reasons: Vec<_> = problems.iter().map(|problem| &*problem.reason).collect();
        assert_eq!(reasons.concat(), warned, "{settings}");
    }
    for settings in [json!(true), json!({"enabled": 1}), json!({"cache_ttl": 59})] {
        assert!(with_settings(settings.clone()).1.has_errors(), "{settings}");
    }
}

#[test]
fn keys_are_never_shown() {
    let made = usual();
    let shown = format!("{:?}", good(&server(&made)));
    assert!(shown.contains("key: ***"), "{shown}");
    assert!(!shown.contains("PRIVATE"), "{shown}");
    let other = usual();
    for wrong in [json!(made.key.repeat(400)), json!([made.key]), json!(other.key)] {
        let (_, problems) = parse(&with(server(&made), "key", wrong));
        assert!(problems.has_errors());
        assert!(!problems.to_string().contains("PRIVATE"), "{problems}");
    }
}

#[test]
fn what_refers_to_a_secret_is_checked_later() {
    let made = usual();
    let table = [
        ("$secret://vault/1/ssl/cert", "$env://KEY", ""),
        (made.cert.as_str(), "$ENV://KEY", ""),
        ("$ENV://CERT", made.key.as_str(), ""),
        ("$ENV://CERT", made.cert.as_str(), "ssls[0].cert: failed to parse key: "),
        (made.key.as_str(), "$ENV://KEY", "ssls[0].cert: failed to parse cert: "),
    ];
    for (cert, key, expected) in table {
        let (ssl, problems) = parse(&json!({"cert": cert, "key": key, "sni": "a.com"}));
        assert_eq!(ssl.is_some(), expected.is_empty(), "{problems}");
        assert!(problems.to_string().starts_with(expected), "{problems}");
    }
}

#[test]
fn a_certificate_out_of_date_serves_with_a_warning() {
    let old = make(&rcgen::PKCS_ECDSA_P256_SHA256, 2002);
    let (ssl, problems) = parse(&server(&old));
    assert!(ssl.is_some());
    assert_eq!(
        problems.to_string(),
        "ssls[0].cert: expired on 2002-04-05; clients that verify it will refuse the connection"
    );
    let early = Ssl::parse_at(Id::new("1"), &server(&usual()), "s", SystemTime::UNIX_EPOCH).1;
    assert!(early.to_string().starts_with("s.cert: not valid before 2001-02-03"), "{early}");
}

#[test]
fn what_is_wrong_is_said() {
    let (made, other) = (usual(), usual());
    let base = || server(&made);
    let client = |value: Value| with(base(), "client", value);
    let pairs = |certs: Value, keys: Value| with(with(base(), "certs", certs), "keys", keys);
    let scrambled = "aGVsbG8K".repeat(16);
    let table = [
        (without(base(), "sni"), "then clause did not match"),
        (without(base(), "cert"), "then clause did not match"),
        (without(base(), "key"), "then clause did not match"),
        (with(base(), "snis", json!(["b.com"])), "then clause did not match"),
        (json!({}), "then clause did not match"),
        (json!({"type": "client", "cert": made.cert}), "else clause did not match"),
        (with(base(), "type", json!("both")), "matches none of the enum values"),
        (with(base(), "cert", json!("x")), "string too short, expected at least 128, got 1"),
        (with(base(), "key", json!("x")), "string too short, expected at least 64, got 1"),
        (with(base(), "cert", json!("x".repeat(65_537))), "at most 65536, got 65537"),
        (with(base(), "cert", json!("x".repeat(200))), "ssls[0].cert: failed to parse cert: "),
        (with(base(), "key", json!(made.cert)), "failed to parse key: "),
        (with(base(), "key", json!(scrambled)), "failed to decrypt previous encrypted key"),
        (with(base(), "key", json!(other.key)), "the key does not belong to the certificate"),
        (with(base(), "certs", json!([made.cert])), "mismatched number of certs and keys"),
        (pairs(json!([]), json!([made.key])), "mismatched number of certs and keys"),
        (
            pairs(json!([made.cert, made.cert]), json!([made.key, other.key])),
            "ssls[0].certs[1]: failed to handle cert-key pair[2]: the key does not belong",
        ),
        (
            pairs(json!(["x".repeat(200)]), json!([made.key])),
            "failed to handle cert-key pair[1]: failed to parse cert: ",
        ),
        (
            pairs(json!([made.cert]), json!([scrambled])),
            "failed to handle cert-key pair[1]: failed to decrypt previous encrypted key",
        ),
        (pairs(json!(vec![made.cert.as_str(); 17]), json!([])), "at most 16 items"),
        (pairs(json!("x"), json!([])), "ssls[0].certs: wrong type: expected array, got string"),
        (with(base(), "sni", json!("a b")), "failed to match pattern"),
        (with(without(base(), "sni"), "snis", json!([])), "expect array to have at least 1 items"),
        (client(json!({})), "property \"ca\" is required"),
        (client(json!({"ca": made.key})), "failed to validate client_cert: failed to parse cert"),
        (client(json!({"ca": made.cert, "depth": -1})), "expected -1 to be at least 0"),
        (
            client(json!({"ca": made.cert, "skip_mtls_uri_regex": []})),
            "expect array to have at least 1 items",
        ),
        (
            client(json!({"ca": made.cert, "skip_mtls_uri_regex": ["/a", "/a"]})),
            "expected unique items but items 1 and 2 are equal",
        ),
        (
            client(json!({"ca": made.cert, "skip_mtls_uri_regex": ["("]})),
            "ssls[0].client.skip_mtls_uri_regex[0]: invalid regular expression",
        ),
        (with(base(), "ssl_protocols", json!(["TLSv1.0"])), "matches none of the enum values"),
        (with(base(), "ssl_protocols", json!(["TLSv1.2", "TLSv1.2"])), "expected unique items"),
        (with(base(), "status", json!(2)), "matches none of the enum values"),
        (with(base(), "id", json!("2")), "wrong id"),
        (with(base(), "certificate", json!("x")), "unknown field \"certificate\""),
        (json!(1), "wrong type: expected object, got number"),
    ];
    for (value, expected) in table {
        let (ssl, problems) = parse(&value);
        assert!(ssl.is_none(), "{expected}");
        assert!(problems.to_string().contains(expected), "{expected}: {problems}");
    }
}
