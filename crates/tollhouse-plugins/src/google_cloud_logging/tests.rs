//! Requests of google-cloud-logging to a small server in the test, which issues tokens and takes
//! entries.

use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;

use super::*;
use crate::logging::test_logger::TestLogger;
use crate::shared::test_server::{TestServer, body, header, reply};

/// Private key in PEM, and the public key that belongs to it.
fn key() -> (String, Vec<u8>) {
    let pair = KeyPair::generate(KeySize::Rsa2048).expect("a key");
    let der: Pkcs8V1Der<'_> = pair.as_der().expect("a key");
    let text = STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    (pem, pair.public_key().as_ref().to_vec())
}

/// Server whose tokens are numbered, and which answers entries with this status.
fn server(status: u16, expires_in: u64) -> TestServer {
    let number = AtomicUsize::new(1);
    TestServer::start(move |request| {
        if request.starts_with("POST /token ") {
            let token = format!("token-{}", number.fetch_add(1, Ordering::SeqCst));
            let answer =
                json!({"access_token": token, "token_type": "Bearer", "expires_in": expires_in});
            return reply(200, "", &answer.to_string());
        }
        reply(status, "", "{}")
    })
}

fn account(server: &TestServer, pem: &str) -> Value {
    json!({
        "client_email": "web@shop.iam", "private_key": pem, "project_id": "shop",
        "token_uri": server.url("/token"), "entries_uri": server.url("/v2/entries:write"),
        "scopes": ["a", "b"],
    })
}

fn logger(account: &Value, more: &Value) -> TestLogger {
    let mut conf = json!({"auth_config": account, "ssl_verify": false, "batch_max_size": 1});
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    TestLogger::new::<GoogleCloudLogging>(&conf, None)
}

#[test]
fn a_signed_assertion_is_exchanged_for_a_token() {
    let (server, (pem, public)) = (server(200, 3_600), key());
    let mut logger = logger(&account(&server, &pem), &json!({}));
    logger.log("GET /1 HTTP/1.1\n\n");
    let request = server.next_request();
    assert_eq!(header(&request, "content-type"), Some("application/x-www-form-urlencoded"));
    let start = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    let assertion = body(&request).strip_prefix(start).expect("the grant of RFC 7523");
    let (signed, signature) = assertion.rsplit_once('.').expect("three parts");
    let (head, claims) = signed.split_once('.').expect("three parts");
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64url");
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public);
    assert!(key.verify(signed.as_bytes(), &decode(signature)).is_ok());
    let head: Value = serde_json::from_slice(&decode(head)).expect("JSON");
    assert_eq!(head, json!({"typ": "JWT", "alg": "RS256"}));
    let mut claims: Value = serde_json::from_slice(&decode(claims)).expect("JSON");
    let (issued, expires) = (claims["iat"].take(), claims["exp"].take());
    assert_eq!(expires.as_u64().unwrap() - issued.as_u64().unwrap(), 3_600);
    let expected = json!({
        "iss": "web@shop.iam", "aud": server.url("/token"), "scope": "a b", "iat": null, "exp": null,
    });
    assert_eq!(claims, expected);
}

