//! Tokens that programs bring.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

fn challenge(outcome: &Outcome) -> String {
    assert_eq!(outcome.status(), 401, "{outcome:?}");
    outcome.header("WWW-Authenticate").expect("a challenge").to_owned()
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[test]
fn a_token_that_the_provider_has_signed_passes_and_nodes_are_told_whose_it_is() {
    let provider = provider();
    let mut programs = harness(&for_programs(&provider, json!({"use_jwks": true})));
    let token = provider.token(&json!({"name": "J\u{f6}rg\r\nX-Admin: yes"}));
    for line in [
        format!("Authorization: Bearer {token}"),
        format!("authorization: bearer {token}"),
        format!("X-Access-Token: {token}"),
    ] {
        let passed = programs.request(&format!(
            "GET / HTTP/1.1\n{line}\nX-Userinfo: forged\nX-ID-Token: forged\nX-Raw-ID-Token: forged\nX-Refresh-Token: forged\n\n"
        ));
        assert!(passed.passes(), "{passed:?}");
        assert!(passed.edits.contains(&format!("+X-Access-Token: {token}\n")), "{}", passed.edits);
        assert_eq!(claims(&passed.edits, "X-Userinfo")["name"], "J\u{f6}rg\r\nX-Admin: yes");
        for name in ["X-ID-Token", "X-Raw-ID-Token", "X-Refresh-Token"] {
            assert!(passed.edits.contains(&format!("-{name}\n")), "{}", passed.edits);
        }
    }
    assert_eq!(provider.requests("/keys").len(), 1);
    let conf = json!({"use_jwks": true, "access_token_in_authorization_header": true,
        "set_userinfo_header": false});
    let mut programs = harness(&for_programs(&provider, conf));
    let passed = programs.request(&format!("GET / HTTP/1.1\nX-Access-Token: {token}\n\n"));
    assert!(passed.edits.contains(&format!("+Authorization: Bearer {token}\n")), "{passed:?}");
    assert!(!passed.edits.contains("+X-"), "{passed:?}");
}

#[test]
fn what_is_no_good_token_is_told_so() {
    let provider = provider();
    let conf = for_programs(&provider, json!({"use_jwks": true, "realm": "shop"}));
    let mut programs = harness(&conf);
    let none = programs.request("GET / HTTP/1.1\n\n");
    assert_eq!(challenge(&none), "Bearer realm=\"shop\"");
    let basic = programs.request("GET / HTTP/1.1\nAuthorization: Basic YTpi\n\n");
    assert_eq!(challenge(&basic), "Bearer realm=\"shop\"");
    assert_eq!(programs.request("GET / HTTP/1.1\nAuthorization: Bearer\n\n").status(), 400);
    let good = provider.token(&json!({}));
    let (signed, signature) = good.rsplit_once('.').expect("three parts");
    let (head, payload) = signed.split_once('.').expect("three parts");
    let unsigned = |alg: &str| format!("{}.{payload}.", encoded(&json!({"alg": alg})));
    let foreign = IdentityProvider::start().at(NOW).token(&json!({"iss": provider.issuer()}));
    let forged = encoded(&json!({"iss": provider.issuer(), "sub": "root"}));
    let critical = encoded(&json!({"alg": "ES256", "crit": ["b64"]}));
    let malformed = "the token is not a JSON Web Token";
    let algorithm = "the token is signed by an algorithm that is not accepted";
    let bad = "the token's signature is not good";
    for (token, reason) in [
        ("x".to_owned(), malformed),
        ("a.b.c".to_owned(), malformed),
        (format!("{good}.x"), malformed),
        (format!("{critical}.{payload}.x"), "the token asks for extensions that are not known"),
        (format!("{head}.{forged}.{signature}"), bad),
        (format!("{signed}."), bad),
        (foreign, bad),
        (unsigned("none"), algorithm),
        (unsigned("None"), algorithm),
        (unsigned("HS256"), algorithm),
        (unsigned(""), algorithm),
        (unsigned("RS256"), "the token is signed by an unknown key"),
        (provider.token(&json!({"exp": NOW})), "the token has expired"),
        (provider.token(&json!({"exp": "later"})), "the token has expired"),
        (provider.token(&json!({"nbf": NOW + 121})), "the token is not valid yet"),
        (provider.token(&json!({"iss": "elsewhere"})), "the token is from another issuer"),
        (provider.token(&json!({"iss": null})), "the token names no issuer"),
    ] {
        let expected = format!(
            "Bearer realm=\"shop\", error=\"invalid_token\", error_description=\"{reason}\""
        );
        assert_eq!(challenge(&bring(&mut programs, &token)), expected, "{token}");
    }
    assert!(bring(&mut programs, &provider.token(&json!({"nbf": NOW + 120}))).passes());
    assert!(bring(&mut programs, &provider.token(&json!({"exp": null}))).passes());
}

#[test]
fn keys_are_fetched_anew_for_a_key_that_is_not_known_and_stay_while_the_provider_is_away() {
    let provider = provider();
    let mut programs = harness(&for_programs(&provider, json!({"use_jwks": true})));
    let old = provider.token(&json!({"exp": null}));
    assert!(bring(&mut programs, &old).passes());
    provider.change_key("key-2");
    let new = provider.token(&json!({"exp": null}));
    // Too early to ask once more.
    assert_eq!(bring(&mut programs, &new).status(), 401);
    assert_eq!(provider.requests("/keys").len(), 1);
    programs.now_ms += 10_000;
    provider.behave("/keys", Behaviour::Away);
    assert_eq!(bring(&mut programs, &new).status(), 401);
    assert!(bring(&mut programs, &old).passes());
    provider.behave("/keys", Behaviour::Honest);
    programs.now_ms += 10_000;
    assert!(bring(&mut programs, &new).passes());
    assert_eq!(bring(&mut programs, &old).status(), 401);
    // A day later everything is fetched anew, and stays where that fails.
    programs.now_ms += 86_400_000;
    for path in ["/keys", "/.well-known/openid-configuration"] {
        provider.behave(path, Behaviour::Away);
    }
    assert!(bring(&mut programs, &new).passes());
    assert!(bring(&mut programs, &new).passes());
}

#[test]
fn a_provider_that_gives_no_answer_lets_nobody_pass() {
    for path in ["/.well-known/openid-configuration", "/keys"] {
        for behaviour in hostilities() {
            let provider = provider();
            provider.behave(path, behaviour.clone());
            let mut programs = harness(&for_programs(&provider, json!({"use_jwks": true})));
            let token = provider.token(&json!({}));
            let refused = bring(&mut programs, &token);
            assert_eq!(refused.status(), 503, "{path} {behaviour:?}: {refused:?}");
            assert_eq!(refused.body(), "{\"message\":\"the identity provider gives no answer\"}\n");
            // It is asked again after a second, and not before.
            let asked = provider.requests(path).len();
            assert_eq!(bring(&mut programs, &token).status(), 503);
            assert_eq!(provider.requests(path).len(), asked);
            provider.behave(path, Behaviour::Honest);
            programs.now_ms += 1_000;
            assert!(bring(&mut programs, &token).passes(), "{path} {behaviour:?}");
        }
    }
}

#[test]
fn a_provider_that_says_nothing_is_waited_for_as_long_as_the_conf_says() {
    let provider = provider();
    provider.behave("/keys", Behaviour::Silent);
    let mut programs = harness(&for_programs(&provider, json!({"use_jwks": true})));
    let begun = std::time::Instant::now();
    assert_eq!(bring(&mut programs, &provider.token(&json!({}))).status(), 503);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "its own time is a second");
}

