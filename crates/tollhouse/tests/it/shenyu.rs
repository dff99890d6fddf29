//! ShenYu's objects in a file: selectors and rules that take real requests to real nodes, and what clients
//! get where none does.

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{ClosedPort, Connection, Gateway, GatewayBuilder, Origin};

use crate::support::{everything_to, gateway};

fn path(operator: &str, value: &str) -> Value {
    json!([{ "paramType": "uri", "operator": operator, "paramName": "/", "paramValue": value }])
}

/// A selector and a rule of a plugin for paths that begin with `prefix`.
pub(crate) struct Pair {
    plugin: &'static str,
    prefix: &'static str,
    selector: Value,
    rule: Value,
}

pub(crate) fn pair(
    plugin: &'static str,
    prefix: &'static str,
    selector: Value,
    rule: Value,
) -> Pair {
    Pair { plugin, prefix, selector, rule }
}

/// The nodes of a selector of `divide`.
pub(crate) fn nodes<const COUNT: usize>(ports: [u16; COUNT]) -> Value {
    let node = |port: u16| {
        json!({
            "upstreamHost": "localhost", "protocol": "http://", "weight": 50, "status": true,
            "upstreamUrl": format!("127.0.0.1:{port}"), "timestamp": 0, "warmup": 0,
        })
    };
    ports.map(node).as_slice().into()
}

pub(crate) fn objects(pairs: &[Pair]) -> Value {
    let mut plugins: Vec<&str> = pairs.iter().map(|pair| pair.plugin).collect();
    plugins.dedup();
    let plugins: Vec<_> = plugins
        .iter()
        .map(|name| json!({ "name": name, "enabled": true, "config": { "model": "black" } }))
        .collect();
    let selectors: Vec<_> = pairs
        .iter()
        .enumerate()
        .map(|(index, pair)| {
            json!({
                "id": index + 1, "name": pair.prefix, "pluginName": pair.plugin, "type": 1,
                "matchMode": 0, "enabled": true, "continued": true, "handle": pair.selector,
                "conditionList": path("startsWith", pair.prefix),
            })
        })
        .collect();
    let rules: Vec<_> = pairs
        .iter()
        .enumerate()
        .map(|(index, pair)| {
            json!({
                "id": 100 + index, "name": pair.prefix, "pluginName": pair.plugin,
                "selectorId": index + 1, "matchMode": 0, "enabled": true, "handle": pair.rule,
                "conditionDataList": path("startsWith", pair.prefix),
            })
        })
        .collect();
    json!({ "shenyu": { "plugins": plugins, "selectors": selectors, "rules": rules } })
}

pub(crate) fn serving(pairs: &[Pair]) -> GatewayBuilder {
    gateway().log_requests().resources(&objects(pairs))
}

pub(crate) fn divide(prefix: &'static str, origin: &Origin, rule: Value) -> Pair {
    pair("divide", prefix, nodes([origin.address().port()]), rule)
}

#[test]
fn a_selector_and_a_rule_of_divide_route_requests() {
    let origin = Origin::named("order");
    let gateway = serving(&[divide("/order/", &origin, json!({}))]).start();
    let mut client = gateway.client();
    assert_eq!(client.get("/order/findById?id=1").text(), "order");
    let request = origin.last_request();
    assert_eq!(request.target(), "/order/findById?id=1");
    assert_eq!(request.field("host"), Some(origin.address().to_string().as_str()));
    let missed = client.get("/other");
    assert_eq!(missed.status(), 404);
    assert_eq!(missed.field("content-type"), Some("application/json"));
    let body = r#"{"code":-107,"message":"divide:Can not find selector, please check your configuration!"}"#;
    assert_eq!(missed.text(), body);
    assert_eq!(gateway.log_line("/order/findById?id=1")["route_id"], "shenyu/100");
}

