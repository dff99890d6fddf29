//! Tokens, good and bad; those of `testdata/jwt` were made by another implementation.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::{Harness, Outcome};

use super::*;

/// Virtual time of the harness when it starts, in seconds.
const NOW: i64 = 1_700_000_000;

fn harness(conf: &Value) -> Harness {
    let key = json!({"key": "my-key", "secret": "my-secret"});
    Harness::new::<JwtAuth>(conf).consumer::<JwtAuth>("jack", &key)
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn signed_with(header: &Value, payload: &Value, secret: &[u8]) -> String {
    let text = format!("{}.{}", encoded(header), encoded(payload));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes()));
    format!("{text}.{signature}")
}

fn token(payload: &Value) -> String {
    signed_with(&json!({"typ": "JWT", "alg": "HS256"}), payload, b"my-secret")
}

fn good() -> String {
    token(&json!({"key": "my-key", "exp": NOW + 1}))
}

fn sent(conf: &Value, token: &str) -> Outcome {
    harness(conf).request(&format!("GET / HTTP/1.1\nAuthorization: {token}\n\n"))
}

fn message(outcome: &Outcome) -> String {
    assert_eq!(outcome.status(), 401, "{outcome:?}");
    assert_eq!(outcome.header("www-authenticate"), Some("Bearer realm=\"jwt\""));
    let body: Value = serde_json::from_str(outcome.body()).expect("JSON");
    body["message"].as_str().expect("a message").to_owned()
}

#[test]
fn a_good_token_passes_wherever_it_stands() {
    let good = good();
    for request in [
        format!("GET / HTTP/1.1\nAuthorization: {good}\n\n"),
        format!("GET / HTTP/1.1\nAuthorization: Bearer {good}\n\n"),
        format!("GET / HTTP/1.1\nauthorization: bearer {good}\n\n"),
        format!("GET /?a=b&jwt={good} HTTP/1.1\n\n"),
        format!("GET / HTTP/1.1\nCookie: a=b; jwt={good}\n\n"),
    ] {
        let outcome = harness(&json!({})).request(&request);
        assert_eq!(outcome.consumer.as_deref(), Some("jack"), "{request}");
        assert_eq!(outcome.edits, "+X-Consumer-Username: jack\n");
    }
    let conf = json!({"header": "X-Token", "key_claim_name": "iss"});
    let token = token(&json!({"iss": "my-key"}));
    let outcome = harness(&conf).request(&format!("GET / HTTP/1.1\nX-Token: {token}\n\n"));
    assert!(outcome.passes());
}

#[test]
fn the_first_place_with_a_token_decides() {
    let request = format!("GET /?jwt={} HTTP/1.1\nAuthorization: x\n\n", good());
    assert_eq!(message(&harness(&json!({})).request(&request)), "JWT token invalid");
    assert_eq!(
        message(&harness(&json!({})).request("GET / HTTP/1.1\n\n")),
        "Missing JWT token in request"
    );
}

#[test]
fn what_is_no_token_is_told_so() {
    let good = good();
    let not_an_object = format!("{}.{}.x", encoded(&json!({"alg": "HS256"})), encoded(&json!([1])));
    let cases = [
        "",
        "a",
        "a.b",
        "a.b.c",
        "Basic abc",
        "....",
        &format!("{good}.x"),
        &format!("!{good}"),
        &not_an_object,
    ]
    .map(str::to_owned);
    for token in cases {
        assert_eq!(message(&sent(&json!({}), &token)), "JWT token invalid", "{token}");
    }
}

