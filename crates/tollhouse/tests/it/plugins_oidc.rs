//! openid-connect, seen from outside: programs with tokens and browsers with cookies before a provider that a test
//! scripts, and a node that gets what it gets. Also `oauth2` of ShenYu's, which has the same engine.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollhouse_testkit::identity_provider::{Behaviour, CLIENT};
use tollhouse_testkit::{Gateway, IdentityProvider, Message, Origin, RawClient};

use crate::shenyu::{divide, objects, pair};
use crate::support::{gateway, routes, upstream, with};

/// A gateway with one route to `origin`, for everything.
fn protected(origin: &Origin, conf: &Value) -> Gateway {
    let route = json!({"id": "all", "uri": "/*", "plugins": {"openid-connect": conf},
        "upstream": upstream([origin.address()])});
    gateway().resources(&routes([route])).start()
}

fn conf(provider: &IdentityProvider, members: Value) -> Value {
    let own = json!({"client_id": CLIENT.0, "client_secret": CLIENT.1, "timeout": 1,
        "discovery": provider.discovery()});
    with(own, members)
}

fn bring(client: &mut RawClient, token: &str) -> Message {
    client.ask(format!("GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"))
}

/// Keeps cookies.
#[derive(Default)]
pub(crate) struct Browser(BTreeMap<String, String>);

impl Browser {
    pub(crate) fn get(&mut self, gateway: &Gateway, target: &str) -> Message {
        let pairs = self.0.iter().map(|(name, value)| format!("{name}={value}"));
        let cookies = pairs.collect::<Vec<_>>().join("; ");
        let lines = if cookies.is_empty() { cookies } else { format!("Cookie: {cookies}\r\n") };
        let request = format!("GET {target} HTTP/1.1\r\nHost: shop.test\r\n{lines}\r\n");
        let answer = gateway.client().ask(request);
        for line in answer.all("set-cookie") {
            let (name, rest) = line.split_once('=').expect("a pair");
            let value = rest.split(';').next().unwrap_or_default();
            if line.contains("Max-Age=0") {
                self.0.remove(name);
            } else {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
}

pub(crate) fn location(answer: &Message) -> String {
    assert_eq!(answer.status(), 302, "{answer:?}");
    answer.field("location").expect("a place to go to").to_owned()
}

#[test]
fn programs_pass_by_tokens_that_the_provider_has_signed() {
    let (provider, origin) = (IdentityProvider::start(), Origin::named("a"));
    let conf = conf(&provider, json!({"bearer_only": true, "use_jwks": true}));
    let gateway = protected(&origin, &conf);
    let mut client = gateway.client();
    let claims = json!({"name": "x\r\nX-Admin: yes", "more": "y".repeat(2_000)});
    let token = provider.token(&claims);
    let request = format!(
        "GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nx_userinfo: forged\r\nX-ID-Token: forged\r\n\r\n"
    );
    assert_eq!(client.ask(request).status(), 200);
    let seen = origin.last_request();
    assert_eq!(seen.field("x-access-token"), Some(&*token));
    assert_eq!(seen.all("x-userinfo").len(), 1);
    let forged = |(name, value): &(String, String)| name == "X-Admin" || value.contains("forged");
    assert!(!seen.fields.iter().any(forged), "{seen:?}");
    let refused = bring(&mut client, "a.b.c");
    assert_eq!(refused.status(), 401);
    let expected = "Bearer realm=\"apisix\", error=\"invalid_token\", error_description=\"the token is not a JSON Web Token\"";
    assert_eq!(refused.field("www-authenticate"), Some(expected));
    let none = client.get("/a");
    assert_eq!(none.field("www-authenticate"), Some("Bearer realm=\"apisix\""));
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn requests_that_come_together_have_the_keys_fetched_once() {
    let (provider, origin) = (IdentityProvider::start(), Origin::named("a"));
    let conf = conf(&provider, json!({"bearer_only": true, "use_jwks": true}));
    let gateway = protected(&origin, &conf);
    let token = provider.token(&json!({}));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert_eq!(bring(&mut gateway.client(), &token).status(), 200));
        }
    });
    assert_eq!(provider.requests("/keys").len(), 1);
    assert_eq!(provider.requests("/.well-known/openid-configuration").len(), 1);
    // Known keys are good while somebody has unknown ones looked for in vain.
    provider.behave("/keys", Behaviour::Silent);
    let foreign = IdentityProvider::start();
    foreign.change_key("key-2");
    std::thread::scope(|scope| {
        let unknown = foreign.token(&json!({"iss": provider.issuer()}));
        for _ in 0..4 {
            let (unknown, token) = (unknown.clone(), &token);
            let gateway = &gateway;
            scope.spawn(move || assert_eq!(bring(&mut gateway.client(), &unknown).status(), 401));
            scope.spawn(move || assert_eq!(bring(&mut gateway.client(), token).status(), 200));
        }
    });
}

