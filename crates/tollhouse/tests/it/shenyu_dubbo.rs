//! `dubbo` of ShenYu's against Dubbo's own server: requests call its methods generically, with values of every kind
//! that Java tells apart.
//!
//! `cargo x install` builds the server (source in `tests/interop`); a machine without one skips the test.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::program::{self, Running};
use tollhouse_testkit::{ClosedPort, Gateway, Message};

use super::shenyu::{objects, pair};

/// A server in Java takes seconds to start, and more where others compile: this bounds a hang and measures nothing.
const PATIENCE: Duration = Duration::from_secs(180);

const SERVICE: &str = "interop.Server$Orders";
const ORDER: &str = "interop.Server$Order";

/// Metadata of a method of the service.
fn method(name: &str, types: &str, extension: &Value) -> Value {
    json!({"id": name, "appName": "shop", "path": format!("/shop/{name}"), "rpcType": "dubbo", "serviceName": SERVICE,
        "methodName": name, "parameterTypes": types, "rpcExt": extension.to_string(), "enabled": true})
}

fn call(gateway: &Gateway, name: &str, body: &Value) -> Message {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    gateway.client().ask(format!(
        "POST /shop/{name} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

#[test]
fn dubbo_calls_methods_of_dubbos_own_server() {
    let Some(program) = program::find("dubbo-server-3.2.16") else { return };
    let server = Running::start(&mut Command::new(program));
    let address = server.output().wait_line_within(PATIENCE, "serving", |line| {
        line.strip_prefix("serving at ").map(str::to_owned)
    });
    let closed = ClosedPort::new();
    // One that is away stands beside it: who has not got a call may be left for another.
    let upstreams = json!([
        {"upstreamUrl": closed.address().to_string(), "weight": 50, "status": true},
        {"upstreamUrl": address, "weight": 50, "status": true},
    ]);
    let mut resources = objects(&[pair("dubbo", "/shop/", upstreams, json!({"retries": 1}))]);
    let version = json!({"version": "1.0", "timeout": 20_000});
    let other = json!({"version": "9.9", "timeout": 20_000});
    resources["shenyu"]["metadata"] = json!([
        method("find", "java.lang.String", &version),
        method("add", "int,int", &version),
        method("save", ORDER, &version),
        method("list", r#"{"names":"[Ljava.lang.String;","how":"java.util.Map","number":"long","flag":"boolean","amount":"double"}"#, &version),
        method("nothing", "", &version),
        method("fail", "java.lang.String", &version),
        method("missing", "java.lang.String", &version),
        {"id": "other", "appName": "shop", "path": "/shop/other", "rpcType": "dubbo", "serviceName": SERVICE,
            "methodName": "find", "parameterTypes": "java.lang.String", "rpcExt": other.to_string(), "enabled": true},
    ]);
    let gateway = super::support::gateway().resources(&resources).start();
    let good = [
        ("find", json!({"id": "Ω-7"}), json!({"id": "Ω-7", "total": 1_u64 << 40, "parts": null})),
        ("add", json!({"first": 2_000_000_000, "second": -7}), json!(1_999_999_993)),
        (
            "save",
            json!({"id": "a", "total": 1_u64 << 33, "parts": [{"id": "b", "total": -1, "parts": []}]}),
            json!({"id": "a", "total": (1_u64 << 33) + 1, "parts": [{"id": "b", "total": -1, "parts": []}]}),
        ),
        (
            "list",
            json!({"names": ["a", "b"], "how": {"k": [1, "x", null]}, "number": 1_u64 << 60, "flag": true, "amount": 2.5}),
            json!(["a+b", "{k=[1, x, null]}", "1152921504606846976 true 2.5"]),
        ),
        ("nothing", Value::Null, Value::Null),
    ];
    // Twice: servers take turns, so that each call meets the one that is away.
    for (name, body, expected) in good.iter().chain(&good) {
        let answer = call(&gateway, name, body);
        assert_eq!(answer.status(), 200, "{name}: {}", answer.text());
        let mut result: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
        forget_classes(&mut result);
        assert_eq!(&result, expected, "{name}");
    }
    for (name, body) in [
        ("fail", json!({"why": "sold out"})),
        ("missing", json!({"id": "1"})),
        ("other", json!({"id": "1"})),
    ] {
        let answer = call(&gateway, name, &body);
        assert!(answer.status() >= 500, "{name}: {}", answer.text());
        assert!(answer.text().contains("\"code\":-103"), "{name}: {}", answer.text());
    }
    let missing = call(&gateway, "find", &Value::Null);
    assert!(missing.text().contains("\"code\":431"), "{}", missing.text());
}

/// Takes away what Dubbo says of the classes of values.
fn forget_classes(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("class");
            members.values_mut().for_each(forget_classes);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_classes),
        _ => {}
    }
}