#[test]
fn a_name_that_comes_twice_makes_a_token_invalid() {
    let good = token(&json!({"key": "my-key"}));
    let parts: Vec<&str> = good.split('.').collect();
    let twice = |text: &str| URL_SAFE_NO_PAD.encode(text);
    for (header, payload) in [
        (parts[0].to_owned(), twice(r#"{"exp": 1, "key": "my-key", "exp": 9999999999}"#)),
        (twice(r#"{"alg": "none", "alg": "HS256"}"#), parts[1].to_owned()),
    ] {
        let token = format!("{header}.{payload}.{}", parts[2]);
        assert_eq!(message(&sent(&json!({}), &token)), "JWT token invalid", "{token}");
    }
}

#[test]
fn the_claim_must_name_a_consumer() {
    for (payload, expected) in [
        (json!({}), "missing user key in JWT token"),
        (json!({"key": false}), "missing user key in JWT token"),
        (json!({"key": "other"}), "Invalid user key in JWT token"),
        (json!({"key": 1}), "Invalid user key in JWT token"),
        (json!({"key": null}), "Invalid user key in JWT token"),
    ] {
        assert_eq!(message(&sent(&json!({}), &token(&payload))), expected, "{payload}");
    }
}

#[test]
fn a_token_that_is_not_signed_by_the_key_is_refused() {
    let payload = json!({"key": "my-key"});
    let header = |algorithm: &str| json!({"typ": "JWT", "alg": algorithm});
    let good = token(&payload);
    let unsigned = good.rsplit_once('.').expect("three parts").0.to_owned();
    for token in [
        signed_with(&header("HS256"), &payload, b"other-secret"),
        signed_with(&header("HS512"), &payload, b"my-secret"),
        signed_with(&header("none"), &payload, b"my-secret"),
        signed_with(&header("RS256"), &payload, b"my-secret"),
        signed_with(&json!({}), &payload, b"my-secret"),
        signed_with(&json!({"alg": "HS256", "crit": ["x"], "x": 1}), &payload, b"my-secret"),
        format!("{unsigned}.!"),
        format!("{unsigned}.A"),
        format!("{unsigned}."),
        format!("{}.{}.", encoded(&header("none")), encoded(&payload)),
        good.replacen(&encoded(&payload), &encoded(&json!({"key": "my-key", "a": 1})), 1),
    ] {
        assert_eq!(message(&sent(&json!({}), &token)), "failed to verify jwt", "{token}");
    }
    assert!(sent(&json!({}), &good).passes());
}

#[test]
fn claims_of_time_must_hold() {
    let (unset, exp, both) = (
        json!({}),
        json!({"claims_to_verify": ["exp"]}),
        json!({"claims_to_verify": ["exp", "nbf"]}),
    );
    for (conf, claims, passes) in [
        (&unset, json!({}), true),
        (&unset, json!({"exp": NOW + 1, "nbf": NOW}), true),
        (&unset, json!({"exp": NOW}), false),
        (&unset, json!({"exp": "soon"}), false),
        (&unset, json!({"exp": null}), false),
        (&unset, json!({"exp": -1}), false),
        (&unset, json!({"exp": -1e300}), false),
        (&exp, json!({"exp": null}), false),
        (&unset, json!({"nbf": NOW + 1}), false),
        (&unset, json!({"nbf": null}), false),
        (&unset, json!({"exp": 1.9e9}), true),
        (&exp, json!({"exp": NOW + 1, "nbf": NOW + 1}), true),
        (&exp, json!({"exp": NOW - 1}), false),
        (&exp, json!({"nbf": NOW - 1}), false),
        (&both, json!({"exp": NOW + 1}), false),
        (&both, json!({"exp": NOW + 1, "nbf": NOW - 1}), true),
        (&json!({"claims_to_verify": []}), json!({"exp": 1}), false),
        (&json!({"claims_to_verify": []}), json!({}), true),
    ] {
        let mut payload = claims.clone();
        payload["key"] = json!("my-key");
        let outcome = sent(conf, &token(&payload));
        assert_eq!(outcome.passes(), passes, "{conf} {claims}");
        assert!(passes || message(&outcome) == "failed to verify jwt");
    }
}

#[test]
fn the_grace_period_forgives_a_wrong_clock() {
    let key = json!({"key": "my-key", "secret": "my-secret", "lifetime_grace_period": 10});
    for (claims, passes) in [
        (json!({"key": "my-key", "exp": NOW - 9}), true),
        (json!({"key": "my-key", "exp": NOW - 10}), false),
        (json!({"key": "my-key", "nbf": NOW + 10}), true),
        (json!({"key": "my-key", "nbf": NOW + 11}), false),
    ] {
        let mut harness = Harness::new::<JwtAuth>(&json!({})).consumer::<JwtAuth>("jack", &key);
        let request = format!("GET / HTTP/1.1\nAuthorization: {}\n\n", token(&claims));
        assert_eq!(harness.request(&request).passes(), passes, "{claims}");
    }
}

#[test]
fn tokens_of_another_implementation_are_verified_by_every_algorithm() {
    let file = |name: &str| {
        let path = format!("{}/testdata/jwt/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect(name)
    };
    let tokens = file("tokens.txt");
    let lines: Vec<&str> = tokens.lines().filter(|line| !line.starts_with('#')).collect();
    let covered =
        |algorithm: &&Algorithm| lines.iter().any(|line| line.starts_with(algorithm.name()));
    assert_eq!(Algorithm::ALL.iter().filter(covered).count(), Algorithm::ALL.len() - 3);
    for line in &lines {
        let [algorithm, key, token] = *line.split(' ').collect::<Vec<_>>() else {
            panic!("{line}")
        };
        let conf = json!({
            "key": "my-key", "algorithm": algorithm, "public_key": file(&format!("{key}.pem")),
        });
        let send = |token: &str| {
            let harness = Harness::new::<JwtAuth>(&json!({}));
            let request = format!("GET / HTTP/1.1\nAuthorization: {token}\n\n");
            harness.consumer::<JwtAuth>("jack", &conf).request(&request)
        };
        assert_eq!(send(token).consumer.as_deref(), Some("jack"), "{algorithm}");
        let (text, _) = token.rsplit_once('.').expect("three parts");
        for forged in [format!("{text}."), format!("{text}.AAAA"), token.replace(".eyJr", ".eyJs")]
        {
            assert!(!send(&forged).passes(), "{algorithm}: {forged}");
        }
    }
}

#[test]
fn every_shared_secret_algorithm_is_verified() {
    for (name, mac) in
        [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)]
    {
        // `bXktc2VjcmV0` is `my-secret`.
        for (secret, is_base64) in [("my-secret", false), ("bXktc2VjcmV0", true)] {
            let conf = json!({
                "key": "my-key", "secret": secret, "algorithm": name, "base64_secret": is_base64,
            });
            let text = format!(
                "{}.{}",
                encoded(&json!({"alg": name})),
                encoded(&json!({"key": "my-key"}))
            );
            let signature = hmac::sign(&hmac::Key::new(mac, b"my-secret"), text.as_bytes());
            let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
            let harness = Harness::new::<JwtAuth>(&json!({}));
            let mut harness = harness.consumer::<JwtAuth>("jack", &conf);
            let request = format!("GET /?jwt={token} HTTP/1.1\n\n");
            assert!(harness.request(&request).passes(), "{name} {secret}");
        }
    }
}

#[test]
fn hidden_tokens_do_not_reach_the_node_whoever_passes() {
    let conf = json!({"hide_credentials": true, "anonymous_consumer": "jack"});
    for token in [good(), "x".to_owned()] {
        for (request, edits) in [
            (format!("GET / HTTP/1.1\nAuthorization: {token}\n\n"), "-authorization\n"),
            (format!("GET /a?x=1&jwt={token} HTTP/1.1\n\n"), "uri /a?x=1\n"),
            (format!("GET / HTTP/1.1\nCookie: jwt={token}\n\n"), "-Cookie\n"),
        ] {
            let outcome = harness(&conf).request(&request);
            assert_eq!(outcome.edits, format!("+X-Consumer-Username: jack\n{edits}"), "{request}");
        }
        let request = format!("GET / HTTP/1.1\nCookie: a=b; jwt={token};c=d\n\n");
        let outcome = harness(&conf).request(&request);
        assert_eq!(outcome.edits, "+X-Consumer-Username: jack\n+Cookie: a=b; c=d\n");
    }
    let conf = json!({"anonymous_consumer": "nobody"});
    assert_eq!(message(&sent(&conf, &token(&json!({})))), "Invalid user authorization");
}

#[test]
fn bad_keys_of_consumers_are_refused() {
    let plugin = PluginType::new::<JwtAuth>();
    let no_branch = "failed to validate dependent schema for \"algorithm\": \
                     value should match only one schema, but matches none";
    for (conf, expected) in [
        (json!({}), "property \"key\" is required"),
        (json!({"key": "a"}), "property \"secret\" is required when using HS based algorithms"),
        (
            json!({"key": "a", "secret": "!", "base64_secret": true}),
            "base64_secret required but the secret is not in base64 format",
        ),
        (json!({"key": "a", "algorithm": "RS256"}), no_branch),
        (json!({"key": "a", "algorithm": "RS256", "public_key": ""}), "missing valid public key"),
        (
            json!({"key": "a", "algorithm": "XS256"}),
            "property \"algorithm\" validation failed: matches none of the enum values",
        ),
        (
            json!({"key": "a", "secret": "b", "exp": 0}),
            "property \"exp\" validation failed: expected 0 to be at least 1",
        ),
    ] {
        assert_eq!(
            plugin.identify(&conf).err().map(String::from).as_deref(),
            Some(expected),
            "{conf}"
        );
    }
    for conf in [
        json!({"key": "a", "secret": "$env://SECRET", "base64_secret": true}),
        json!({"key": "a", "algorithm": "EdDSA", "public_key": "not a key"}),
    ] {
        assert_eq!(plugin.identify(&conf).err(), None, "{conf}");
    }
}

#[test]
fn bad_confs_are_refused() {
    for (conf, inner) in [
        (json!({"key_claim_name": ""}), "string too short, expected at least 1, got 0"),
        (json!({"claims_to_verify": ["iat"]}), "item 1: matches none of the enum values"),
        (json!({"claims_to_verify": ["exp", "exp"]}), "items 1 and 2 are equal"),
        (json!({"cookie": 1}), "wrong type: expected string, got number"),
    ] {
        let refusal = Harness::refusal::<JwtAuth>(&conf);
        assert!(refusal.ends_with(inner), "{refusal}");
    }
}
