//! Log-ins against a provider of the tests: what is accepted, and every reason of refusal.

use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::identity_provider::{Behaviour, CLIENT, IdentityProvider, form};

use super::*;

const NOW_S: u64 = 1_700_000_000;

const ATTEMPT: Attempt<'static> = Attempt {
    redirect_uri: "https://gateway.test/ui/login",
    state: "state",
    nonce: "nonce",
    verifier: "verifier-verifier-verifier-verifier-verifier",
};

fn now() -> Now {
    Now::new(1, NOW_S)
}

fn flow_at(issuer: &str, groups_claim: Option<&str>) -> CodeFlow {
    let scopes = ["openid".to_owned(), "email".to_owned()];
    let settings = CodeFlowSettings {
        issuer,
        client_id: CLIENT.0,
        client_secret: Some(CLIENT.1),
        scopes: &scopes,
        groups_claim,
    };
    let limits = tollhouse_web::client::Limits {
        time_max: Duration::from_secs(5),
        body_bytes_max: REPLY_BYTES_MAX,
    };
    CodeFlow::new(&settings, tollhouse_web::Client::new(limits))
}

fn flow(provider: &IdentityProvider) -> CodeFlow {
    flow_at(&provider.url("/realm"), None)
}

fn provider() -> IdentityProvider {
    let provider = IdentityProvider::start().at(NOW_S);
    provider.claim(json!({"name": "Ann"}));
    provider
}

/// Logs the user in, and returns the code and the claims.
async fn log_in(
    provider: &IdentityProvider,
    flow: &CodeFlow,
) -> (String, Result<Claims, CodeFlowError>) {
    let address = flow.address(ATTEMPT, now()).await.expect("an address");
    let back = provider.log_in(&address);
    let (_, query) = back.split_once('?').expect("a query");
    let code = form(query)["code"].clone();
    let answer = CodeAnswer { code: &code, ..CodeAnswer::default() };
    let claims = flow.claims(answer, ATTEMPT, now()).await;
    (code, claims)
}

#[tokio::test]
async fn a_code_is_exchanged_for_the_claims_of_the_user() {
    let provider = provider();
    let flow = flow(&provider);
    let (code, claims) = log_in(&provider, &flow).await;
    let claims = claims.expect("the user is known");
    assert_eq!((&claims["sub"], &claims["name"]), (&json!("user-1"), &json!("Ann")));
    assert_eq!(claims["iss"], provider.url("/realm"));
    assert!(provider.requests("/userinfo").is_empty());
    // A code counts once.
    let answer = CodeAnswer { code: &code, ..CodeAnswer::default() };
    let again = flow.claims(answer, ATTEMPT, now()).await;
    assert!(matches!(again, Err(CodeFlowError::Refused(_))), "{again:?}");
    assert_eq!(provider.requests("/keys").len(), 1);
}

#[tokio::test]
async fn the_code_is_of_no_use_without_the_verifier() {
    let provider = provider();
    let flow = flow(&provider);
    let back = provider.log_in(&flow.address(ATTEMPT, now()).await.expect("an address"));
    let code = form(back.split_once('?').expect("a query").1)["code"].clone();
    let stolen = Attempt { verifier: "another-verifier-another-verifier-another-v", ..ATTEMPT };
    let answer = CodeAnswer { code: &code, ..CodeAnswer::default() };
    let claims = flow.claims(answer, stolen, now()).await;
    assert!(matches!(claims, Err(CodeFlowError::Refused(_))), "{claims:?}");
}

