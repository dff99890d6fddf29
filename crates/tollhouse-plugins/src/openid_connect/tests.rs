//! Browsers and programs before a provider that a test scripts.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome};
use tollhouse_testkit::IdentityProvider;
use tollhouse_testkit::identity_provider::{Behaviour, CLIENT, form};

use super::config::FLAT_OPTIONS;
use super::*;
use crate::shared::auth::base64::decode_base64;

mod login;
mod tokens;

/// Virtual time of the harness when it starts, in seconds.
const NOW: u64 = 1_700_000_000;

/// All that a provider may do instead of answering, but for saying nothing, which takes a second.
fn hostilities() -> Vec<Behaviour> {
    vec![
        Behaviour::Away,
        Behaviour::Half,
        Behaviour::Redirect,
        Behaviour::Endless,
        Behaviour::Says(500, String::new()),
        Behaviour::Says(200, String::new()),
        Behaviour::Says(200, "<html>".to_owned()),
        Behaviour::Says(200, "[1]".to_owned()),
        Behaviour::Says(200, "{\"a\":".repeat(200_000)),
    ]
}

fn merged(mut conf: Value, more: Value) -> Value {
    conf.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
    conf
}

fn provider() -> IdentityProvider {
    IdentityProvider::start().at(NOW)
}

/// A conf for programs, with more fields.
fn for_programs(provider: &IdentityProvider, more: Value) -> Value {
    let own = json!({"client_id": CLIENT.0, "client_secret": CLIENT.1, "bearer_only": true,
        "discovery": provider.discovery(), "timeout": 1});
    merged(own, more)
}

/// A conf for browsers, with more fields.
fn for_browsers(provider: &IdentityProvider, more: Value) -> Value {
    let own = json!({"client_id": CLIENT.0, "client_secret": CLIENT.1, "timeout": 1,
        "discovery": provider.discovery(), "redirect_uri": "/callback",
        "session": {"secret": "a secret of sixteen letters"}});
    merged(own, more)
}

fn harness(conf: &Value) -> Harness {
    Harness::new::<OpenidConnect>(conf)
}

fn bring(harness: &mut Harness, token: &str) -> Outcome {
    harness.request(&format!("GET /a HTTP/1.1\nAuthorization: Bearer {token}\n\n"))
}

/// The JSON in base64 of a header that a node gets.
fn claims(edits: &str, name: &str) -> Value {
    let start = format!("+{name}: ");
    let line = edits.lines().find_map(|line| line.strip_prefix(&start));
    let text = decode_base64(line.unwrap_or_else(|| panic!("{name}: {edits}")).as_bytes());
    serde_json::from_slice(&text.expect("base64")).expect("JSON")
}

/// Keeps cookies, and goes where it is sent.
#[derive(Debug, Default, Clone)]
struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    fn get(&mut self, harness: &mut Harness, target: &str) -> Outcome {
        self.get_with(harness, target, "")
    }

    fn get_with(&mut self, harness: &mut Harness, target: &str, lines: &str) -> Outcome {
        let pairs: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookie =
            if pairs.is_empty() { String::new() } else { format!("Cookie: {}\n", pairs.join("; ")) };
        let text = format!("GET {target} HTTP/1.1\nHost: shop.test\n{cookie}{lines}\n");
        let mut exchange = FakeExchange::parse(&text, harness.now_ms);
        let outcome = harness.run(&mut exchange);
        let reply = match &outcome.answer {
            Some(answer) => answer.clone(),
            None => harness.respond(&mut exchange, "200", &["x"]),
        };
        for (_, value) in reply.headers.iter().filter(|(name, _)| name == "Set-Cookie") {
            let pair = value.split(';').next().unwrap_or_default();
            let (name, text) = pair.split_once('=').expect("a pair");
            if value.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), text.to_owned());
            }
        }
        outcome
    }

    /// Asks for a path, logs in where it is sent, and comes back; what the callback is answered with.
    fn log_in(&mut self, harness: &mut Harness, provider: &IdentityProvider, path: &str) -> Outcome {
        let sent = self.get(harness, path);
        let back = provider.log_in(location(&sent));
        self.get(harness, path_of(&back))
    }
}