#[test]
fn a_public_key_verifies_without_the_provider_where_the_conf_says_who_signs() {
    let pem = include_str!("../../../testdata/jwt/rsa.pem");
    let tokens = include_str!("../../../testdata/jwt/tokens.txt");
    let token = tokens.lines().find_map(|line| line.strip_prefix("RS256 rsa ")).expect("a token");
    let conf = |more| {
        let own = json!({"client_id": "a", "bearer_only": true, "discovery": "http://127.0.0.1:1/",
            "public_key": pem, "timeout": 1,
            "claim_validator": {"issuer": {"valid_issuers": ["me"]}}});
        merged(own, more)
    };
    // Its signature is good, and it was made for others.
    let refused = challenge(&bring(&mut harness(&conf(json!({}))), token));
    assert!(refused.contains("the token names no issuer"), "{refused}");
    for expected in ["PS256", "ES256,EdDSA"] {
        let more = json!({"token_signing_alg_values_expected": expected});
        let refused = challenge(&bring(&mut harness(&conf(more)), token));
        assert!(refused.contains("an algorithm that is not accepted"), "{refused}");
    }
    // What is public signs nothing: the key is no secret that both sides have.
    let text = format!("{}.{}", encoded(&json!({"alg": "HS256"})), encoded(&json!({"iss": "me"})));
    let key = hmac::Key::new(hmac::HMAC_SHA256, pem.as_bytes());
    let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes()));
    let refused = challenge(&bring(&mut harness(&conf(json!({}))), &format!("{text}.{tag}")));
    assert!(refused.contains("an algorithm that is not accepted"), "{refused}");
}

/// A token that the provider knows, and has not signed.
fn opaque(provider: &IdentityProvider) -> String {
    let mut browsers = harness(&for_browsers(provider, json!({})));
    let mut browser = Browser::default();
    browser.log_in(&mut browsers, provider, "/a");
    let passed = browser.get(&mut browsers, "/a");
    let line = passed.edits.lines().find_map(|line| line.strip_prefix("+X-Access-Token: "));
    line.unwrap_or_else(|| panic!("{passed:?}")).to_owned()
}

