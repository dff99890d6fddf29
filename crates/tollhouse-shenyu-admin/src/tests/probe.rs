//! Tests of nodes that crash and return.

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::Fixture;
use crate::probe;

/// Opens a listener on a port that the kernel chooses, and returns it with its address.
async fn node() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

async fn register(fixture: &Fixture, address: &str) {
    let (host, port) = address.rsplit_once(':').expect("a port");
    let body = json!({"contextPath": "/order", "appName": "order", "host": host, "port": port});
    assert_eq!(fixture.call("POST", "/shenyu-client/register-uri", &body).await, "success");
}

/// Returns address and status of each node as gateways receive them, and the status in the
/// selector's handle.
async fn nodes(fixture: &Fixture) -> Vec<(String, i64, bool)> {
    let path = "/configs/fetch?groupKeys=DISCOVER_UPSTREAM&groupKeys=SELECTOR";
    let groups = fixture.call("GET", path, &Value::Null).await;
    let groups = &groups["data"];
    let nodes = groups["DISCOVER_UPSTREAM"]["data"][0]["upstreamDataList"].as_array();
    let selectors = groups["SELECTOR"]["data"].as_array().expect("a list");
    let divide = selectors.iter().find(|it| it["pluginName"] == "divide").expect("divide");
    let handle: Value =
        serde_json::from_str(divide["handle"].as_str().expect("a text")).expect("JSON");
    let in_handle = |url: &str| {
        let nodes = handle.as_array().expect("a list");
        nodes.iter().any(|node| node["upstreamUrl"] == url && node["status"] == true)
    };
    let view = |node: &Value| {
        assert!(node.get(probe::AWAY_SINCE).is_none(), "gateways do not know it");
        let url = node["url"].as_str().expect("a text").to_owned();
        let is_on = in_handle(&url);
        (url, node["status"].as_i64().expect("a number"), is_on)
    };
    nodes.into_iter().flatten().map(view).collect()
}

/// Removal and return of a node that crashed without deregistering (§5.1).
#[tokio::test]
async fn a_node_that_crashed_is_off_until_it_answers_again() {
    let fixture = Fixture::new().await;
    let (first, first_address) = node().await;
    let (_second, second_address) = node().await;
    register(&fixture, &first_address).await;
    register(&fixture, &second_address).await;
    probe::round(&fixture.admin, 1_000).await;
    let both_on = [(first_address.clone(), 0, true), (second_address.clone(), 0, true)];
    assert_eq!(nodes(&fixture).await, both_on);
    drop(first);
    probe::round(&fixture.admin, 2_000).await;
    let first_off = [(first_address.clone(), 1, false), (second_address.clone(), 0, true)];
    assert_eq!(nodes(&fixture).await, first_off);
    let _first = TcpListener::bind(&first_address).await.expect("the same port");
    probe::round(&fixture.admin, 3_000).await;
    assert_eq!(nodes(&fixture).await, both_on);
}

#[tokio::test]
async fn a_heartbeat_brings_a_node_back_at_once() {
    let fixture = Fixture::new().await;
    let (node, address) = node().await;
    register(&fixture, &address).await;
    drop(node);
    probe::round(&fixture.admin, 1_000).await;
    assert_eq!(nodes(&fixture).await, [(address.clone(), 1, false)], "also the last one");
    register(&fixture, &address).await;
    assert_eq!(nodes(&fixture).await, [(address, 0, true)]);
}

#[tokio::test]
async fn a_node_that_stays_away_is_forgotten() {
    let fixture = Fixture::new().await;
    let (node, address) = node().await;
    register(&fixture, &address).await;
    drop(node);
    probe::round(&fixture.admin, 1_000).await;
    probe::round(&fixture.admin, 24 * 60 * 60 * 1000).await;
    assert_eq!(nodes(&fixture).await.len(), 1);
    probe::round(&fixture.admin, 24 * 60 * 60 * 1000 + 1_000).await;
    assert_eq!(nodes(&fixture).await, []);
}

#[tokio::test]
async fn what_an_operator_switched_off_or_excepts_is_left_alone() {
    let fixture = Fixture::new().await;
    let (_node, address) = node().await;
    register(&fixture, &address).await;
    let list = fixture.expect("GET", "/selector?pluginId=5", &Value::Null, "query success").await;
    let id = list["dataList"][0]["id"].as_str().expect("an id");
    let off =
        json!({"protocol": "http://", "url": address, "status": 1, "weight": 1, "props": "{}"});
    let excepted = json!({"protocol": "http://", "url": "127.0.0.1:1", "status": 0, "weight": 1,
        "props": "{\"healthCheckEnabled\":false}"});
    let path = format!("/discovery-upstream/{id}");
    fixture.expect("PUT", &path, &json!([off, excepted]), "").await;
    probe::round(&fixture.admin, 1_000).await;
    let states: Vec<i64> = nodes(&fixture).await.into_iter().map(|(_, status, _)| status).collect();
    assert_eq!(states, [1, 0]);
}

#[tokio::test]
async fn where_no_node_at_all_answers_the_network_is_doubted() {
    let fixture = Fixture::new().await;
    let mut addresses = Vec::new();
    for _ in 0..3 {
        let (_, address) = node().await;
        register(&fixture, &address).await;
        addresses.push(address);
    }
    probe::round(&fixture.admin, 1_000).await;
    assert!(nodes(&fixture).await.iter().all(|(_, status, _)| *status == 0));
}