fn location(outcome: &Outcome) -> &str {
    assert_eq!(outcome.status(), 302, "{outcome:?}");
    outcome.header("Location").expect("a place to go to")
}

/// Path and query of an address.
fn path_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..])
}

#[test]
fn bad_confs_are_refused() {
    let good = json!({"client_id": "a", "client_secret": "b", "discovery": "http://a/"});
    let session = json!({"secret": "a secret of sixteen letters"});
    for (more, inner) in [
        (json!({}), "property \"session.secret\" is required when \"bearer_only\" is false"),
        (json!({"session": {}}), "property \"secret\" is required"),
        (json!({"session": {"secret": "short"}}), "string too short, expected at least 16, got 5"),
        (json!({"bearer_only": true, "public_key": "x"}), "is not a PEM public key"),
        (
            json!({"bearer_only": true, "token_signing_alg_values_expected": "RS256 XX"}),
            "XX is not known",
        ),
        (
            json!({"bearer_only": true, "introspection_endpoint_auth_method": "x"}),
            "it is one of client_secret_basic, client_secret_post, client_secret_jwt and private_key_jwt",
        ),
        (
            json!({"bearer_only": true, "introspection_endpoint_auth_method": "private_key_jwt"}),
            "private_key_jwt needs client_rsa_private_key",
        ),
        (json!({"session": session, "force_reauthorize": true}), "it is not built in"),
        (json!({"session": session, "dpop": {"enabled": true}}), "it is not built in"),
        (
            json!({"session": session, "proxy_opts": {"http_proxy": "http://a"}}),
            "providers are asked without a proxy here",
        ),
        (
            json!({"session": session, "redirect_uri": "a b"}),
            "it contains characters that are invalid in an address",
        ),
        (json!({"session": session, "claim_schema": {"type": 7}}), "check claim_schema failed"),
        (json!({"unauth_action": "x"}), "matches none of the enum values"),
        (
            json!({"session": session, "use_dpop": true}),
            "property \"use_dpop\" is not allowed, use \"dpop.enabled\" instead",
        ),
        (
            json!({"session": session, "dpop_private_key": "x"}),
            "property \"dpop_private_key\" is not allowed, use \"dpop.private_key\" instead",
        ),
        (
            json!({"session": session, "pushed_authorization_request_endpoint": "http://a"}),
            "is not allowed, use \"par.endpoint\" instead",
        ),
        (json!({"session": session, "dpop": {"a": 1}}), "additional properties forbidden"),
        (json!({"session": session, "par": {"a": 1}}), "additional properties forbidden"),
        (
            json!({"session": {"secret": "a secret of sixteen letters", "rubbish": 1}}),
            "additional properties forbidden",
        ),
        (
            json!({"session": session, "par": {"endpoint_auth_method": "zz"}}),
            "matches none of the enum values",
        ),
        (
            json!({"session": {"secret": "a secret of sixteen letters", "cookie_name": "a;b"}}),
            "characters that are invalid in a cookie",
        ),
    ] {
        let refusal = Harness::refusal::<OpenidConnect>(&merged(good.clone(), more));
        assert!(refusal.contains(inner), "{inner}: {refusal}");
    }
    let names = FLAT_OPTIONS.iter().map(|(name, _)| *name);
    let keys: Vec<&str> = names.filter(|name| name.ends_with("_key")).collect();
    assert!(!keys.is_empty() && keys.iter().all(|name| OpenidConnect::ENCRYPTED.contains(name)));
}

#[test]
fn a_client_secret_is_required_except_with_jwks_or_pkce() {
    let session = json!({"secret": "a secret of sixteen letters"});
    let without_secret = json!({"client_id": "a", "discovery": "http://a/"});
    let refusal = |more| Harness::refusal::<OpenidConnect>(&merged(without_secret.clone(), more));
    let lacking = "property \"client_secret\" is required";
    assert_eq!(refusal(json!({"bearer_only": true})), lacking);
    assert_eq!(refusal(json!({"session": session})), lacking);
    assert_eq!(refusal(json!({"bearer_only": true, "use_jwks": true})), "");
    assert_eq!(refusal(json!({"session": session, "use_pkce": true})), "");
}