#[tokio::test]
async fn an_id_token_that_is_not_good_is_refused() {
    let table = [
        (json!({"nonce": "another"}), "another request"),
        (json!({"nonce": null}), "another request"),
        (json!({"aud": "another"}), "another client"),
        (json!({"aud": [CLIENT.0, "another"]}), "no authorized party"),
        (json!({"aud": [CLIENT.0, "another"], "azp": "another"}), "issued to another client"),
        (json!({"iss": "https://another.test"}), "another issuer"),
        (json!({"exp": NOW_S - 61}), "expired"),
        (json!({"exp": null}), "no expiry"),
        (json!({"nbf": NOW_S + 61}), "not valid yet"),
        (json!({"iat": NOW_S + 61}), "not valid yet"),
        (json!({"iat": null}), "no time of issue"),
        (json!({"sub": ""}), "no subject"),
    ];
    for (claims, reason) in table {
        let provider = provider();
        provider.claim(claims.clone());
        let (_, refused) = log_in(&provider, &flow(&provider)).await;
        match refused {
            Err(CodeFlowError::Refused(text)) if text.contains(reason) => {}
            other => panic!("{claims}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_token_that_the_provider_has_not_signed_is_refused() {
    let provider = provider();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"iss": provider.url("/realm"), "sub": "user-1", "aud": CLIENT.0,
        "nonce": "nonce", "iat": NOW_S, "exp": NOW_S + 300, "name": "Ann"});
    let unsigned = format!("{}.{}.", part(json!({"alg": "none"})), part(claims.clone()));
    let signed = |secret: &[u8]| {
        let text = format!("{}.{}", part(json!({"alg": "HS256"})), part(claims.clone()));
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret);
        let signature = aws_lc_rs::hmac::sign(&key, text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    };
    let by_another = IdentityProvider::start().at(NOW_S).token(&claims);
    for (name, token) in [
        ("none", unsigned),
        ("client secret", signed(CLIENT.1.as_bytes())),
        ("another key", by_another),
        ("no token", "a.b.c".to_owned()),
    ] {
        provider.behave("/token", Behaviour::With(json!({"id_token": token})));
        let (_, refused) = log_in(&provider, &flow(&provider)).await;
        assert!(matches!(refused, Err(CodeFlowError::Refused(_))), "{name}: {refused:?}");
    }
    provider.behave("/token", Behaviour::With(json!({"id_token": null})));
    let (_, refused) = log_in(&provider, &flow(&provider)).await;
    assert!(matches!(refused, Err(CodeFlowError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_new_key_of_the_provider_is_fetched_when_a_token_names_it() {
    let provider = provider();
    let flow = flow(&provider);
    log_in(&provider, &flow).await.1.expect("the first key is known");
    provider.change_key("key-2");
    let back = provider.log_in(&flow.address(ATTEMPT, now()).await.expect("an address"));
    let code = form(back.split_once('?').expect("a query").1)["code"].clone();
    let answer = CodeAnswer { code: &code, ..CodeAnswer::default() };
    // Later than the shortest time between two refreshes.
    let later = Now::new(20_000, NOW_S + 20);
    flow.claims(answer, ATTEMPT, later).await.expect("the second key is known");
    assert_eq!(provider.requests("/keys").len(), 2);
}

#[tokio::test]
async fn a_provider_that_does_not_answer_logs_nobody_in() {
    for path in ["/realm/.well-known/openid-configuration", "/token", "/keys"] {
        for behaviour in [
            Behaviour::Away,
            Behaviour::Half,
            Behaviour::Redirect,
            Behaviour::Endless,
            Behaviour::Says(503, "{}".to_owned()),
            Behaviour::Says(200, "<html>".to_owned()),
        ] {
            let provider = provider();
            let flow = flow(&provider);
            provider.behave(path, behaviour.clone());
            let attempt = flow.address(ATTEMPT, now()).await;
            let address = match attempt {
                Ok(address) => address,
                Err(CodeFlowError::Unavailable(_)) if path.starts_with("/realm") => continue,
                Err(other) => panic!("{path} {behaviour:?}: {other:?}"),
            };
            let back = provider.log_in(&address);
            let code = form(back.split_once('?').expect("a query").1)["code"].clone();
            let answer = CodeAnswer { code: &code, ..CodeAnswer::default() };
            let claims = flow.claims(answer, ATTEMPT, now()).await;
            let is_away = matches!(claims, Err(CodeFlowError::Unavailable(_)));
            assert!(is_away, "{path} {behaviour:?}: {claims:?}");
        }
    }
}

#[tokio::test]
async fn a_document_about_another_issuer_is_not_believed() {
    let provider = provider();
    let path = "/realm/.well-known/openid-configuration";
    provider.behave(path, Behaviour::With(json!({"issuer": "https://another.test"})));
    let refused = flow(&provider).address(ATTEMPT, now()).await;
    assert!(matches!(refused, Err(CodeFlowError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn an_answer_that_is_an_error_or_of_another_provider_is_refused() {
    let provider = provider();
    let flow = flow(&provider);
    for (answer, reason) in [
        (CodeAnswer { code: "a", issuer: Some("https://b.test"), error: None }, "not the identity"),
        (CodeAnswer::default(), "no code"),
        (
            CodeAnswer { error: Some(("access_denied", "<b>no</b>\n")), ..CodeAnswer::default() },
            "refuses: access_denied bno/b",
        ),
    ] {
        match flow.claims(answer, ATTEMPT, now()).await {
            Err(CodeFlowError::Refused(text)) if text.contains(reason) => {}
            other => panic!("{answer:?}: {other:?}"),
        }
    }
    assert!(provider.requests("/token").is_empty());
}

#[tokio::test]
async fn user_data_adds_the_claims_that_the_id_token_lacks() {
    let provider = provider();
    let more = json!({"groups": ["ops"], "name": "Another"});
    provider.behave("/userinfo", Behaviour::With(more));
    let flow = flow_at(&provider.url("/realm"), Some("groups"));
    let claims = log_in(&provider, &flow).await.1.expect("the user is known");
    assert_eq!((&claims["groups"], &claims["name"]), (&json!(["ops"]), &json!("Ann")));

    provider.behave("/userinfo", Behaviour::With(json!({"sub": "user-2"})));
    let refused = log_in(&provider, &flow).await.1;
    assert!(matches!(refused, Err(CodeFlowError::Refused(_))), "{refused:?}");
    provider.behave("/userinfo", Behaviour::Away);
    let refused = log_in(&provider, &flow).await.1;
    assert!(matches!(refused, Err(CodeFlowError::Unavailable(_))), "{refused:?}");
}