#[test]
fn an_entry_is_a_request_with_the_ids_of_its_objects() {
    let (server, (pem, _)) = (server(200, 3_600), key());
    let more = json!({
        "log_id": "web%2Faccess", "resource": {"type": "k8s", "labels": {"zone": "eu"}},
        "log_format_extra": {"path": "$uri"},
    });
    let mut logger = logger(&account(&server, &pem), &more);
    logger.log("GET /hello?a=b HTTP/1.1\nUser-Agent: test/1\n\n");
    server.next_request();
    let request = server.next_request();
    assert!(request.starts_with("POST /v2/entries:write HTTP/1.1\r\n"), "{request}");
    assert_eq!(header(&request, "content-type"), Some("application/json"));
    assert_eq!(header(&request, "authorization"), Some("Bearer token-1"));
    let mut sent: Value = serde_json::from_str(body(&request)).expect("JSON");
    let id = sent["entries"][0]["insertId"].take();
    assert_eq!(id.as_str().map(str::len), Some(32));
    let expected = json!({
        "entries": [{
            "logName": "projects/shop/logs/web%2Faccess",
            "httpRequest": {
                "requestMethod": "GET",
                "requestUrl": "http://test.com:9080/hello?a=b",
                "requestSize": 90,
                "status": 200,
                "responseSize": 190,
                "userAgent": "test/1",
                "remoteIp": "127.0.0.1",
                "serverIp": "127.0.0.1:1980",
                "latency": "0.012s",
            },
            "jsonPayload": {"path": "/hello", "route_id": "r1", "service_id": ""},
            "labels": {"source": "apache-apisix-google-cloud-logging"},
            "timestamp": "2023-11-14T22:13:20.000Z",
            "resource": {"type": "k8s", "labels": {"zone": "eu"}},
            "insertId": null,
        }],
        "partialSuccess": false,
    });
    assert_eq!(sent, expected);
}

#[test]
fn a_token_is_used_until_shortly_before_its_end() {
    let (pem, _) = key();
    for (status, expires_in, expected) in [
        (200, 3_600, ["/token", "/v2", "/v2"]),
        (200, 60, ["/token", "/v2", "/token"]),
        // A token that is not accepted any more is replaced.
        (401, 3_600, ["/token", "/v2", "/token"]),
    ] {
        let server = server(status, expires_in);
        let more = json!({"log_format": {"a": "$uri"}});
        let mut logger = logger(&account(&server, &pem), &more);
        logger.log("GET /1 HTTP/1.1\n\n");
        logger.log("GET /2 HTTP/1.1\n\n");
        for path in expected {
            let request = server.next_request();
            assert!(request.starts_with(&format!("POST {path}")), "{status} {path}: {request}");
        }
    }
}

#[test]
fn an_account_can_be_in_a_file() {
    let (server, (pem, _)) = (server(200, 3_600), key());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("account.json");
    std::fs::write(&path, account(&server, &pem).to_string()).expect("a file");
    let conf = json!({"auth_file": path, "batch_max_size": 1, "log_format": {"a": "$uri"}});
    let mut logger = TestLogger::new::<GoogleCloudLogging>(&conf, None);
    logger.log("GET /1 HTTP/1.1\n\n");
    server.next_request();
    let sent: Value = serde_json::from_str(body(&server.next_request())).expect("JSON");
    assert_eq!(sent["entries"][0]["jsonPayload"], json!({"a": "/1", "route_id": "r1"}));
}

#[test]
fn an_unusable_file_is_named_without_its_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("passwd");
    std::fs::write(&path, "root:x:0").expect("a file");
    for (path, reason) in [
        (path, "it is not the file of a service account"),
        (folder.path().join("missing"), "it cannot be read"),
        (folder.path().to_owned(), "it cannot be read"),
    ] {
        let error = account::read_file(&path).unwrap_err();
        assert_eq!(error, format!("auth_file {}: {reason}", path.display()));
    }
}

#[test]
fn bad_confs_are_refused() {
    let account = |key: &str| json!({"client_email": "a", "private_key": key, "project_id": "p", "token_uri": "http://a"});
    for (conf, inner) in [
        (json!({}), "matches none"),
        (json!({"auth_file": "a", "auth_config": account("k")}), "matches both"),
        (json!({"auth_config": {"client_email": "a"}}), "is required"),
        (json!({"auth_config": account("k")}), "private_key is not a PEM private key for RS256"),
        (json!({"auth_file": "a", "resource": {}}), r#"property "type" is required"#),
    ] {
        let refusal = Harness::refusal::<GoogleCloudLogging>(&conf);
        assert!(refusal.contains(inner), "{conf}: {refusal}");
    }
    let kind = PluginType::new::<GoogleCloudLogging>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
}
