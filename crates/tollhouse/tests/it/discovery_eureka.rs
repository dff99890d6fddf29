//! Nodes from Eureka's own server: instances that come, go, and stay while the server is gone.
//!
//! `cargo x install` builds the server (source in `tests/interop`); a machine without one skips the test.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::program::{self, Running};
use tollhouse_testkit::{Gateway, Origin, RawClient};

use super::support;

/// A server in Java takes seconds to start, and more where others compile: this bounds a hang and measures nothing.
const PATIENCE: Duration = Duration::from_secs(180);

/// Starts the server; returns it with its port.
fn start() -> Option<(Running, u16)> {
    let server = Running::start(&mut Command::new(program::find("eureka-server-2025.0.0")?));
    let port = server
        .output()
        .wait_line_within(PATIENCE, "the server's port", |line| line.trim().parse().ok());
    Some((server, port))
}

fn register(eureka: u16, id: &str, node: &Origin) {
    let instance = json!({"instance": {
        "instanceId": id, "hostName": "127.0.0.1", "app": "ORDERS", "ipAddr": "127.0.0.1", "status": "UP",
        "port": {"$": node.address().port(), "@enabled": true}, "securePort": {"$": 443, "@enabled": false},
        "vipAddress": "orders", "metadata": {"weight": "3"},
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
    }});
    let body = instance.to_string();
    let request = format!(
        "POST /eureka/apps/ORDERS HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(call(eureka, &request), 204, "{id} registers");
}

fn call(eureka: u16, request: &str) -> u16 {
    RawClient::connect(([127, 0, 0, 1], eureka).into()).ask(request).status()
}

/// Waits until the upstream is in a state with this number of nodes; returns its report.
fn wait_for(gateway: &Gateway, state: &str, nodes: u64) -> Value {
    loop {
        let report = gateway.control("/v1/discovery/eureka/dump")["upstreams"][0].clone();
        if report["state"] == state && report["node_count"] == nodes {
            return report;
        }
        std::thread::yield_now();
    }
}

fn status(gateway: &Gateway) -> u16 {
    gateway.client().ask("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").status()
}

#[test]
fn nodes_follow_eurekas_own_server_and_stay_while_it_is_gone() {
    let Some((server, eureka)) = start() else { return };
    let nodes = [Origin::named("one"), Origin::named("two")];
    register(eureka, "i-1", &nodes[0]);
    let upstream =
        json!({"type": "roundrobin", "discovery_type": "eureka", "service_name": "orders"});
    let resources = json!({"routes": [{"id": "1", "uri": "/*", "upstream": upstream}]});
    let host = format!("http://127.0.0.1:{eureka}");
    let discovery = json!({"eureka": {"host": [host], "fetch_interval": 1}}).to_string();
    let gateway = support::gateway().set("discovery", &discovery).resources(&resources).start();
    let report = wait_for(&gateway, "serving", 1);
    assert_eq!(report["nodes"][0]["weight"], 3, "{report}");
    assert_eq!(status(&gateway), 200);

    register(eureka, "i-2", &nodes[1]);
    wait_for(&gateway, "serving", 2);
    let down = "PUT /eureka/apps/ORDERS/i-1/status?value=OUT_OF_SERVICE HTTP/1.1\r\nHost: x\r\n\
                Content-Length: 0\r\n\r\n";
    assert_eq!(call(eureka, down), 200);
    let report = wait_for(&gateway, "serving", 1);
    assert_eq!(report["instances"]["isolated"], 1, "{report}");

    drop(server);
    let report = wait_for(&gateway, "stale", 1);
    assert!(report["reason"].as_str().is_some_and(|it| it.contains("cannot be read")), "{report}");
    assert_eq!(status(&gateway), 200, "the last nodes stay");
    let findings = gateway.control("/v1/findings").to_string();
    assert!(findings.contains("source_failing"), "{findings}");
}
