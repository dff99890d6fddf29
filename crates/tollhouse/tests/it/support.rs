//! What every module of this binary begins with: a gateway of the program under test, and resources
//! that lead to origins.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use tollhouse_testkit::{Gateway, GatewayBuilder, Origin};

/// A gateway to be described further.
pub(crate) fn gateway() -> GatewayBuilder {
    Gateway::of(env!("CARGO_BIN_EXE_tollhouse"))
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
