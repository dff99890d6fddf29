//! The source over a played Consul, which answers in the documented form and lets queries wait.

use serde_json::{Value, json};

use super::*;
use crate::discovery::remote::test_server::{
    PlayedRegistry, Waiting, nodes, source, until_nodes, until_ready, until_report, upstream,
};
use crate::discovery::{NodeSource, SourceState};

const ORDERS: &str = "/v1/health/service/orders";

fn entry(address: &str, port: u32, status: &str) -> Value {
    json!({
        "Node": {"Node": "n1", "Address": "10.9.9.9", "Datacenter": "dc1"},
        "Service": {
            "ID": format!("orders-{port}"), "Service": "orders", "Tags": ["v1"], "Address": address,
            "Port": port, "Meta": {"zone": "a"}, "Weights": {"Passing": 2, "Warning": 1},
        },
        "Checks": [
            {"CheckID": "serfHealth", "Status": "passing"},
            {"CheckID": "service:orders", "Status": status},
        ],
    })
}

fn settings(registry: &PlayedRegistry, more: Value) -> Value {
    let mut consul = json!({"servers": [registry.url()], "weight": 10, "fetch_interval": 1});
    consul.as_object_mut().expect("a table").extend(more.as_object().cloned().expect("a table"));
    json!({ "consul": consul })
}

fn orders() -> Value {
    json!({"discovery_type": "consul", "service_name": "orders"})
}

#[tokio::test]
async fn nodes_follow_a_service_by_queries_that_wait() {
    let registry = PlayedRegistry::start().await;
    registry.set(ORDERS, &json!([entry("10.0.0.1", 80, "passing"), entry("", 81, "passing")]));
    let source = source::<Consul>(&settings(&registry, json!({"token": "hush"})));
    let state = upstream(&orders());
    source.follow(&state);
    // Without an address of its own, an instance is at that of its node.
    until_nodes(&state, &["10.0.0.1:80 20", "10.9.9.9:81 20"]).await;
    registry
        .set(ORDERS, &json!([entry("10.0.0.1", 80, "critical"), entry("10.0.0.2", 0, "passing")]));
    until_nodes(&state, &["10.0.0.2:80 20"]).await;
    let report = until_report(&source, |report| report.instances.unhealthy == 1).await;
    assert_eq!((report.state, report.node_count), (SourceState::Serving, 1));
    let seen = registry.seen();
    assert_eq!(seen[0].0, "GET /v1/health/service/orders");
    assert!(seen[1].0.ends_with("?index=2&wait=60s"), "{}", seen[1].0);
    assert!(seen.iter().all(|(_, headers)| headers["x-consul-token"] == "hush"));

    registry.set(ORDERS, &json!([entry("10.0.0.1", 80, "critical")]));
    until_nodes(&state, &[]).await;
    let report = until_report(&source, |report| report.state == SourceState::Empty).await;
    let reason = report.reason.expect("a reason");
    assert_eq!(reason, "none of its 1 instances may serve: 1 unhealthy");
    registry.set(ORDERS, &json!([]));
    let report = until_report(&source, |report| report.state == SourceState::Missing).await;
    assert_eq!(report.reason.as_deref(), Some("Consul has no service orders"));
}

#[tokio::test]
async fn a_server_that_fails_keeps_the_last_nodes_and_recovers() {
    let registry = PlayedRegistry::start().await;
    registry.set(ORDERS, &json!([entry("10.0.0.1", 80, "passing")]));
    let source = source::<Consul>(&settings(&registry, json!({})));
    let state = upstream(&orders());
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:80 20"]).await;
    for (status, body) in [(500, json!("hush")), (200, json!({"not": "a list"}))] {
        registry.set_status(ORDERS, status, &body);
        let report = until_report(&source, |report| report.state == SourceState::Stale).await;
        let reason = report.reason.expect("a reason");
        assert!(reason.contains("Consul cannot be read") && !reason.contains("hush"), "{reason}");
        assert_eq!(reason.matches("http://").count(), 1, "{reason}");
        assert_eq!(nodes(&state), ["10.0.0.1:80 20"], "{status}");
        registry.set(ORDERS, &json!([entry("10.0.0.1", 80, "passing")]));
        until_report(&source, |report| report.state == SourceState::Serving).await;
    }
}

#[tokio::test]
async fn the_next_server_is_asked_if_one_is_down() {
    let registry = PlayedRegistry::start().await;
    registry.set(ORDERS, &json!([entry("10.0.0.1", 80, "passing")]));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let down = format!("http://{}", closed.local_addr().expect("bound"));
    drop(closed);
    let servers = json!({"servers": [down, registry.url()]});
    let source = source::<Consul>(&settings(&registry, servers));
    let state = upstream(&orders());
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:80 20"]).await;
}

