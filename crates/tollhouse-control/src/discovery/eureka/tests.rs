//! The source over a played Eureka, which answers in the documented form.

use serde_json::{Value, json};

use super::*;
use crate::discovery::remote::test_server::{
    PlayedRegistry, nodes, source, until_nodes, until_report, upstream,
};
use crate::discovery::{NodeSource, SourceState};

const APPS: &str = "/eureka/apps";

fn instance(host: &str, status: &str, more: Value) -> Value {
    let mut instance = json!({
        "instanceId": host, "hostName": host, "app": "ORDERS", "ipAddr": host, "status": status,
        "overriddenStatus": "UNKNOWN", "port": {"$": 8080, "@enabled": "true"},
        "securePort": {"$": 8443, "@enabled": "false"},
        "metadata": {"@class": "java.util.Collections$EmptyMap"},
    });
    instance.as_object_mut().expect("a table").extend(more.as_object().cloned().expect("a table"));
    instance
}

fn apps(instances: &Value) -> Value {
    let application = json!([
        {"name": "OTHER", "instance": [instance("10.0.0.9", "UP", json!({}))]},
        {"name": "ORDERS", "instance": instances},
    ]);
    json!({"applications": {
        "versions__delta": "1", "apps__hashcode": "UP_2_", "application": application,
    }})
}

#[tokio::test]
async fn nodes_are_the_instances_that_are_up() {
    let registry = PlayedRegistry::start().await;
    let secure = json!({"securePort": {"$": "8443", "@enabled": "true"}});
    let weight = json!({"metadata": {"weight": "7"}});
    let instances = json!([
        instance("10.0.0.1", "UP", json!({})),
        instance("10.0.0.2", "UP", secure),
        instance("10.0.0.3", "UP", weight),
        instance("10.0.0.4", "DOWN", json!({})),
        instance("10.0.0.5", "UP", json!({"overriddenStatus": "OUT_OF_SERVICE"})),
        instance("10.0.0.6", "UP", json!({"overriddenstatus": "DOWN"})),
        instance("10.0.0.7", "UP", json!({"port": {"$": 8080, "@enabled": false}})),
    ]);
    registry.set(APPS, &apps(&instances));
    let url = format!("http://me:secret@{}", registry.address);
    let settings = json!({"eureka": {"host": [url], "fetch_interval": 1}});
    let source = source::<Eureka>(&settings);
    let state = upstream(&json!({"discovery_type": "eureka", "service_name": "orders"}));
    source.follow(&state);
    until_nodes(&state, &["10.0.0.1:8080 100", "10.0.0.2:8443 100", "10.0.0.3:8080 7"]).await;
    let report = until_report(&source, |report| report.instances.total == 6).await;
    assert_eq!((report.instances.unhealthy, report.instances.isolated), (2, 1));
    let seen = registry.seen();
    assert_eq!(seen[0].0, "GET /eureka/apps");
    assert_eq!(seen[0].1["authorization"], "Basic bWU6c2VjcmV0");
    assert_eq!(seen[0].1["accept"], "application/json");

    registry.set_status(APPS, 503, &json!({}));
    until_report(&source, |report| report.state == SourceState::Stale).await;
    assert_eq!(nodes(&state).len(), 3, "the last nodes stay");
    // A list of one item is written as the item by some servers.
    registry.set(APPS, &apps(&instance("10.0.0.8", "UP", json!({}))));
    until_nodes(&state, &["10.0.0.8:8080 100"]).await;
    // A document that is not a list, and comes with status 200.
    registry.set(APPS, &json!({"applications": {"error": "starting"}}));
    until_report(&source, |report| report.state == SourceState::Stale).await;
    assert_eq!(nodes(&state), ["10.0.0.8:8080 100"]);
    let empty = json!({"versions__delta": "1", "apps__hashcode": "", "application": []});
    registry.set(APPS, &json!({ "applications": empty }));
    until_nodes(&state, &[]).await;
    until_report(&source, |report| report.state == SourceState::Missing).await;
}
