//! Secrets: values that are stored encrypted, and values that answers contain.

use base64::Engine;

use super::*;

/// A certificate for test.com with its key, both PEM.
pub(super) fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["test.com".to_owned()]);
    let made = made.expect("a certificate can be made");
    (pem("CERTIFICATE", made.cert.der()), pem("PRIVATE KEY", made.signing_key.serialized_der()))
}

pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned());
    let lines: Vec<String> = lines.collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

async fn stored(fixture: &Fixture, key: &str) -> Value {
    let entry = fixture.store.get(key).await.expect("it can be read").expect("it is there");
    serde_json::from_slice(&entry.value).expect("it is JSON")
}

#[tokio::test]
async fn credentials_lie_sealed_and_are_shown_to_those_who_may_write_them() {
    let fixture = Fixture::new().await;
    let consumer = json!({"username": "jack", "plugins": {"key-auth": {"key": "auth-one"}}});
    let written = fixture.put("/consumers", &consumer).await.json();
    let hidden = "4y+JvURBE6ZwRbbgaryrhg==";
    let place = "/plugins/key-auth/key";
    assert_eq!(written["value"].pointer(place), Some(&json!(hidden)), "as it is stored");
    let at_rest = stored(&fixture, "/apisix/consumers/jack").await;
    assert_eq!(at_rest.pointer(place), Some(&json!(hidden)));
    let shown = fixture.get("/consumers/jack").await.json();
    assert_eq!(shown["value"].pointer(place), Some(&json!("auth-one")));
    let listed = fixture.get("/consumers").await.json();
    assert_eq!(listed["list"][0]["value"].pointer(place), Some(&json!("auth-one")));

    fixture
        .given(&[(
            "/consumers/jack/credentials/c",
            json!({
                "plugins": {"basic-auth": {"username": "u", "password": "p"}},
            }),
        )])
        .await;
    let at_rest = stored(&fixture, "/apisix/consumers/jack/credentials/c").await;
    assert_ne!(at_rest["plugins"]["basic-auth"]["password"], "p");
    let shown = fixture.get("/consumers/jack/credentials/c").await.json();
    assert_eq!(shown["value"]["plugins"]["basic-auth"]["password"], "p");
}

#[tokio::test]
async fn a_viewer_reads_no_secret() {
    let fixture = Fixture::new().await;
    let (cert, key) = certificate();
    let upstream = json!({
        "nodes": {"127.0.0.1:1": 1}, "tls": {"client_cert": cert, "client_key": key},
    });
    let vault = json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "open-sesame"});
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "open-sesame"}}});
    let mut guarded = route();
    guarded["plugins"] = json!({"csrf": {"key": "open-sesame"}});
    let table = [
        ("/consumers/jack", jack, "/plugins/key-auth/key"),
        ("/routes/1", guarded, "/plugins/csrf/key"),
        ("/secrets/vault/1", vault, "/token"),
        ("/upstreams/1", upstream, "/tls/client_key"),
    ];
    for (path, value, place) in table {
        let secret = value.pointer(place).expect(path).clone();
        let plain = secret.as_str().expect(path);
        let answer = fixture.put(path, &value).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        // Secret managers are returned as they were sent.
        let is_plain = answer.text.contains("open-sesame") || answer.text.contains("PRIVATE");
        assert_eq!(is_plain, path.starts_with("/secrets"), "{path}");
        let (one, list) = (path.to_owned(), path.rsplit_once('/').expect(path).0.to_owned());
        for asked in [one.as_str(), list.as_str()] {
            let shown = fixture.call_as(VIEWER, "GET", asked).await;
            assert_eq!(shown.status, 200, "{asked}");
            assert!(!shown.text.contains("open-sesame"), "{asked}: {}", shown.text);
            assert!(!shown.text.contains("PRIVATE"), "{asked}: {}", shown.text);
        }
        let shown = fixture.get(path).await.json()["value"].pointer(place).cloned();
        // A private key is never returned.
        let is_private = plain.starts_with("---");
        assert_eq!(shown.as_ref() == Some(&secret), !is_private, "{path}");
        let at_rest = stored(&fixture, &format!("/apisix{path}")).await.to_string();
        assert!(!at_rest.contains("open-sesame") && !at_rest.contains("PRIVATE"), "{path}");
    }
}