#[tokio::test]
async fn a_registry_that_never_answered_leaves_requests_without_nodes() {
    let registry = PlayedRegistry::start().await;
    let source = source::<Consul>(&settings(&registry, json!({})));
    let state = upstream(&orders());
    source.follow(&state);
    let report = until_report(&source, |report| report.state == SourceState::Failed).await;
    assert!(report.reason.expect("a reason").contains("status 404"));
    // Without nodes, but no request waits for any.
    until_ready(&state).await;
    assert_eq!(state.node_count(), 0);
}

#[tokio::test]
async fn an_upstream_of_a_registry_that_is_not_configured_says_so() {
    let source = source::<Consul>(&json!({}));
    let state = upstream(&orders());
    source.follow(&state);
    until_ready(&state).await;
    let report = until_report(&source, |_| true).await;
    assert_eq!(report.state, SourceState::Off);
    let reason = "Consul is not configured: set discovery.consul and restart";
    assert_eq!(report.reason.as_deref(), Some(reason));
}

#[tokio::test]
async fn skipped_services_and_metadata_that_differs_give_no_nodes() {
    let registry = PlayedRegistry::start().await;
    registry.set(ORDERS, &json!([entry("10.0.0.1", 80, "passing")]));
    for (settings_more, args, expected) in [
        (json!({"skip_services": ["orders"]}), json!({}), SourceState::Missing),
        (json!({"keepalive": false}), json!({"metadata": {"zone": "b"}}), SourceState::Empty),
        (json!({"keepalive": false}), json!({"metadata": {"zone": "a"}}), SourceState::Serving),
    ] {
        let source = source::<Consul>(&settings(&registry, settings_more));
        let mut conf = orders();
        conf["discovery_args"] = args;
        let state = upstream(&conf);
        source.follow(&state);
        until_report(&source, |report| report.state == expected).await;
    }
}

#[tokio::test]
async fn the_next_server_is_asked_if_an_answer_is_unusable() {
    let (broken, good) = (PlayedRegistry::start().await, PlayedRegistry::start().await);
    broken.set(ORDERS, &json!({"not": "a list"}));
    good.set(ORDERS, &json!([entry("10.0.0.1", 80, "passing")]));
    let servers = json!({"servers": [broken.url(), good.url()]});
    let source = source::<Consul>(&settings(&good, servers));
    let state = upstream(&orders());
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:80 20"]).await;
    good.set(ORDERS, &json!([entry("10.0.0.2", 80, "passing")]));
    until_nodes(&state, &["10.0.0.2:80 20"]).await;
    assert_eq!(broken.seen().len(), 1);
}

#[tokio::test]
async fn ca_certificates_may_appear_later() {
    let registry = PlayedRegistry::start().await;
    registry.set(ORDERS, &json!([entry("10.0.0.1", 80, "passing")]));
    let folder = tempfile::tempdir().expect("a folder");
    let ca = folder.path().join("ca.pem");
    let source = source::<Consul>(&settings(&registry, json!({"ca": ca})));
    let state = upstream(&orders());
    source.follow(&state);
    let report = until_report(&source, |report| report.state == SourceState::Failed).await;
    assert!(report.reason.expect("a reason").contains("ca.pem"));
    let key = rcgen::generate_simple_self_signed(["ca.example".to_owned()]).expect("a certificate");
    std::fs::write(&ca, key.cert.pem()).expect("written");
    until_nodes(&state, &["10.0.0.1:80 20"]).await;
}

#[tokio::test]
async fn changes_arrive_from_a_server_that_lets_no_query_wait() {
    let registry = PlayedRegistry::start().await;
    registry.set_waiting(Waiting::AnsweredAtOnce);
    registry.set(ORDERS, &json!([entry("10.0.0.1", 80, "passing")]));
    let source = source::<Consul>(&settings(&registry, json!({})));
    let state = upstream(&orders());
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:80 20"]).await;
    registry.set(ORDERS, &json!([entry("10.0.0.2", 80, "passing")]));
    until_nodes(&state, &["10.0.0.2:80 20"]).await;
}

#[tokio::test]
async fn local_nodes_of_servers_elsewhere_do_not_serve() {
    let registry = PlayedRegistry::start().await;
    let instances = ["127.0.0.1", "169.254.169.254", "10.0.0.1"];
    registry.set(ORDERS, &json!(instances.map(|host| entry(host, 8080, "passing"))));
    // The second server is not asked, because the first one answers.
    let servers = json!({"servers": [registry.url(), "http://10.255.255.1:8500"]});
    let source = source::<Consul>(&settings(&registry, servers));
    let state = upstream(&orders());
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:8080 20"]).await;
    let report = until_report(&source, |report| report.instances.total == 3).await;
    assert_eq!(report.instances.forbidden, 2);
}
