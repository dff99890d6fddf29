//! Plugins beside one another, and what becomes of them when objects change, seen from outside.

use serde_json::json;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{ClosedPort, Origin};

use crate::cases::Bench;
use crate::support::{gateway, upstream};

#[test]
fn consumers_bring_plugins_along() {
    let bench = Bench::with_gateway(gateway().set("secrets.env", "CARGO_MANIFEST_DIR"));
    let marked = |name: &str| json!({"headers": {"set": {"x-who": name}}});
    let rewritten = json!({"uri": "/kate", "headers": {"set": {"x-kate": "yes"}}});
    let refused = json!({"abort": {"http_status": 418, "body": "$consumer_name says no"}});
    let limited = json!({"count": 2, "time_window": 60, "rejected_code": 429});
    for (name, plugin, conf) in [
        ("kate", "proxy-rewrite", rewritten),
        ("sam", "fault-injection", refused),
        ("lim", "limit-count", limited),
        ("ann", "echo", json!({"body": "hello", "_meta": {"disable": true}})),
    ] {
        let mut plugins = json!({"key-auth": {"key": name}, (plugin): conf});
        if name == "kate" {
            plugins["response-rewrite"] = marked("kate");
        }
        bench.put("/consumers", json!({"username": name, "plugins": plugins}));
    }
    let shared = json!({"plugins": {"limit-count": {"count": 2, "time_window": 60}}});
    bench.put("/consumer_groups/shared", shared);
    for name in ["g1", "g2"] {
        let plugins = json!({"key-auth": {"key": name}});
        bench
            .put("/consumers", json!({"username": name, "group_id": "shared", "plugins": plugins}));
    }
    let key = json!({"key-auth": {"key": "$ENV://CARGO_MANIFEST_DIR"}});
    bench.put("/consumers", json!({"username": "env", "plugins": key}));
    let table = include_str!("cases/tables/consumers_bring.txt");
    bench.check(&table.replace("{environment}", env!("CARGO_MANIFEST_DIR")));
}

#[test]
fn plugins_act_together() {
    let (bench, nobody) = (Bench::start(), ClosedPort::new());
    let table = include_str!("cases/tables/together.txt");
    bench.check(&table.replace("{nobody}", &nobody.address().to_string()));
}

#[test]
fn changes_of_objects_reach_plugins() {
    let bench = Bench::start();
    let jack = |key: &str| json!({"username": "jack", "plugins": {"key-auth": {"key": key}}});
    bench.put("/consumers", jack("one"));
    bench.put("/routes/a", bench.route("a.test", json!({"key-auth": {}})));
    bench.wait_until_served();
    bench.say("a.test", "> GET /\n> apikey: one\n< 200");
    bench.put("/consumers", jack("two"));
    bench.wait_until_served();
    bench.say("a.test", "> GET /\n> apikey: one\n< 401\n\n> GET /\n> apikey: two\n< 200");
    bench.put("/consumers/jack/credentials/c", json!({"plugins": {"key-auth": {"key": "three"}}}));
    bench.wait_until_served();
    bench.say("a.test", "> GET /\n> apikey: three\n< 200\n^ X-Credential-Identifier: c");
    bench.gateway.admin("DELETE", "/consumers/jack/credentials/c", &json!(null));
    bench.wait_until_served();
    bench.say("a.test", "> GET /\n> apikey: three\n< 401");
    let patch = json!({"plugins": {"key-auth": null, "mocking": {"response_example": "patched"}}});
    assert_eq!(bench.gateway.admin("PATCH", "/routes/a", &patch).status(), 200);
    bench.wait_until_served();
    bench.say("a.test", "> GET /\n< 200\n<= patched");
    bench.gateway.admin("DELETE", "/consumers/jack", &json!(null));

    bench.put("/global_rules/1", json!({"plugins": {"mocking": {"response_example": "rule"}}}));
    bench.put("/routes/b", bench.route("b.test", json!({})));
    let seen = || bench.gateway.client().ask("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n").text();
    wait_for("the rule", || (seen() == "rule").then_some(()));
    bench.gateway.admin("DELETE", "/global_rules/1", &json!(null));
    wait_for("its end", || (seen() == "hello").then_some(()));
}