#[tokio::test]
async fn what_an_answer_shows_may_be_written_back_and_what_another_sealed_may_not() {
    let fixture = Fixture::new().await;
    let jack = |key: &Value| json!({"username": "jack", "plugins": {"key-auth": {"key": key}}});
    let written = fixture.put("/consumers/jack", &jack(&json!("auth-one"))).await.json();
    let sealed = &written["value"]["plugins"]["key-auth"]["key"];
    assert_eq!(fixture.put("/consumers/jack", &jack(sealed)).await.status, 200);
    let shown = fixture.get("/consumers/jack").await.json();
    assert_eq!(shown["value"]["plugins"]["key-auth"]["key"], "auth-one");
    let other = Keyring::generate().expect("there are random numbers");
    let foreign = json!(other.seal("auth-one", "key-auth.key"));
    let refused = fixture.put("/consumers/jack", &jack(&foreign)).await;
    let expected = "failed to open the sealed value of \"key\"";
    assert!(refused.status == 400 && refused.error().starts_with(expected), "{refused:?}");
    let jill = json!({"username": "jill", "plugins": {"key-auth": {"key": sealed}}});
    let taken = fixture.put("/consumers/jill", &jill).await;
    assert_eq!(taken.status, 400, "the same key, however it is written");
}

#[tokio::test]
async fn plugins_of_routes_encrypt_what_they_say() {
    let fixture = Fixture::new().await;
    let mut value = route();
    value["plugins"] = json!({"csrf": {"key": "secret"}});
    fixture.given(&[("/routes/1", value)]).await;
    let at_rest = stored(&fixture, "/apisix/routes/1").await;
    assert_ne!(at_rest["plugins"]["csrf"]["key"], "secret");
    let answer = fixture.call("PATCH", "/routes/1", r#"{"uri":"/b"}"#).await;
    assert_eq!(answer.status, 200);
    let again = stored(&fixture, "/apisix/routes/1").await;
    assert_eq!(at_rest["plugins"], again["plugins"], "a patch encrypts nothing twice");
    let shown = fixture.get("/routes/1").await.json();
    assert_eq!(shown["value"]["plugins"]["csrf"]["key"], "secret");
}

#[tokio::test]
async fn references_to_secrets_stay_readable() {
    let fixture = Fixture::new().await;
    let reference = "$secret://vault/1/jack/key";
    let consumer = json!({"username": "jack", "plugins": {"key-auth": {"key": reference}}});
    fixture.given(&[("/consumers", consumer)]).await;
    let at_rest = stored(&fixture, "/apisix/consumers/jack").await;
    assert_eq!(at_rest["plugins"]["key-auth"]["key"], reference);
}

#[tokio::test]
async fn private_keys_never_come_back() {
    let fixture = Fixture::new().await;
    let (cert, key) = certificate();
    let (second_cert, second_key) = certificate();
    let ssl = json!({
        "sni": "test.com", "cert": cert, "key": key,
        "certs": [second_cert], "keys": [second_key],
    });
    let answer = fixture.put("/ssls/1", &ssl).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let at_rest = stored(&fixture, "/apisix/ssls/1").await.to_string();
    assert!(!at_rest.contains("PRIVATE"), "{at_rest}");
    for path in ["/ssls/1", "/ssls"] {
        let shown = fixture.get(path).await.text;
        assert!(shown.contains("CERTIFICATE"), "{shown}");
        assert!(!shown.contains("\"key\":\"-") && !shown.contains("keys"), "{shown}");
    }
    let one = fixture.get("/ssls/1").await.json();
    assert!(one["value"].get("key").is_none());
    let answer = fixture.call("PATCH", "/ssls/1", r#"{"sni":"a.com"}"#).await;
    assert_eq!(answer.status, 200, "what is encrypted is taken as it is: {answer:?}");
    let written = answer.json()["value"].clone();
    let answer = fixture.call("PATCH", "/ssls/1", json!({"key": written["key"]}).to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn certificates_must_go_with_their_keys() {
    let fixture = Fixture::new().await;
    let (cert, key) = certificate();
    let (_, other) = certificate();
    let long = "x".repeat(200);
    let broken = format!("-----BEGIN CERTIFICATE-----\n{long}\n-----END CERTIFICATE-----\n");
    let with = |fields: Value| {
        let mut ssl = json!({"sni": "test.com", "cert": cert, "key": key});
        for (name, value) in fields.as_object().expect("they are fields") {
            ssl[name] = value.clone();
        }
        ssl
    };
    let table = [
        (with(json!({"cert": broken})), "failed to parse cert: PEM_read_bio_X509_AUX() failed"),
        (
            with(json!({"key": format!("-----BEGIN PRIVATE KEY-----\n{long}")})),
            "failed to parse key: PEM_read_bio_PrivateKey() failed",
        ),
        (with(json!({"key": long})), "failed to decrypt previous encrypted key"),
        (
            with(json!({"ssl_protocols": ["TLSv1.1"]})),
            "ssl_protocols: TLSv1.1 is not served; add TLSv1.2 or TLSv1.3",
        ),
        (with(json!({"certs": [cert], "keys": []})), "mismatched number of certs and keys"),
        (
            with(json!({"certs": [broken], "keys": [other]})),
            "failed to handle cert-key pair[1]: failed to parse cert: PEM_read_bio_X509_AUX() failed",
        ),
        (json!({"cert": cert, "key": key}), "invalid configuration: then clause did not match"),
    ];
    for (ssl, expected) in table {
        let answer = fixture.put("/ssls/1", &ssl).await;
        assert_eq!(answer.status, 400, "{expected}");
        assert!(answer.error().starts_with(expected), "{expected}: {}", answer.error());
    }
    let answer = fixture.put("/ssls/1", &with(json!({"key": other}))).await;
    assert_eq!(answer.status, 400, "the key of another certificate");
}

#[tokio::test]
async fn certificates_of_upstreams_are_of_clients() {
    let fixture = Fixture::new().await;
    let (cert, key) = certificate();
    let upstream = |tls: Value| json!({"nodes": {"127.0.0.1:1": 1}, "tls": tls});
    fixture
        .given(&[
            ("/ssls/1", json!({"sni": "test.com", "cert": cert, "key": key})),
            ("/ssls/2", json!({"type": "client", "cert": cert, "key": key})),
            ("/upstreams/2", upstream(json!({"client_cert_id": "2"}))),
            ("/upstreams/3", upstream(json!({"client_cert": cert, "client_key": key}))),
        ])
        .await;
    let answer = fixture.put("/upstreams/1", &upstream(json!({"client_cert_id": "1"}))).await;
    let expected = "failed to fetch ssl info by ssl id [1], wrong ssl type";
    assert_eq!((answer.status, answer.error().as_str()), (400, expected));
    let at_rest = stored(&fixture, "/apisix/upstreams/3").await.to_string();
    assert!(!at_rest.contains("PRIVATE"), "{at_rest}");
}

/// Fixture whose sealed values carry a mark and are randomised.
async fn with_marks() -> Fixture {
    let mut fixture = Fixture::new().await;
    let keyring = Arc::new(Keyring::generate().expect("there are random numbers"));
    let parts = Parts { keyring, ..parts(Arc::clone(&fixture.store), options(), None) };
    fixture.api = AdminApi::new(parts);
    fixture
}

#[tokio::test]
async fn a_secret_that_stays_the_same_stays_sealed_as_it_was() {
    let fixture = with_marks().await;
    let (cert, key) = certificate();
    let vault = json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "open-sesame"});
    let mut guarded = route();
    guarded["plugins"] = json!({"csrf": {"key": "open-sesame"}});
    let ssl = json!({"sni": "test.com", "cert": cert, "key": key});
    for (path, value, place) in [
        ("/secrets/vault/1", vault, "/token"),
        ("/routes/1", guarded, "/plugins/csrf/key"),
        ("/ssls/1", ssl, "/key"),
    ] {
        let at_rest = async || {
            let stored = stored(&fixture, &format!("/apisix{path}")).await;
            stored.pointer(place).and_then(Value::as_str).expect(path).to_owned()
        };
        fixture.put(path, &value).await;
        let first = at_rest().await;
        assert!(Keyring::is_marked(&first), "{path}");
        assert_eq!(fixture.put(path, &value).await.status, 200, "{path}");
        assert_eq!(at_rest().await, first, "{path}: the secret itself");
        let mut shown = value.clone();
        *shown.pointer_mut(place).expect(path) = first.clone().into();
        shown["desc"] = "other".into();
        if path.starts_with("/routes") {
            assert_eq!(fixture.put(path, &shown).await.status, 200, "{path}");
            assert_eq!(at_rest().await, first, "{path}: what an answer shows");
            assert_eq!(fixture.call("PATCH", path, r#"{"desc":"x"}"#).await.status, 200);
            assert_eq!(at_rest().await, first, "{path}: a patch");
        }
        let mut changed = value.clone();
        if !path.starts_with("/ssls") {
            *changed.pointer_mut(place).expect(path) = "another".into();
            fixture.put(path, &changed).await;
            assert_ne!(at_rest().await, first, "{path}: another secret");
        }
    }
}

#[tokio::test]
async fn to_a_page_no_secret_is_told_whoever_is_signed_in() {
    let fixture = with_marks().await;
    let vault = json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "open-sesame"});
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "open-sesame"}}});
    let ask = async |method: &str, path: &str, value: &Value, tag: Option<&str>| {
        let mut request = request(method, path, value.to_string());
        request.headers_mut().insert("x-tollhouse-console", "1".parse().expect("it is a value"));
        if let Some(tag) = tag {
            request.headers_mut().insert("if-match", tag.parse().expect("it is a value"));
        }
        fixture.send(request).await
    };
    for (path, value) in [("/secrets/vault/1", vault), ("/consumers/jack", jack)] {
        let list = path.rsplit_once('/').expect(path).0;
        let written = ask("PUT", path, &value, None).await;
        let one = ask("GET", path, &Value::Null, None).await;
        let many = ask("GET", list, &Value::Null, None).await;
        let late = ask("PUT", path, &value, Some("\"999\"")).await;
        for (answer, status) in [(&written, 201), (&one, 200), (&many, 200), (&late, 412)] {
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            assert!(!answer.text.contains("open-sesame"), "{path}: {answer:?}");
            assert!(answer.text.contains("tollhouse-sealed:"), "{path}: {answer:?}");
        }
        let mut shown = one.json()["value"].clone();
        for time in ["create_time", "update_time"] {
            shown.as_object_mut().and_then(|fields| fields.shift_remove(time));
        }
        assert_eq!(ask("PUT", path, &shown, None).await.status, 200, "{path}: {shown}");
        let text = fixture.get(path).await.text;
        assert!(text.contains("open-sesame"), "a program with the key reads it: {text}");
    }
}

