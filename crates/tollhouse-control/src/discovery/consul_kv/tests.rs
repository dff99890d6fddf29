//! The source over a played Consul.

use serde_json::{Value as Json, json};

use super::*;
use crate::discovery::remote::test_server::{
    PlayedRegistry, nodes, source, until_nodes, until_report, upstream,
};
use crate::discovery::{NodeSource, SourceState};

const KEYS: &str = "/v1/kv/nodes/web/";

fn entry(key: &str, value: &str) -> Json {
    let value = if value.is_empty() { Json::Null } else { STANDARD.encode(value).into() };
    json!({"LockIndex": 0, "Key": key, "Flags": 0, "Value": value, "CreateIndex": 1, "ModifyIndex": 1})
}

#[tokio::test]
async fn nodes_are_the_keys_below_a_service_in_either_form_of_its_name() {
    let registry = PlayedRegistry::start().await;
    let keys = json!([
        entry("nodes/web/", ""),
        entry("nodes/web/10.0.0.1:80", "{\"weight\": 7, \"max_fails\": 2, \"fail_timeout\": 1}"),
        entry("nodes/web/10.0.0.2:81", ""),
        entry("nodes/web/10.0.0.3:82", "{\"weight\": 0}"),
        entry("nodes/web/10.0.0.4:83", "{\"weight\": 1}"),
        entry("nodes/web/other", "x"),
    ]);
    let settings = json!({"consul_kv": {
        "servers": [registry.url()], "prefix": "nodes", "weight": 3, "fetch_interval": 1,
        "skip_keys": ["nodes/web/10.0.0.4:83"],
    }});
    for name in ["web", "http://127.0.0.1:8500/v1/kv/nodes/web/"] {
        registry.set(KEYS, &keys);
        let source = source::<ConsulKv>(&settings);
        let state = upstream(&json!({"discovery_type": "consul_kv", "service_name": name}));
        source.follow(&state);
        until_nodes(&state, &["10.0.0.1:80 7", "10.0.0.2:81 3"]).await;
        let line = registry.seen().last().expect("a request").0.clone();
        assert!(line.starts_with("GET /v1/kv/nodes/web/?recurse=true"), "{line}");
        registry.set(KEYS, &json!([entry("nodes/web/10.0.0.9:80", "")]));
        until_nodes(&state, &["10.0.0.9:80 3"]).await;
        registry.set_status(KEYS, 500, &json!([]));
        until_report(&source, |report| report.state == SourceState::Stale).await;
        assert_eq!(nodes(&state), ["10.0.0.9:80 3"]);
        // The last key was deleted.
        registry.set_status(KEYS, 404, &json!(""));
        until_nodes(&state, &[]).await;
        until_report(&source, |report| report.state == SourceState::Missing).await;
    }
}