#[test]
fn plugins_of_services_and_configs_change_under_routes() {
    let bench = Bench::start();
    let mock = |text: &str| json!({"plugins": {"mocking": {"response_example": text}}});
    let mut service = mock("one");
    service["upstream"] = upstream([bench.node.address()]);
    bench.put("/services/s", service.clone());
    bench.put("/routes/s", json!({"host": "s.test", "uri": "/*", "service_id": "s"}));
    bench.put("/plugin_configs/p", mock("config"));
    let both = json!({"host": "p.test", "uri": "/*", "service_id": "s", "plugin_config_id": "p"});
    bench.put("/routes/p", both);
    bench.wait_until_served();
    bench.say("s.test", "> GET /\n< 200\n<= one");
    bench.say("p.test", "> GET /\n< 200\n<= config");
    service["plugins"] = mock("two")["plugins"].clone();
    bench.put("/services/s", service);
    bench.put("/plugin_configs/p", mock("another"));
    bench.wait_until_served();
    bench.say("s.test", "> GET /\n< 200\n<= two");
    bench.say("p.test", "> GET /\n< 200\n<= another");
}

#[test]
fn requests_in_a_row_keep_their_answers_apart() {
    let bench = Bench::start();
    let plugins = json!({"mocking": {"response_example": "$uri", "_meta": {"filter": [["arg_mock", "==", "1"]]}},
        "request-id": {}, "echo": {"before_body": "<"}});
    bench.put("/routes/a", bench.route("a.test", plugins));
    bench.wait_until_served();
    let mut client = bench.gateway.client();
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    client
        .send([request("/1?mock=1"), request("/2"), request("/3?mock=1"), request("/4")].concat());
    let texts: Vec<String> = (0..4).map(|_| client.answer().text()).collect();
    assert_eq!(texts, ["</1", "<hello", "</3", "<hello"]);
}

#[test]
fn a_node_that_breaks_off_is_told_apart_from_one_that_is_done() {
    let bench = Bench::start();
    let broken = Origin::closing_after(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    );
    let mut route = bench.route("a.test", json!({"gzip": {"types": "*", "min_length": 1}}));
    route["upstream"] = upstream([broken.address()]);
    bench.put("/routes/a", route);
    bench.wait_until_served();
    let mut client = bench.gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n");
    let all = String::from_utf8_lossy(&client.rest()).into_owned();
    assert!(!all.ends_with("0\r\n\r\n"), "{all}");
}

#[test]
fn tunnels_and_events_pass_plugins() {
    let bench = Bench::start();
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let events = Origin::script(move |connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
            let _ = wait.lock().expect("one at a time").recv();
            connection.send("3\r\ntwo\r\n0\r\n\r\n");
        }
    });
    let plugins = json!({"limit-count": {"count": 5, "time_window": 60}, "response-rewrite": {"headers": {"set": {"x-a": "b"}}}});
    let mut route = bench.route("e.test", plugins);
    route["upstream"] = upstream([events.address()]);
    bench.put("/routes/e", route);
    bench.wait_until_served();
    let mut client = bench.gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: e.test\r\n\r\n");
    let head = client.answer_head();
    assert_eq!((head.field("x-a"), head.field("x-ratelimit-remaining")), (Some("b"), Some("4")));
    client.expect("3\r\none\r\n");
    release.send(()).expect("the origin waits");
    client.expect("3\r\ntwo\r\n0\r\n\r\n");
}