#[test]
fn default_bodies_have_shenyus_statuses_where_clients_expect_them() {
    let origin = Origin::named("order");
    let gateway = serving(&[divide("/order/", &origin, json!({}))])
        .set("shenyu.compatible_statuses", "true")
        .start();
    let missed = gateway.client().get("/other");
    assert_eq!(missed.status(), 200);
    assert!(missed.text().contains(r#""code":-107"#));
}

#[test]
fn routes_and_selectors_have_requests_in_the_order_that_is_set() {
    let (origin, other) = (Origin::named("shenyu"), Origin::named("apisix"));
    let mut resources = everything_to(other.address());
    resources["shenyu"] = objects(&[divide("/order/", &origin, json!({}))])["shenyu"].take();
    let gateway = super::support::gateway().resources(&resources).start();
    assert_eq!(gateway.client().get("/order/1").text(), "apisix");
    let gateway =
        super::support::gateway().resources(&resources).set("shenyu.comes_first", "true").start();
    let mut client = gateway.client();
    assert_eq!(client.get("/order/1").text(), "shenyu");
    assert_eq!(client.get("/other").text(), "apisix");
}

#[test]
fn unknown_paths_without_any_selector_are_shenyus_only_where_it_comes_first() {
    let resources = json!({"shenyu": {"plugins": [{"name": "divide", "enabled": true}]}});
    let gateway = super::support::gateway().resources(&resources).start();
    let unknown = gateway.client().get("/unknown");
    assert_eq!(unknown.status(), 404);
    assert!(unknown.text().contains("404 Route Not Found"), "{}", unknown.text());
    let gateway =
        super::support::gateway().resources(&resources).set("shenyu.comes_first", "true").start();
    let unknown = gateway.client().get("/unknown");
    assert!(unknown.text().contains(r#""code":-107"#), "{}", unknown.text());
}

#[test]
fn plugins_change_paths_and_refuse_before_a_node_is_asked() {
    let origin = Origin::named("order");
    let gateway = serving(&[
        pair(
            "waf",
            "/order/secret",
            Value::Null,
            json!({"permission": "reject", "statusCode": "405"}),
        ),
        pair(
            "contextPath",
            "/order",
            Value::Null,
            json!({"contextPath": "/order", "addPrefix": "/v1"}),
        ),
        divide("/order/", &origin, json!({})),
    ])
    .start();
    let mut client = gateway.client();
    assert_eq!(client.get("/order/findById?id=1").text(), "order");
    assert_eq!(origin.last_request().target(), "/v1/findById?id=1");
    // By whichever way.
    for path in ["/order/secret", "/order/a/../secret", "/order/./secret?a=b", "/order/%2e/secret"]
    {
        let refused = client.get(path);
        assert_eq!(refused.status(), 403, "{path}");
        assert_eq!(refused.text(), r#"{"code":405,"message":" You are forbidden to visit"}"#);
    }
    assert_eq!(origin.requests().len(), 1);
    assert_eq!(gateway.log_line("/order/findById?id=1")["route_id"], "shenyu/102");
}

#[test]
fn divide_fails_over_to_another_node_and_says_so_when_none_is_left() {
    let (closed, origin) = (ClosedPort::new(), Origin::named("good"));
    let ports = [closed.address().port(), origin.address().port()];
    let rule = json!({ "retryStrategy": "failover", "retry": 3 });
    let gateway = serving(&[
        pair("divide", "/both/", nodes(ports), rule.clone()),
        pair("divide", "/none/", nodes([closed.address().port()]), rule),
    ])
    .start();
    let mut client = gateway.client();
    for _ in 0..4 {
        assert_eq!(client.get("/both/1").text(), "good");
    }
    let refused = client.get("/none/1");
    assert_eq!(refused.status(), 503);
    let text = r#"{"code":503,"message":"CANNOT_FIND_HEALTHY_UPSTREAM_URL_AFTER_FAILOVER"}"#;
    assert_eq!(refused.text(), text);
}

#[test]
fn a_node_is_asked_again_where_the_rule_says_the_current_one() {
    let tries = std::sync::atomic::AtomicU32::new(0);
    let origin = Origin::script(move |connection: &mut Connection| {
        if connection.request().is_none() {
            return;
        }
        if tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0 {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
        }
    });
    let rule = json!({ "retryStrategy": "current", "retry": 1 });
    let gateway = serving(&[divide("/", &origin, rule)]).start();
    assert_eq!(gateway.client().get("/").text(), "good");
}

#[test]
fn a_node_that_is_too_slow_is_given_up_in_shenyus_words() {
    let origin = Origin::script(|connection: &mut Connection| {
        connection.request();
        let _ = connection.wait_end();
    });
    for (strategy, body) in [
        (
            "current",
            r#"{"code":408,"message":"Request timeout, the maximum number of retry times has been exceeded"}"#,
        ),
        ("failover", r#"{"code":504,"message":"Response took longer than timeout: PT0.1S"}"#),
    ] {
        let rule = json!({"timeout": 100, "retry": 0, "retryStrategy": strategy});
        let gateway = serving(&[divide("/", &origin, rule)]).start();
        let late = gateway.client().get("/");
        assert_eq!((late.status(), late.text().as_str()), (504, body), "{strategy}");
    }
}

#[test]
fn a_second_node_that_is_too_slow_ends_a_failover_with_its_timeout() {
    let slow = |connection: &mut Connection| {
        connection.request();
        let _ = connection.wait_end();
    };
    let (first, second) = (Origin::script(slow), Origin::script(slow));
    let ports = [first.address().port(), second.address().port()];
    for (retries, status, code) in [(1, 504, r#""code":504"#), (2, 503, r#""code":503"#)] {
        let rule = json!({"timeout": 100, "retry": retries, "retryStrategy": "failover"});
        let gateway = serving(&[pair("divide", "/", nodes(ports), rule)]).start();
        let answer = gateway.client().get("/");
        assert_eq!(answer.status(), status, "{retries}: {}", answer.text());
        assert!(answer.text().contains(code), "{retries}: {}", answer.text());
    }
}

#[test]
fn a_slow_node_without_another_to_ask_is_named_as_a_failed_failover() {
    let origin = Origin::script(|connection: &mut Connection| {
        connection.request();
        let _ = connection.wait_end();
    });
    let rule = json!({"timeout": 100, "retry": 1, "retryStrategy": "failover"});
    let gateway = serving(&[divide("/", &origin, rule)]).start();
    let late = gateway.client().get("/");
    let text = r#"{"code":503,"message":"CANNOT_FIND_HEALTHY_UPSTREAM_URL_AFTER_FAILOVER"}"#;
    assert_eq!((late.status(), late.text().as_str()), (503, text));
}

#[test]
fn a_target_that_is_no_uri_is_answered_400_without_a_body_and_odd_queries_are_written_anew() {
    let origin = Origin::named("good");
    let gateway = serving(&[divide("/", &origin, json!({}))]).start();
    let mut client = gateway.client();
    let refused = client.get("/a?b=|");
    assert_eq!((refused.status(), refused.text().as_str()), (400, ""));
    assert_eq!(refused.field("content-type"), None);
    assert_eq!(client.get("/a?b=1+2:3&&c=%41").text(), "good");
    assert_eq!(origin.requests()[0].target(), "/a?b=1%202%3A3&c=A");
}

#[test]
fn websocket_is_carried_by_its_own_plugin() {
    let origin = Origin::script(|connection: &mut Connection| {
        if connection.request().is_some_and(|request| request.field("upgrade").is_some()) {
            connection.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello",
            );
        }
    });
    let ws = json!([{ "protocol": "ws://", "url": origin.address().to_string(), "status": true }]);
    let gateway = serving(&[pair("websocket", "/chat", ws, json!({}))]).start();
    let mut client = gateway.client();
    let asked = client.ask(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(asked.status(), 101);
    client.expect("hello");
}

#[test]
fn a_change_of_the_file_is_served_and_a_bad_object_leaves_the_others() {
    let (first, second) = (Origin::named("first"), Origin::named("second"));
    let gateway: Gateway = serving(&[divide("/", &first, json!({}))]).start();
    assert_eq!(gateway.client().get("/").text(), "first");
    let mut changed = objects(&[divide("/", &second, json!({}))]);
    let bad = json!({ "id": "bad", "pluginName": "divide", "selectorId": "1", "handle": { "retry": "many" } });
    changed["shenyu"]["rules"].as_array_mut().expect("a list").push(bad);
    gateway.reload(&changed);
    assert_eq!(gateway.client().get("/").text(), "second");
    let problems = gateway.configuration()["problems"].to_string();
    assert!(problems.contains("shenyu.rules[1]"), "{problems}");
}

#[test]
fn requests_and_answers_are_changed_on_their_way() {
    let origin = Origin::script(|connection: &mut Connection| {
        while connection.request().is_some() {
            connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Old: old\r\nContent-Length: 18\r\n\r\n\
                 {\"secret\":1,\"a\":2}",
            );
        }
    });
    let gateway = serving(&[
        pair(
            "request",
            "/order",
            Value::Null,
            json!({"header": {"setHeaders": {"X-Set": "1"}}, "parameter": {"addParameters": {"p": "1"}}}),
        ),
        pair(
            "modifyResponse",
            "/order",
            Value::Null,
            json!({"statusCode": 201, "replaceHeaderKeys": {"X-Old": "X-New"}, "removeBodyKeys": ["$.secret"]}),
        ),
        divide("/order", &origin, json!({})),
    ])
    .start();
    let mut client = gateway.client();
    for _ in 0..2 {
        let answer = client.get("/order/1?q=2");
        assert_eq!((answer.status(), answer.text().as_str()), (201, "{\"a\":2}"));
        assert_eq!((answer.field("x-new"), answer.field("x-old")), (None, Some("X-New")));
    }
}

#[test]
fn what_a_rule_takes_out_of_answers_is_never_shown_whatever_a_client_accepts() {
    let origin = Origin::script(|connection: &mut Connection| {
        while let Some(request) = connection.request() {
            let accepted = request.field("accept-encoding").unwrap_or_default().to_owned();
            let coding = if accepted == "identity" { "" } else { "Content-Encoding: gzip\r\n" };
            let body =
                if request.target() == "/packed" { "Content-Encoding: br\r\n" } else { coding };
            connection.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{body}Content-Length: 18\r\n\r\n\
                 {{\"secret\":1,\"a\":2}}"
            ));
        }
    });
    let rule = json!({"removeBodyKeys": ["$.secret"]});
    let gateway =
        serving(&[pair("modifyResponse", "/", Value::Null, rule), divide("/", &origin, json!({}))])
            .start();
    for (path, status, body) in [("/a", 200, "{\"a\":2}"), ("/packed", 502, "")] {
        let answer = gateway
            .client()
            .ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br\r\n\r\n"));
        assert_eq!(answer.status(), status, "{path}");
        assert!(!answer.text().contains("secret") && answer.text().contains(body), "{path}");
    }
}

#[test]
fn bodies_without_a_declared_length_are_counted_by_divide() {
    let origin = Origin::named("good");
    let gateway = serving(&[divide("/", &origin, json!({"requestMaxSize": 10}))]).start();
    for (framing, expected) in [
        ("Content-Length: 10\r\n\r\n0123456789", 200),
        ("Content-Length: 11\r\n\r\n0123456789a", 413),
        ("Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n", 200),
        ("Transfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n", 413),
    ] {
        let answer = gateway.client().ask(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}"));
        assert_eq!(answer.status(), expected, "{framing}");
    }
}

#[test]
fn limits_and_breakers_answer_in_the_place_of_a_node() {
    let (closed, origin) = (ClosedPort::new(), Origin::named("good"));
    let gateway = serving(&[
        pair(
            "rateLimiter",
            "/limited",
            Value::Null,
            json!({"algorithmName": "tokenBucket", "replenishRate": 1, "burstCapacity": 1}),
        ),
        pair(
            "hystrix",
            "/broken",
            Value::Null,
            json!({"requestVolumeThreshold": 2, "callBackUri": "fallback:/fallback/hystrix"}),
        ),
        divide("/limited", &origin, json!({})),
        pair("divide", "/broken", nodes([closed.address().port()]), json!({"retry": 0})),
    ])
    .start();
    let mut client = gateway.client();
    assert_eq!(client.get("/limited").text(), "good");
    // A token comes back each time a second of the clock begins, which may be between any two requests.
    assert!((0..10).any(|_| client.get("/limited").status() == 429));
    // Two calls fail, and the third is not made.
    for _ in 0..3 {
        let fallen_back = client.get("/broken");
        assert_eq!(fallen_back.status(), 200);
        let text = fallen_back.text();
        assert!(text.contains("HystrixPlugin fallback success"), "{text}");
    }
}

#[test]
fn a_breaker_falls_back_where_a_node_does_not_answer_in_time() {
    let silent = Origin::script(|connection| {
        connection.request();
        let _ = connection.wait_end();
    });
    let node = || nodes([silent.address().port()]);
    let hystrix = |prefix, rule| pair("hystrix", prefix, Value::Null, rule);
    let pairs = [
        hystrix("/page", json!({"timeout": 50})),
        hystrix("/none", json!({"timeout": 50, "callBackUri": ""})),
        hystrix("/inside", json!({"timeout": 50, "callBackUri": "fallback:/fallback/hystrix"})),
        pair("sentinel", "/sentinel", Value::Null, json!({})),
        pair("divide", "/", node(), json!({"retry": 0, "timeout": 100})),
    ];
    for statuses in ["false", "true"] {
        let gateway = serving(&pairs).set("shenyu.compatible_statuses", statuses).start();
        let mut client = gateway.client();
        let page = client.get("/page");
        assert_eq!((page.status(), page.field("location")), (302, Some("/fallback/hystrix")));
        assert_eq!(page.text(), "");
        let none = client.get("/none");
        assert_eq!(none.status(), 504, "compatible statuses: {statuses}");
        assert_eq!(none.text(), r#"{"code":-104,"message":"Service call timeout!"}"#);
        assert_eq!(none.field("content-type"), Some("application/json"));
        let inside = client.get("/inside");
        assert_eq!(inside.status(), 200);
        assert!(inside.text().contains("HystrixPlugin fallback success"), "{}", inside.text());
        let sentinel = client.get("/sentinel");
        assert_eq!(
            (sentinel.status(), sentinel.field("location")),
            (302, Some("/fallback/sentinel"))
        );
        let late = client.get("/other");
        let late_status = if statuses == "true" { 408 } else { 504 };
        assert_eq!(late.status(), late_status, "no breaker has to do with it");
        assert!(late.text().starts_with(r#"{"code":408"#), "{}", late.text());
    }
}

#[test]
fn filters_answer_before_any_plugin_and_tell_pages_of_other_sites_what_they_may_read() {
    let origin = Origin::named("order");
    let gateway = serving(&[divide("/", &origin, json!({}))])
        .set("shenyu.cross.enabled", "true")
        .set("shenyu.health_paths", "/actuator")
        .set("shenyu.exclude_paths", "/favicon.ico")
        .set("shenyu.collapse_slashes", "true")
        .start();
    let mut client = gateway.client();
    assert_eq!(client.get("/actuator/health").text(), r#"{"status":"UP"}"#);
    assert_eq!(client.get("/favicon.ico").text(), "");
    assert_eq!(origin.requests().len(), 0);
    let page = client.ask("GET //order///1 HTTP/1.1\r\nHost: a\r\nOrigin: https://b.com\r\n\r\n");
    assert_eq!(page.field("access-control-allow-origin"), Some("https://b.com"));
    assert_eq!(page.text(), "order");
    assert_eq!(origin.last_request().target(), "/order/1");
    let asked = client
        .ask("OPTIONS /order/1 HTTP/1.1\r\nHost: a\r\nOrigin: https://b.com\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((asked.status(), asked.field("access-control-max-age")), (200, Some("18000")));
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn metrics_names_are_shenyus_beside_ours() {
    let origin = Origin::named("order");
    let limit = json!({"algorithmName": "tokenBucket", "replenishRate": 1, "burstCapacity": 1});
    let gateway = serving(&[
        pair("rateLimiter", "/order/few", Value::Null, limit),
        divide("/order/", &origin, json!({})),
    ])
    .start();
    let mut client = gateway.client();
    assert_eq!(client.get("/order/1").status(), 200);
    assert_eq!(client.get("/order/few").status(), 200);
    assert_eq!(client.get("/order/few").status(), 429);
    for (name, expected) in [
        ("shenyu_request_total", 3.0),
        ("shenyu_request_type_total{type=\"http\"}", 3.0),
        ("shenyu_execute_latency_millis_count", 3.0),
        ("shenyu_ratelimiter_request_restrict_total", 1.0),
        ("shenyu_hystrix_request_circuitbreaker_total", 0.0),
    ] {
        wait_for(name, || (gateway.metric(name) == expected).then_some(()));
    }
}
