//! The interface of ShenYu's gateway itself, on the gateway's own listener: a gateway without an admin and
//! without a file is set up by calls, as ShenYu's is.

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Message, Origin};

use crate::support::gateway;

/// The SHA-512 digest of the key `sesame`.
const DIGEST: &str = concat!(
    "bb947e9c96a5620c696bd175a1b28eea6337fa8ca6c3dd19efb65e2cb1a4dfee",
    "0256cc87c21589354f1a9f5887af5d23ce05d72a143ae2f1efea9c455bf3d056"
);

fn call(gateway: &Gateway, key: &str, path: &str, body: &Value) -> Message {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let method = if body.is_empty() { "GET" } else { "POST" };
    gateway.client().ask(format!(
        "{method} /shenyu/{path} HTTP/1.1\r\nHost: a\r\nlocalKey: {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

fn set(gateway: &Gateway, path: &str, body: &Value) -> String {
    let answer = call(gateway, "sesame", path, body);
    assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
    answer.text()
}

#[test]
fn local_rest_sets_a_gateway_up_as_it_does_shenyus() {
    let origin = Origin::named("order");
    let gateway = gateway()
        .without_resources()
        .set("shenyu.local_key_sha512", DIGEST)
        .set("shenyu.compatible_statuses", "true")
        .start();
    // Until there is a plugin, nobody is served in ShenYu's name.
    assert_eq!(gateway.client().get("/order/findById").status(), 404);
    for key in ["", "wrong"] {
        let refused = call(&gateway, key, "cleanAll", &Value::Null);
        assert_eq!(refused.status(), 403);
        assert_eq!(refused.text(), r#"{"code":403,"message":"The key is not correct."}"#);
    }
    for (id, name, sort) in [("5", "divide", 200), ("14", "contextPath", 80)] {
        let plugin = json!({"id": id, "name": name, "enabled": true, "role": "x", "sort": sort});
        assert_eq!(set(&gateway, "plugin/saveOrUpdate", &plugin), "success");
    }
    let nodes = json!([{"upstreamHost": "localhost", "protocol": "http://", "weight": 50, "status": true,
        "upstreamUrl": origin.address().to_string(), "timestamp": 0, "warmup": 0}]);
    let condition = json!([{"paramType": "uri", "operator": "startsWith", "paramName": "/", "paramValue": "/order/"}]);
    let pair = json!({"pluginName": "divide", "selectorHandler": nodes.to_string(),
        "ruleHandler": json!({"loadBalance": "random", "timeout": 3000}).to_string(),
        "conditionDataList": condition});
    assert_eq!(set(&gateway, "plugin/selectorAndRule", &pair), "success");
    wait_for("the selector to serve", || {
        (gateway.client().get("/order/findById?id=1").text() == "order").then_some(())
    });
    let unknown = gateway.client().get("/other");
    assert_eq!((unknown.status(), unknown.text().contains("-107")), (200, true));
    let found = set(&gateway, "plugin/selector/findList?pluginName=divide", &Value::Null);
    assert!(found.contains("/order/"), "{found}");
    assert_eq!(set(&gateway, "cleanAll", &Value::Null), "success");
    wait_for("nobody to be served", || {
        (gateway.client().get("/order/findById").status() == 404).then_some(())
    });
}

#[test]
fn redirect_leads_to_the_gateways_own_interface_for_callers_with_the_key() {
    let gateway = gateway().without_resources().set("shenyu.local_key_sha512", DIGEST).start();
    let plugin = |name: &str| json!({"name": name, "enabled": true, "role": "x", "sort": 110});
    assert_eq!(set(&gateway, "plugin/saveOrUpdate", &plugin("redirect")), "success");
    let condition =
        json!([{"paramType": "uri", "operator": "=", "paramName": "/", "paramValue": "/setup"}]);
    let pair = json!({"pluginName": "redirect", "selectorHandler": "",
        "ruleHandler": json!({"redirectURI": "/shenyu/plugin/saveOrUpdate"}).to_string(),
        "conditionDataList": condition});
    assert_eq!(set(&gateway, "plugin/selectorAndRule", &pair), "success");
    let ask = |key: &str| {
        let body = plugin("rewrite").to_string();
        gateway.client().ask(format!(
            "POST /setup HTTP/1.1\r\nHost: a\r\nlocalKey: {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let done = wait_for("the rule to serve", || {
        Some(ask("sesame")).filter(|answer| answer.status() != 404)
    });
    assert_eq!((done.status(), done.text().as_str()), (200, "success"));
    assert_eq!(ask("wrong").status(), 403);
}