#[test]
fn rules_for_all_count_and_authenticate() {
    let bench = Bench::start();
    let marked = json!({"headers": {"set": {"x-who": "$consumer_name"}}});
    let jack = json!({"key-auth": {"key": "one"}, "response-rewrite": marked});
    bench.put("/consumers", json!({"username": "jack", "plugins": jack}));
    bench.put("/routes/a", bench.route("a.test", json!({})));
    let limit = json!({"count": 4, "time_window": 60, "key": "http_host"});
    bench.put("/global_rules/1", json!({"plugins": {"limit-count": limit, "key-auth": {}}}));
    let ask = || bench.gateway.client().ask("GET / HTTP/1.1\r\nHost: any.test\r\n\r\n").status();
    wait_for("the rule", || (ask() == 401).then_some(()));
    bench.say(
        "a.test",
        "> GET /\n< 401\n< !X-RateLimit-Limit\n
         > GET /\n> apikey: one\n< 200\n< x-who: jack\n< X-RateLimit-Remaining: 3
         ^ X-Consumer-Username: jack\n
         > GET /\n> apikey: one\n< 200\n< X-RateLimit-Remaining: 2",
    );
    bench.say("b.test", "> GET /\n> apikey: one\n< 404\n< X-RateLimit-Remaining: 3");
}

#[test]
fn bodies_are_shown_to_those_who_decide() {
    let bench = Bench::start();
    let judge = Origin::named("");
    let uri = format!("http://{}/", judge.address());
    let conf = json!({"uri": uri, "request_method": "POST", "request_headers": ["Content-Type"]});
    bench.put("/routes/a", bench.route("a.test", json!({"forward-auth": conf})));
    bench.wait_until_served();
    for request in [
        "> POST /\n>= whole body\n< 200\n^= whole body",
        "> POST /\n> Transfer-Encoding: chunked\n>= 6\\r\\nwhole \\r\\n4\\r\\nbody\\r\\n0\\r\\n\\r\\n\n< 200\n^= whole body",
    ] {
        judge.forget();
        bench.say("a.test", request);
        let asked = judge.last_request();
        assert_eq!((asked.method(), asked.text().as_str()), ("POST", "whole body"), "{request}");
    }
}

#[test]
fn a_number_may_come_from_the_environment_and_a_missing_one_refuses() {
    let bench = Bench::with_gateway(gateway().set("secrets.env", "CARGO_*, NOT_SET_ANYWHERE"));
    let limited =
        |name: &str| json!({"client-control": {"max_body_size": format!("$ENV://{name}")}});
    // What the package's version has in its second place is known here, and a number.
    bench.put("/routes/known", bench.route("known.test", limited("CARGO_PKG_VERSION_MINOR")));
    bench.wait_until_served();
    let most: usize = env!("CARGO_PKG_VERSION_MINOR").parse().expect("a number");
    let ask = |host: &str, length: usize| {
        let body = "x".repeat(length);
        let head = format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n");
        bench.gateway.client().ask(format!("{head}{body}")).status()
    };
    assert_eq!((ask("known.test", most), ask("known.test", most + 1)), (200, 413));
    // Another gateway may have it: the write is taken, and here nobody passes without the limit.
    bench.put("/routes/unknown", bench.route("unknown.test", limited("NOT_SET_ANYWHERE")));
    wait_for("the refusal", || (ask("unknown.test", 1) == 503).then_some(()));
    let text = bench.gateway.configuration().to_string();
    assert!(text.contains("nothing answers for $ENV://NOT_SET_ANYWHERE"), "{text}");
    assert!(text.contains("plugins.client-control.max_body_size"), "{text}");
    let word = bench.gateway.admin(
        "PUT",
        "/routes/word",
        &bench.route("word.test", limited("CARGO_PKG_NAME")),
    );
    assert_eq!(word.status(), 400, "{}", word.text());
    let expected = "what $ENV://CARGO_PKG_NAME stands for is not a whole number";
    assert!(word.text().contains(expected), "{}", word.text());
}