#[test]
fn a_provider_that_gives_no_answer_lets_nobody_pass() {
    let origin = Origin::named("a");
    for behaviour in [Behaviour::Away, Behaviour::Half, Behaviour::Redirect, Behaviour::Endless] {
        let provider = IdentityProvider::start();
        provider.behave("/introspect", behaviour.clone());
        let gateway = protected(&origin, &conf(&provider, json!({"bearer_only": true})));
        let refused = bring(&mut gateway.client(), "token");
        assert_eq!(refused.status(), 503, "{behaviour:?}");
        assert_eq!(refused.text(), "{\"message\":\"the identity provider gives no answer\"}\n");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_user_logs_in_is_known_and_logs_out() {
    let (provider, origin) = (IdentityProvider::start(), Origin::named("a"));
    let members = json!({"redirect_uri": "/callback", "use_pkce": true, "use_nonce": true,
        "session": {"secret": "a secret of sixteen letters"}});
    let gateway = protected(&origin, &conf(&provider, members));
    let mut browser = Browser::default();
    let sent = browser.get(&gateway, "/a?b=c");
    let back = provider.log_in(&location(&sent));
    let back = back.strip_prefix("http://shop.test").expect("it comes back here").to_owned();
    assert_eq!(Browser::default().get(&gateway, &back).status(), 500);
    assert_eq!(location(&browser.get(&gateway, &back)), "/a?b=c");
    assert_eq!(browser.get(&gateway, "/a?b=c").status(), 200);
    let seen = origin.last_request();
    assert!(seen.field("x-access-token").is_some_and(|token| token.starts_with("access-")));
    assert!(seen.field("x-userinfo").is_some() && seen.field("x-id-token").is_some());
    assert_eq!(seen.field("cookie"), None);
    assert_eq!(browser.get(&gateway, &back).status(), 500, "it has come back already");
    assert!(location(&browser.get(&gateway, "/logout")).starts_with(&provider.url("/logout")));
    assert!(browser.0.is_empty());
    assert_eq!(browser.get(&gateway, "/a").status(), 302);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_session_whose_token_is_renewed_gets_a_new_cookie_with_the_nodes_answer() {
    let (provider, origin) = (IdentityProvider::start(), Origin::named("a"));
    // It has ended as soon as it is given.
    provider.grant_for(0);
    let members = json!({"redirect_uri": "/callback",
        "session": {"secret": "a secret of sixteen letters"}});
    let gateway = protected(&origin, &conf(&provider, members));
    let mut browser = Browser::default();
    let back = provider.log_in(&location(&browser.get(&gateway, "/a")));
    let back = back.strip_prefix("http://shop.test").expect("it comes back here").to_owned();
    browser.get(&gateway, &back);
    let before = browser.0.clone();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut same = Browser(before.clone());
            let gateway = &gateway;
            scope.spawn(move || assert_eq!(same.get(gateway, "/a").status(), 200));
        }
    });
    // One for the code, and one for all who came with the same session.
    assert_eq!(provider.requests("/token").len(), 2);
    let answer = browser.get(&gateway, "/a");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "a"));
    assert_ne!(browser.0, before);
    provider.end_tokens();
    assert_eq!(browser.get(&gateway, "/a").status(), 302);
}

#[test]
fn a_cache_keeps_nobodys_session() {
    let (provider, origin) = (IdentityProvider::start(), Origin::named("a"));
    // It has ended as soon as it is given: each answer has a new cookie.
    provider.grant_for(0);
    let members = json!({"redirect_uri": "/callback",
        "session": {"secret": "a secret of sixteen letters"}});
    let plugins = json!({
        "openid-connect": conf(&provider, members),
        "proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache",
            "cache_key": ["$uri"], "cache_set_cookie": true},
    });
    let route = json!({"id": "all", "uri": "/*", "plugins": plugins,
        "upstream": upstream([origin.address()])});
    let gateway = gateway().resources(&routes([route])).start();
    let mut browser = Browser::default();
    let back = provider.log_in(&location(&browser.get(&gateway, "/a")));
    let back = back.strip_prefix("http://shop.test").expect("it comes back here").to_owned();
    browser.get(&gateway, &back);
    for _ in 0..2 {
        let answer = browser.get(&gateway, "/a");
        assert_eq!((answer.status(), answer.text().as_str()), (200, "a"));
        assert!(!answer.all("set-cookie").is_empty());
        assert_eq!(answer.field("apisix-cache-status"), Some("MISS"), "{answer:?}");
    }
}

#[test]
fn shenyus_oauth2_gives_nodes_the_token_of_who_has_logged_in() {
    let (provider, origin) = (IdentityProvider::start(), Origin::named("a"));
    let pairs = [pair("oauth2", "/", Value::Null, Value::Null), divide("/", &origin, json!({}))];
    let mut resources = objects(&pairs);
    resources["shenyu"]["plugins"][0]["config"] = json!({"client_id": CLIENT.0,
        "client_secret": CLIENT.1, "session_secret": "a secret of sixteen letters",
        "issuer": provider.issuer()});
    let gateway = gateway().resources(&resources).start();
    let mut browser = Browser::default();
    let back = provider.log_in(&location(&browser.get(&gateway, "/a?b=c")));
    let back = back.strip_prefix("http://shop.test").expect("it comes back here").to_owned();
    assert!(back.starts_with("/login/oauth2/code/shenyu?"), "{back}");
    assert_eq!(Browser::default().get(&gateway, &back).status(), 500);
    assert_eq!(location(&browser.get(&gateway, &back)), "/a?b=c");
    assert_eq!(browser.get(&gateway, "/a?b=c").status(), 200);
    let seen = origin.last_request();
    assert!(seen.field("authorization").is_some_and(|it| it.starts_with("Bearer access-")));
    assert_eq!((seen.target(), seen.field("cookie")), ("/a?b=c", None));
    assert_eq!(origin.requests().len(), 1);
}
