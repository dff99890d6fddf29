//! The source over a played Nacos, which answers in the documented form of version 1.

use serde_json::{Value, json};

use super::*;
use crate::discovery::remote::test_server::{
    PlayedRegistry, nodes, source, until_nodes, until_report, upstream,
};
use crate::discovery::{NodeSource, SourceState};

const LIST: &str = "/nacos/v1/ns/instance/list";
const LOGIN: &str = "/nacos/v1/auth/login";

fn host(ip: &str, port: u16, weight: f64, flags: (bool, bool)) -> Value {
    json!({
        "ip": ip, "port": port, "weight": weight, "healthy": flags.0, "enabled": flags.1,
        "ephemeral": true, "clusterName": "DEFAULT", "serviceName": "DEFAULT_GROUP@@orders",
        "metadata": {"version": "2"}, "instanceId": "i",
    })
}

fn list(hosts: Value) -> Value {
    json!({"name": "DEFAULT_GROUP@@orders", "cacheMillis": 10_000, "hosts": hosts, "valid": true})
}

fn settings(url: &str, more: Value) -> Value {
    let mut nacos = json!({"host": [url], "fetch_interval": 1});
    nacos.as_object_mut().expect("a table").extend(more.as_object().cloned().expect("a table"));
    json!({ "nacos": nacos })
}

fn orders(args: Value) -> Value {
    json!({"discovery_type": "nacos", "service_name": "orders", "discovery_args": args})
}

#[tokio::test]
async fn nodes_are_the_healthy_and_enabled_hosts_of_a_service() {
    let registry = PlayedRegistry::start().await;
    registry.set(
        LIST,
        &list(json!([
            host("10.0.0.1", 80, 1.0, (true, true)),
            host("10.0.0.2", 80, 0.2, (true, true)),
            host("10.0.0.3", 80, 1.0, (false, true)),
            host("10.0.0.4", 80, 1.0, (true, false)),
            host("10.0.0.5", 80, 0.0, (true, true)),
        ])),
    );
    let source = source::<Nacos>(&settings(&registry.url(), json!({})));
    let args = json!({"namespace_id": "test", "group_name": "g-1", "version": "2"});
    let state = upstream(&orders(args));
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:80 1", "10.0.0.2:80 1"]).await;
    let report = until_report(&source, |report| report.instances.total == 5).await;
    assert_eq!((report.instances.unhealthy, report.instances.isolated), (1, 1));
    assert_eq!((report.instances.weightless, &*report.service), (1, "test/g-1/orders"));
    let target =
        format!("GET {LIST}?healthyOnly=false&serviceName=orders&groupName=g-1&namespaceId=test");
    assert_eq!(registry.seen()[0].0, target);

    registry.set_status(LIST, 500, &json!({}));
    let report = until_report(&source, |report| report.state == SourceState::Stale).await;
    assert!(report.reason.expect("a reason").contains("status 500"));
    assert_eq!(nodes(&state).len(), 2, "the last nodes stay");
    // A document that is not a list, and comes with status 200.
    registry.set(LIST, &list(json!([host("10.0.0.1", 80, 1.0, (true, true))])));
    until_nodes(&state, &["10.0.0.1:80 1"]).await;
    registry.set(LIST, &json!({"code": 30000, "message": "server is starting", "data": null}));
    let report = until_report(&source, |report| report.state == SourceState::Stale).await;
    assert!(report.reason.expect("a reason").contains("missing field `hosts`"));
    assert_eq!(nodes(&state), ["10.0.0.1:80 1"]);
    // An empty list is an answer, unlike a failure.
    registry.set(LIST, &list(json!([])));
    until_nodes(&state, &[]).await;
    until_report(&source, |report| report.state == SourceState::Empty).await;
}

#[tokio::test]
async fn a_user_logs_in_once_and_again_when_its_token_is_refused() {
    let registry = PlayedRegistry::start().await;
    registry.set(LOGIN, &json!({"accessToken": "t/1", "tokenTtl": 18_000, "globalAdmin": true}));
    registry.set(LIST, &list(json!([host("10.0.0.1", 80, 1.0, (true, true))])));
    let url = format!("http://me:p@s@{}", registry.address);
    let source = source::<Nacos>(&settings(&url, json!({})));
    let state = upstream(&orders(json!({})));
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:80 1"]).await;
    let logins = || registry.seen().iter().filter(|(line, _)| line.starts_with("POST")).count();
    let seen = registry.seen();
    assert_eq!(seen[0].0, format!("POST {LOGIN}?username=me&password=p%40s"));
    assert!(seen[1].0.ends_with("&groupName=DEFAULT_GROUP&accessToken=t%2F1"), "{}", seen[1].0);
    assert_eq!(logins(), 1);
    registry.set_status(LIST, 403, &json!({}));
    let report = until_report(&source, |report| report.state == SourceState::Stale).await;
    let reason = report.reason.expect("a reason");
    assert!(
        !reason.contains("t/1") && !reason.contains("p@s") && !reason.contains("p%40s"),
        "{reason}"
    );
    registry.set(LIST, &list(json!([host("10.0.0.2", 80, 1.0, (true, true))])));
    until_nodes(&state, &["10.0.0.2:80 1"]).await;
    assert!(logins() >= 2);
}

#[tokio::test]
async fn requests_are_signed_with_a_secret_key() {
    let registry = PlayedRegistry::start().await;
    registry.set(LIST, &list(json!([host("10.0.0.1", 80, 1.0, (true, true))])));
    let keys = json!({"access_key": "ak", "secret_key": "hush"});
    let source = source::<Nacos>(&settings(&registry.url(), keys));
    let state = upstream(&orders(json!({})));
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:80 1"]).await;
    let line = registry.seen()[0].0.clone();
    let value = |name: &str| {
        let (_, rest) = line.split_once(&format!("&{name}=")).expect(name);
        let text = rest.split('&').next().expect("a value");
        percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
    };
    let data = value("data");
    assert!(data.ends_with("@@DEFAULT_GROUP@@orders"), "{data}");
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"hush");
    let expected = STANDARD.encode(hmac::sign(&key, data.as_bytes()));
    assert_eq!((value("ak"), value("signature")), ("ak".to_owned(), expected));
    assert!(!line.contains("hush"), "{line}");
}

#[tokio::test]
async fn a_token_of_any_lifetime_is_taken() {
    for lifetime in [0, u64::MAX] {
        let registry = PlayedRegistry::start().await;
        registry.set(LOGIN, &json!({"accessToken": "t", "tokenTtl": lifetime}));
        registry.set(LIST, &list(json!([host("10.0.0.1", 80, 1.0, (true, true))])));
        let url = format!("http://me:secret@{}", registry.address);
        let source = source::<Nacos>(&settings(&url, json!({})));
        let state = upstream(&orders(json!({})));
        source.follow(&state);
        until_nodes(&state, &["10.0.0.1:80 1"]).await;
    }
}