#[tokio::test]
async fn a_sealed_key_counts_in_a_document_in_its_own_object_and_field_only() {
    let fixture = with_marks().await;
    let (cert, key) = certificate();
    let ssl = json!({"sni": "test.com", "cert": cert, "key": key, "certs": [cert], "keys": [key]});
    fixture.given(&[("/ssls/1", ssl)]).await;
    let stored = stored(&fixture, "/apisix/ssls/1").await;
    let document = |id: &str, key: &Value| {
        json!({"ssls": [{"id": id, "sni": "test.com", "cert": cert, "key": key}]}).to_string()
    };
    for (document, status) in [
        (document("1", &stored["key"]), 200),
        (document("2", &stored["key"]), 400),
        (document("1", &stored["keys"][0]), 400),
    ] {
        let answer = fixture.call("POST", "/configs/validate", document).await;
        assert_eq!(answer.status, status, "{answer:?}");
        let refused = answer.text.contains("failed to decrypt previous encrypted key");
        assert_eq!(refused, status == 400, "{answer:?}");
    }
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "auth-one"}}});
    let written = fixture.put("/consumers/jack", &jack).await.json();
    let sealed = &written["value"]["plugins"]["key-auth"]["key"];
    for (username, status) in [("jack", 200), ("jill", 400)] {
        let consumer = json!({"username": username, "plugins": {"key-auth": {"key": sealed}}});
        let document = json!({"consumers": [consumer]}).to_string();
        let answer = fixture.call("POST", "/configs/validate", document).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}
