//! The source over a played API server, which answers in the documented form and ends a watch with an
//! event.

use serde_json::{Value, json};

use super::*;
use crate::discovery::remote::test_server::{
    PlayedRegistry, Waiting, nodes, source, until_nodes, until_report, upstream,
};
use crate::discovery::{NodeSource, SourceState};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";

fn slice(addresses: &Value, conditions: &Value, port: u16) -> Value {
    json!({
        "metadata": {"name": "orders-abc"}, "addressType": "IPv4",
        "endpoints": [{"addresses": addresses, "conditions": conditions}],
        "ports": [
            {"name": "metrics", "port": 9090, "protocol": "TCP"},
            {"name": "http", "port": port, "protocol": "TCP"},
        ],
    })
}

/// A list whose version is the number of changes of the played server.
fn list(items: &Value) -> Value {
    json!({"kind": "EndpointSliceList", "metadata": {"resourceVersion": "$INDEX"}, "items": items})
}

fn settings(registry: &PlayedRegistry, client: Value) -> Value {
    let (host, port) = (registry.address.ip(), registry.address.port().to_string());
    let service = json!({"schema": "http", "host": host, "port": port});
    json!({"kubernetes": {"service": service, "client": client, "fetch_interval": 1}})
}

fn orders(port: &str) -> Value {
    json!({"discovery_type": "kubernetes", "service_name": format!("shop/orders:{port}")})
}

#[tokio::test]
async fn nodes_are_the_ready_endpoints_of_a_named_port_and_follow_a_watch() {
    let registry = PlayedRegistry::start().await;
    let ready = json!({"ready": true});
    registry.set(
        SLICES,
        &list(&json!([
            slice(&json!(["10.0.0.1", "10.0.0.2"]), &ready, 8080),
            slice(&json!(["10.0.0.3"]), &json!({"ready": false, "terminating": true}), 8080),
            {"metadata": {}, "addressType": "IPv4", "endpoints": null, "ports": null},
        ])),
    );
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "one\n").expect("written");
    let source = source::<Kubernetes>(&settings(&registry, json!({"token_file": token})));
    let state = upstream(&orders("http"));
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:8080 50", "10.0.0.2:8080 50"]).await;
    let report = until_report(&source, |report| report.instances.unhealthy == 1).await;
    assert_eq!(report.service, "shop/orders:http");
    // A slice without conditions is ready, and a token is read anew.
    std::fs::write(&token, "two\n").expect("written");
    registry.set(SLICES, &list(&json!([slice(&json!(["10.0.0.4"]), &json!({}), 8081)])));
    until_nodes(&state, &["10.0.0.4:8081 50"]).await;
    let seen = registry.seen();
    let query = "?labelSelector=kubernetes.io%2Fservice-name%3Dorders";
    assert_eq!(seen[0].0, format!("GET {SLICES}{query}"));
    let watch = format!("GET {SLICES}{query}&watch=true&resourceVersion=2&timeoutSeconds=300");
    assert_eq!(seen[1].0, watch);
    let tokens: Vec<_> = seen.iter().map(|(_, headers)| headers["authorization"].clone()).collect();
    assert_eq!(
        (&tokens[0], &tokens[2]),
        (&"Bearer one".parse().expect("a value"), &"Bearer two".parse().expect("a value"))
    );
}

#[tokio::test]
async fn a_failing_server_and_a_wrong_port_keep_the_last_nodes() {
    let registry = PlayedRegistry::start().await;
    let good = list(&json!([slice(&json!(["10.0.0.1"]), &json!({"ready": true}), 8080)]));
    registry.set(SLICES, &good);
    let source = source::<Kubernetes>(&settings(&registry, json!({"token": "hush"})));
    let state = upstream(&orders("8080"));
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:8080 50"]).await;
    let other = list(&json!([slice(&json!(["10.0.0.1"]), &json!({"ready": true}), 8090)]));
    let status = json!({"kind": "Status", "status": "Failure", "message": "etcd is away"});
    for (status, body, expected) in [
        (403, good.clone(), "status 403"),
        (200, other, "metrics (9090), http (8090)"),
        (200, status, "missing field `items`"),
    ] {
        registry.set_status(SLICES, status, &body);
        let report = until_report(&source, |report| report.state == SourceState::Stale).await;
        let reason = report.reason.expect("a reason");
        assert!(reason.contains(expected) && !reason.contains("hush"), "{reason}");
        assert_eq!(nodes(&state), ["10.0.0.1:8080 50"]);
        registry.set(SLICES, &good);
        until_report(&source, |report| report.state == SourceState::Serving).await;
    }
    registry.set(SLICES, &list(&json!(null)));
    until_nodes(&state, &[]).await;
    until_report(&source, |report| report.state == SourceState::Missing).await;
}

#[tokio::test]
async fn slices_are_polled_without_a_failure_while_watches_are_refused() {
    let registry = PlayedRegistry::start().await;
    registry.set_waiting(Waiting::Refused);
    let source = source::<Kubernetes>(&settings(&registry, json!({"token": "hush"})));
    let state = upstream(&orders("8080"));
    for (address, expected) in [("10.0.0.1", "10.0.0.1:8080 50"), ("10.0.0.2", "10.0.0.2:8080 50")]
    {
        registry.set(SLICES, &list(&json!([slice(&json!([address]), &json!({}), 8080)])));
        source.follow(&state);
        until_nodes(&state, &[expected]).await;
        let report = until_report(&source, |_| true).await;
        assert_eq!(report.state, SourceState::Serving, "{:?}", report.reason);
    }
}

#[tokio::test]
async fn changes_arrive_from_a_server_that_ends_watches_at_once() {
    let registry = PlayedRegistry::start().await;
    registry.set_waiting(Waiting::AnsweredAtOnce);
    let mut orders_slice = slice(&json!(["10.0.0.1"]), &json!({}), 8080);
    orders_slice["metadata"]["resourceVersion"] = json!("7");
    registry.set(SLICES, &list(&json!([orders_slice])));
    let source = source::<Kubernetes>(&settings(&registry, json!({"token": "hush"})));
    let state = upstream(&orders("8080"));
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:8080 50"]).await;
    // Another object of the cluster changes, and with it the version of the list.
    registry.set(SLICES, &list(&json!([orders_slice])));
    registry.set(SLICES, &list(&json!([slice(&json!(["10.0.0.2"]), &json!({}), 8080)])));
    until_nodes(&state, &["10.0.0.2:8080 50"]).await;
}