#[test]
fn the_provider_is_asked_about_tokens_and_its_answers_are_remembered() {
    let provider = provider();
    let token = opaque(&provider);
    for method in ["client_secret_basic", "client_secret_post"] {
        let conf = json!({"introspection_endpoint_auth_method": method,
            "introspection_addon_headers": ["X-Tenant", "Authorization"]});
        let mut programs = harness(&for_programs(&provider, conf));
        let before = provider.requests("/introspect").len();
        let ask = |programs: &mut Harness, tenant: &str| {
            programs.request(&format!(
                "GET / HTTP/1.1\nAuthorization: Bearer {token}\nX-Tenant: {tenant}\n\n"
            ))
        };
        let passed = ask(&mut programs, "a");
        assert_eq!(claims(&passed.edits, "X-Userinfo")["sub"], "user-1");
        assert!(ask(&mut programs, "a").passes());
        let asked = provider.requests("/introspect");
        assert_eq!(asked.len(), before + 1);
        let question = &asked[before];
        assert_eq!(question.field("x-tenant"), Some("a"));
        assert_eq!(form(&question.text())["token"], token);
        // Another answer could come for another one.
        assert!(ask(&mut programs, "b").passes());
        assert_eq!(provider.requests("/introspect").len(), before + 2);
        // It counts until the token ends.
        programs.now_ms += 300_000;
        provider.set_time(NOW + 300);
        assert!(ask(&mut programs, "a").passes());
        assert_eq!(provider.requests("/introspect").len(), before + 3);
        provider.set_time(NOW);
        let unknown = challenge(&bring(&mut programs, "unknown"));
        assert!(unknown.ends_with("error_description=\"invalid token\""), "{unknown}");
    }
    let conf =
        json!({"introspection_interval": 5, "introspection_endpoint": provider.url("/introspect")});
    let mut brief = harness(&for_programs(&provider, conf));
    assert!(bring(&mut brief, &token).passes());
    provider.end_tokens();
    brief.now_ms += 4_999;
    assert!(bring(&mut brief, &token).passes());
    brief.now_ms += 1;
    assert_eq!(bring(&mut brief, &token).status(), 401);
}

#[test]
fn an_answer_about_a_token_counts_only_as_what_it_is() {
    let provider = provider();
    let token = opaque(&provider);
    let mut programs = harness(&for_programs(&provider, json!({})));
    for behaviour in hostilities() {
        provider.behave("/introspect", behaviour.clone());
        let refused = bring(&mut programs, &token).status();
        // An empty answer says of no token that it is active.
        let expected = if behaviour == Behaviour::Says(200, String::new()) { 401 } else { 503 };
        assert_eq!(refused, expected, "{behaviour:?}");
    }
    for members in [
        json!({"active": null}),
        json!({"active": "true"}),
        json!({"active": 1}),
        json!({"exp": NOW}),
        json!({"exp": "never"}),
    ] {
        provider.behave("/introspect", Behaviour::With(members.clone()));
        assert_eq!(bring(&mut programs, &token).status(), 401, "{members}");
    }
}

#[test]
fn scopes_audiences_and_schemas_are_asked_for() {
    let provider = provider();
    let audience = |rule: Value| json!({"claim_validator": {"audience": rule}});
    let scopes = || json!({"required_scopes": ["read", "write"]});
    let no_scopes = "{\"error\":\"required scopes read, write not present\"}";
    let missing = "{\"error\":\"required audience claim not present\"}";
    let other = "{\"error\":\"mismatched audience\"}";
    let this = || audience(json!({"match_with_client_id": true}));
    for (conf, claims, expected) in [
        (scopes(), json!({"scope": "a write read"}), ""),
        (scopes(), json!({"scope": ["write", "read"]}), ""),
        (scopes(), json!({"scp": ["write", "read"]}), ""),
        (scopes(), json!({"scope": "read writes"}), no_scopes),
        (scopes(), json!({"scope": 7}), no_scopes),
        (scopes(), json!({}), no_scopes),
        (audience(json!({"required": true})), json!({"aud": "any"}), ""),
        (audience(json!({"required": true})), json!({}), missing),
        (audience(json!({"required": true, "claim": "for"})), json!({"aud": "any"}), missing),
        (this(), json!({"aud": "shop"}), ""),
        (this(), json!({"aud": ["a", "shop"]}), ""),
        (this(), json!({"aud": ["a", "b"]}), other),
        (this(), json!({"aud": "shops"}), other),
        (this(), json!({"aud": {"shop": 1}}), other),
        (this(), json!({}), missing),
    ] {
        let conf = for_programs(&provider, merged(json!({"use_jwks": true}), conf));
        let outcome = bring(&mut harness(&conf), &provider.token(&claims));
        assert_eq!(outcome.body(), expected, "{claims}");
        assert_eq!(outcome.status(), if expected.is_empty() { 0 } else { 403 }, "{claims}");
    }
    let schema = json!({"use_jwks": true, "claim_schema": {"type": "object", "required": ["org"]}});
    let mut programs = harness(&for_programs(&provider, schema));
    assert!(bring(&mut programs, &provider.token(&json!({"org": "a"}))).passes());
    assert_eq!(bring(&mut programs, &provider.token(&json!({}))).status(), 401);
    let huge = provider.token(&json!({"org": "x".repeat(40_000)}));
    assert_eq!(bring(&mut programs, &huge).status(), 500, "more than any server takes");
}
