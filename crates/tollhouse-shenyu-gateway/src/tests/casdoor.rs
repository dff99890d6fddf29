//! Tokens and codes in `casdoor`, and logged-in users in `oauth2`.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::engines::FakeEngines;
use super::*;

fn token(key: &RsaKeyPair, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": "RS256"})), part(claims));
    let mut signature = vec![0; key.public_modulus_len()];
    let random = SystemRandom::new();
    key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).expect("it signs");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn casdoor_lets_tokens_and_codes_pass_and_says_who_comes() {
    let key = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let public: PublicKeyX509Der<'_> = key.public_key().as_der().expect("X.509");
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(public.as_ref())
    );
    let claims =
        json!({"name": "jack", "owner": "shops", "aud": ["shop"], "exp": 99_999_999_999_u64});
    let good = token(&key, &claims);
    let casdoor = Arc::new(FakeEngines { token: Some(good.clone()), ..FakeEngines::default() });
    let mut desk = Desk::new();
    desk.sources = Sources::with_engines(Some(Arc::<FakeEngines>::clone(&casdoor)));
    let config = json!({"endpoint": "http://casdoor:8000", "client_id": "shop", "client_secrect": "s&3",
        "certificate": pem, "organization-name": "shops"});
    let desk = desk
        .plugin("casdoor", Some(&config))
        .rule("casdoor", "/", &Value::Null, &Value::Null)
        .divide("/");
    let edits = |request: &str| {
        let outcome = desk.send(request);
        assert!(outcome.answer.is_none(), "{request}");
        outcome.edits
    };
    // Identity headers of the client are removed.
    let by_token =
        edits(&format!("GET / HTTP/1.1\nHost: a\nid: root\nAuthorization: Bearer {good}\n\n"));
    for line in ["+name: jack", "+organization: shops", "-id"] {
        assert!(by_token.contains(line), "{line}: {by_token}");
    }
    assert!(casdoor.posted.all().is_empty());
    let by_code = edits(&get("/?code=a%26b&state=app"));
    assert!(by_code.contains("+name: jack"), "{by_code}");
    let asked = casdoor.posted.all();
    let form = "grant_type=authorization_code&client_id=shop&client_secret=s%263&code=a%26b";
    assert_eq!(asked, [format!("http://casdoor:8000/api/login/oauth/access_token {form}")]);
    for request in [
        get("/"),
        get("/?code="),
        "GET / HTTP/1.1\nHost: a\nAuthorization: Bearer a.b.c\n\n".to_owned(),
    ] {
        let refused = desk.answer(&request);
        assert_eq!(refused, r#"200 {"code":401,"message":"Illegal authorization"}"#, "{request}");
    }
}

#[test]
fn oauth2_gives_nodes_the_token_of_who_has_logged_in_and_sends_others_away() {
    let mut desk = Desk::new();
    desk.sources = Sources::with_engines(Some(Arc::new(FakeEngines::default())));
    let config = json!({"client_id": "shop", "client_secret": "s", "issuer": "http://id.test",
        "session_secret": "a secret of sixteen letters"});
    let desk = desk
        .plugin("oauth2", Some(&config))
        .rule("oauth2", "/a", &Value::Null, &Value::Null)
        .divide("/");
    let passed = desk.send("GET /a HTTP/1.1\nHost: a\nCookie: session=jack\nAuthorization: x\n\n");
    assert!(passed.passes() && passed.edits.contains("+Authorization: Bearer jacks"), "{passed:?}");
    let sent = desk.send(&get("/a"));
    assert_eq!((sent.status(), sent.header("Location")), (302, Some("http://id.test/")));
    assert!(desk.send(&get("/other")).passes(), "no rule asks for a log-in there");
}
