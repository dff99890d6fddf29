//! What every module of this binary begins with: a gateway of the program under test, and resources
//! that lead to origins.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};
use tollhouse_testkit::{Gateway, GatewayBuilder, Origin, RawClient};

/// A gateway to be described further.
pub(crate) fn gateway() -> GatewayBuilder {
    Gateway::builder(env!("CARGO_BIN_EXE_tollhouse"))
}

/// A running gateway that leads every request to `origin`.
pub(crate) fn gateway_to(origin: &Origin) -> Gateway {
    gateway().resources(&everything_to(origin.address())).start()
}

/// Resources that lead every request to one address.
pub(crate) fn everything_to(address: SocketAddr) -> Value {
    routes([json!({ "id": "all", "uri": "/*", "upstream": upstream([address]) })])
}

/// Resources of nothing but routes.
pub(crate) fn routes<const COUNT: usize>(routes: [Value; COUNT]) -> Value {
    json!({ "routes": routes.as_slice() })
}

/// An upstream that takes turns among addresses.
pub(crate) fn upstream<const COUNT: usize>(addresses: [SocketAddr; COUNT]) -> Value {
    json!({ "type": "roundrobin", "nodes": nodes(addresses.map(|address| (address, 1))) })
}

/// Nodes with their weights.
pub(crate) fn nodes<const COUNT: usize>(weights: [(SocketAddr, u32); COUNT]) -> Value {
    let node = |(address, weight): (SocketAddr, u32)| (address.to_string(), json!(weight));
    Value::Object(weights.into_iter().map(node).collect())
}

/// `value` with further members, or with others in their place.
pub(crate) fn with(mut value: Value, members: Value) -> Value {
    let (Value::Object(fields), Value::Object(more)) = (&mut value, members) else {
        panic!("both are objects");
    };
    fields.extend::<Map<String, Value>>(more);
    value
}

/// Everything to one upstream, which is given further members.
pub(crate) fn everything_with(upstream: Value, members: Value) -> Value {
    routes([json!({ "id": "all", "uri": "/*", "upstream": with(upstream, members) })])
}

/// Where a listener stands that is off unless asked for, by its name in the start-up text.
pub(crate) fn listener_named(gateway: &Gateway, name: &str) -> SocketAddr {
    let text = gateway.output().text();
    let line =
        text.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().split_once("://"));
    let address = line.and_then(|(_, rest)| rest.split('/').next()?.parse().ok());
    address.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// How the registry answers for a service in the namespace `default`, over HTTP.
pub(crate) fn discover(registry: SocketAddr, service: &str) -> Value {
    let asked =
        json!({ "type": "INSTANCE", "service": { "name": service, "namespace": "default" } });
    let answer = RawClient::connect(registry).ask(registry_request("Discover", &asked));
    serde_json::from_slice(&answer.body).expect("the answer is JSON")
}

/// A call of the registry over HTTP.
pub(crate) fn registry_request(method: &str, body: &Value) -> String {
    json_request(&format!("/v1/{method}"), body)
}

/// A request to the registry's HTTP with a body.
pub(crate) fn json_request(path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: registry\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Says that it is over when it is dropped, also by a wait that was in vain: a scope waits for its threads.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
