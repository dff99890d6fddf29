//! Upstreams whose nodes come from the registry: clients register, and the gateway follows.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, GatewayBuilder, Origin, RawClient};

use crate::support::{everything_with, gateway, routes, with};

/// A gateway with a registry.
fn with_registry() -> GatewayBuilder {
    gateway().set("listen.registry_http", "127.0.0.1:0")
}

fn named(service: &str) -> Value {
    json!({"type": "roundrobin", "discovery_type": "registry", "service_name": service})
}

/// Asks the registry as a client does; it must say yes.
fn registry_call(gateway: &Gateway, call: &str, instance: &Value) {
    let address: SocketAddr = gateway.output().wait_line("the registry", |line| {
        let rest = line.trim_start().strip_prefix("registry")?.trim_start();
        rest.strip_prefix("http://")?.split('/').next()?.parse().ok()
    });
    let body = instance.to_string();
    let answer = RawClient::connect(address).ask(format!(
        "POST /v1/{call} HTTP/1.1\r\nHost: registry\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(answer.status(), 200, "{call} {body}: {}", answer.text());
}

/// An instance of `prod/orders`.
fn instance(origin: &Origin) -> Value {
    let address = origin.address();
    json!({"service": "orders", "namespace": "prod", "host": address.ip(), "port": address.port()})
}

fn register(gateway: &Gateway, origin: &Origin, more: Value) {
    registry_call(gateway, "RegisterInstance", &with(instance(origin), more));
}

/// Waits until requests are answered by these origins in turn, and by nobody else.
fn wait_answers(gateway: &Gateway, path: &str, expected: &[&str]) {
    wait_for(&format!("answers of {expected:?}"), || {
        let mut client = gateway.client();
        let mut found: Vec<String> =
            (0..expected.len() * 2).map(|_| client.get(path).text()).collect();
        found.sort();
        found.dedup();
        (found == expected).then_some(())
    });
}

/// How the upstream of a route stands: state and reason.
fn standing(gateway: &Gateway) -> (Value, Value) {
    let told = gateway.control("/v1/discovery/registry");
    let upstream = &told["upstreams"][0];
    (upstream["state"].clone(), upstream["reason"].clone())
}

#[test]
fn instances_get_requests_from_their_registration_to_their_end() {
    let (a, b) = (Origin::named("a"), Origin::named("b"));
    let gateway =
        with_registry().resources(&everything_with(named("prod/orders"), json!({}))).start();
    assert_eq!(gateway.client().get("/").status(), 503);
    let missing = json!("the registry has no service prod/orders");
    assert_eq!(standing(&gateway), (json!("missing"), missing));
    gateway.wait_failures("upstream_unresolved", 1);

    register(&gateway, &a, json!({}));
    wait_answers(&gateway, "/", &["a"]);
    register(&gateway, &b, json!({}));
    wait_answers(&gateway, "/", &["a", "b"]);
    register(&gateway, &a, json!({"isolate": true}));
    wait_answers(&gateway, "/", &["b"]);
    assert_eq!(standing(&gateway), (json!("serving"), Value::Null));
    register(&gateway, &a, json!({"isolate": false, "weight": 0}));
    register(&gateway, &b, json!({"healthy": false}));
    // Nobody is healthy: whoever may serve does.
    wait_answers(&gateway, "/", &["b"]);
    wait_for("protection", || (standing(&gateway).0 == "protected").then_some(()));
    registry_call(&gateway, "DeregisterInstance", &instance(&b));
    wait_for("the end", || (gateway.client().get("/").status() == 503).then_some(()));
    let reason = json!("none of its 1 instances may serve: 1 of weight 0");
    wait_for("the reason", || {
        (standing(&gateway) == (json!("empty"), reason.clone())).then_some(())
    });
}

#[test]
fn a_new_route_has_the_instances_at_its_first_request() {
    let origin = Origin::named("a");
    let gateway = with_registry().resources(&routes([])).start();
    register(&gateway, &origin, json!({"version": "2", "metadata": {"zone": "a"}}));
    let mut filtered = named("prod/orders");
    filtered["discovery_args"] = json!({"version": "2", "metadata": {"zone": "a"}});
    let mut other = filtered.clone();
    other["discovery_args"]["version"] = json!("3");
    gateway.reload(&routes([
        json!({"id": "good", "uri": "/good", "upstream": filtered}),
        json!({"id": "other", "uri": "/other", "upstream": other}),
    ]));
    assert_eq!(gateway.client().get("/good").text(), "a");
    assert_eq!(gateway.client().get("/other").status(), 503);
    let dump = gateway.control("/v1/discovery/polaris/dump");
    let nodes = &dump["upstreams"][0]["nodes"];
    assert_eq!(nodes[0]["port"], origin.address().port(), "{dump}");
    assert_eq!(dump["upstreams"][1]["instances"]["filtered_out"], 1, "{dump}");
}

#[test]
fn upstreams_inside_of_plugins_follow_the_registry_too() {
    let (listed, canary) = (Origin::named("listed"), Origin::named("canary"));
    let split = json!({"traffic-split": {"rules": [{
        "match": [{"vars": [["arg_canary", "==", "1"]]}],
        "weighted_upstreams": [{"upstream": named("prod/orders")}],
    }]}});
    let upstream = json!({"nodes": {listed.address().to_string(): 1}});
    let route = json!({"id": "r", "uri": "/*", "plugins": split, "upstream": upstream});
    let gateway = with_registry().resources(&routes([route])).start();
    register(&gateway, &canary, json!({}));
    wait_answers(&gateway, "/?canary=1", &["canary"]);
    wait_answers(&gateway, "/", &["listed"]);
}

#[test]
fn instances_are_back_after_a_restart() {
    let origin = Origin::named("a");
    let gateway =
        with_registry().resources(&everything_with(named("prod/orders"), json!({}))).start();
    register(&gateway, &origin, json!({}));
    let gateway = gateway.kill().set("listen.registry_http", "127.0.0.1:0").start();
    assert_eq!(gateway.client().get("/").text(), "a");
}
