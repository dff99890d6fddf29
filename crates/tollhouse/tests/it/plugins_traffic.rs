//! Plugins that lead requests elsewhere or ask others about them, seen from outside: traffic-split,
//! proxy-mirror, forward-auth, opa, public-api, batch-requests; and global rules, plugin configs and `_meta`.

use serde_json::{Value, json};
use tollhouse_testkit::{ClosedPort, Origin};

use crate::cases::{Bench, error_of};
use crate::support::{gateway, upstream};

#[test]
fn requests_are_split() {
    let (bench, other) = (Bench::start(), Origin::named("other"));
    let third = Origin::named("third");
    bench.put("/upstreams/3", upstream([third.address()]));
    let table = include_str!("cases/tables/traffic_split.txt")
        .replace("{other}", &other.address().to_string())
        .replace("{node}", &bench.node.address().to_string());
    bench.check(&table);
}

#[test]
fn the_example_sends_requests_to_its_own_node() {
    let (bench, other) = (Bench::start(), Origin::named("other"));
    bench.put("/plugin_metadata/example-plugin", json!({"ikey": 1, "skey": "a"}));
    let conf = json!({"i": 1, "ip": "127.0.0.1", "port": other.address().port()});
    bench.put("/routes/e", bench.route("e.test", json!({"example-plugin": conf})));
    bench.put("/routes/f", bench.route("f.test", json!({"example-plugin": {"i": 1}})));
    bench.wait_until_served();
    let ask = |host: &str| {
        bench.gateway.client().ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).text()
    };
    assert_eq!(ask("e.test"), "other");
    assert_ne!(ask("f.test"), "other");
    let bad = bench.route("g.test", json!({"example-plugin": {"i": -1}}));
    assert!(error_of(&bench.gateway.admin("PUT", "/routes/g", &bad)).contains("at least 0"));
}

#[test]
fn weights_are_kept() {
    let (bench, other) = (Bench::start(), Origin::named("other"));
    let rules = json!([{"weighted_upstreams": [{"upstream": upstream([other.address()]), "weight": 2}, {"weight": 1}]}]);
    bench.put("/routes/w", bench.route("w.test", json!({"traffic-split": {"rules": rules}})));
    bench.wait_until_served();
    let texts: Vec<String> = (0..9)
        .map(|_| bench.gateway.client().ask("GET / HTTP/1.1\r\nHost: w.test\r\n\r\n").text())
        .collect();
    assert_eq!(texts.iter().filter(|text| *text == "other").count(), 6, "{texts:?}");
}

#[test]
fn rules_share_no_nodes_and_upstreams_are_named_by_number_or_text() {
    let bench = Bench::start();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(Origin::named);
    let rule = |value: &str, nodes: [&Origin; 2]| {
        let upstream = upstream(nodes.map(Origin::address));
        json!({"match": [{"vars": [["arg_to", "==", value]]}],
               "weighted_upstreams": [{"upstream": upstream}]})
    };
    let rules = json!([rule("first", [&a, &b]), rule("second", [&c, &d])]);
    bench.put("/routes/r", bench.route("rules.test", json!({"traffic-split": {"rules": rules}})));
    bench.put("/upstreams/7", upstream([a.address()]));
    bench.put("/upstreams/8", upstream([b.address()]));
    let entries =
        json!([{"upstream_id": 7, "weight": 5}, {"upstream_id": "8", "weight": 2}, {"weight": 3}]);
    let rules = json!([{"weighted_upstreams": entries}]);
    bench.put("/routes/w", bench.route("shares.test", json!({"traffic-split": {"rules": rules}})));
    bench.wait_until_served();
    let ask = |host: &str, target: &str, times: usize| -> Vec<String> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut client = bench.gateway.client();
        let mut texts: Vec<_> = (0..times).map(|_| client.ask(&request).text()).collect();
        texts.sort();
        texts
    };
    assert_eq!(ask("rules.test", "/?to=first", 8).concat(), "aaaabbbb");
    assert_eq!(ask("rules.test", "/?to=second", 8).concat(), "ccccdddd");
    let shares = ask("shares.test", "/", 100);
    let count = |name: &str| shares.iter().filter(|text| *text == name).count();
    assert_eq!((count("a"), count("b"), 100 - count("a") - count("b")), (50, 20, 30));
}

#[test]
fn copies_go_elsewhere() {
    let (bench, other) = (Bench::start(), Origin::named("copy"));
    let host = format!("http://{}", other.address());
    for (name, conf, target) in [
        ("plain", json!({"host": host}), "/a?b=1"),
        ("replaced", json!({"host": host, "path": "/m"}), "/m?b=1"),
        ("prefixed", json!({"host": host, "path": "/m", "path_concat_mode": "prefix"}), "/m/a?b=1"),
    ] {
        other.forget();
        bench.put("/routes/m", bench.route(&format!("{name}.test"), json!({"proxy-mirror": conf})));
        bench.wait_until_served();
        bench.say(
            &format!("{name}.test"),
            "> POST /a?b=1\n > x-y: z\n >= body\n < 200\n <= hello\n ^= body",
        );
        let copy = other.wait_requests(1).remove(0);
        assert_eq!((copy.method(), copy.target()), ("POST", target), "{name}");
        assert_eq!((copy.text().as_str(), copy.field("x-y")), ("body", Some("z")), "{name}");
    }
}

/// A service that decides as the request's `Authorization` line says.
fn authorization_service() -> Origin {
    Origin::script(|connection| {
        while let Some(request) = connection.request() {
            let lines = "X-User-ID: i-am-user\r\nLocation: http://login\r\nX-Other: o";
            let (status, body) = match request.field("authorization") {
                Some("111") => ("200 OK", ""),
                Some("333") => ("403 Forbidden", "judged"),
                _ => ("401 Unauthorized", ""),
            };
            let length = body.len();
            connection.send(format!(
                "HTTP/1.1 {status}\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
        }
    })
}

#[test]
fn others_decide() {
    let (bench, judge) = (Bench::start(), authorization_service());
    let nobody = ClosedPort::new();
    let table = include_str!("cases/tables/forward_auth.txt")
        .replace("{judge}", &judge.address().to_string())
        .replace("{nobody}", &nobody.address().to_string());
    bench.check(&table);
    judge.forget();
    bench.say("c0.test", "> GET /x?y=1\n > Authorization: 111\n > Cookie: a=b\n < 200");
    let asked = judge.last_request();
    assert_eq!((asked.method(), asked.target()), ("GET", "/auth?a=b"));
    for (name, value) in [
        ("x-forwarded-proto", Some("http")),
        ("x-forwarded-method", Some("GET")),
        ("x-forwarded-host", Some("c0.test")),
        ("x-forwarded-uri", Some("/x?y=1")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-extra", Some("GET-c0.test")),
        ("cookie", None),
    ] {
        assert_eq!(asked.field(name), value, "{name}");
    }
}

#[test]
fn policies_decide() {
    let bench = Bench::start();
    let says = |json: &str| Origin::answering(tollhouse_testkit::origin::answer(200, json));
    let allow = says(r#"{"result": {"allow": true, "headers": {"X-Opa": "yes"}}}"#);
    let deny = says(
        r#"{"result": {"allow": false, "status_code": 402, "reason": {"a": 1}, "headers": {"X-Opa": "no"}}}"#,
    );
    let text = says(r#"{"result": {"allow": false, "reason": "Give you a string reason"}}"#);
    let broken = says("nothing");
    let nobody = ClosedPort::new();
    let table = [
        ("{allow}", allow.address()),
        ("{deny}", deny.address()),
        ("{text}", text.address()),
        ("{broken}", broken.address()),
        ("{nobody}", nobody.address()),
    ]
    .iter()
    .fold(include_str!("cases/tables/opa.txt").to_owned(), |table, (name, address)| {
        table.replace(name, &address.to_string())
    });
    bench.check(&table);
    let asked = allow.last_request();
    assert_eq!((asked.method(), asked.target()), ("POST", "/v1/data/example"));
    let input: Value = serde_json::from_slice(&asked.body).expect("JSON");
    let request = &input["input"]["request"];
    assert_eq!(input["input"]["type"], "http");
    assert_eq!(request["path"], "/a");
    assert_eq!(request["query"], json!({"b": "1"}));
    assert_eq!(request["host"], "c0.test");
}

#[test]
fn rules_for_all_act_first() {
    let bench = Bench::start();
    let rule = json!({
        "response-rewrite": {"headers": {"set": {"X-Global": "g"}}},
        "uri-blocker": {"block_rules": ["blocked"]},
        "cors": {},
    });
    bench.put("/global_rules/1", json!({"plugins": rule}));
    let config = json!({
        "response-rewrite": {"headers": {"set": {"X-Config": "c"}}},
        "proxy-rewrite": {"headers": {"set": {"X-From": "config"}}},
    });
    bench.put("/plugin_configs/1", json!({"plugins": config}));
    let own = json!({"proxy-rewrite": {"headers": {"set": {"X-Own": "route"}}}});
    let mut route = bench.route("a.test", own);
    route["plugin_config_id"] = json!("1");
    bench.put("/routes/a", route);
    bench.wait_until_served();
    bench.say("none.test", include_str!("cases/tables/rules_without_a_route.txt"));
    bench.say("a.test", include_str!("cases/tables/rules_with_a_route.txt"));
}

#[test]
fn what_is_said_about_plugins_counts() {
    Bench::start().check(include_str!("cases/tables/meta.txt"));
}

#[test]
fn what_is_no_plugin_is_refused() {
    let bench = Bench::start();
    for (plugins, wanted) in [
        (json!({"none": {}}), "unknown plugin [none]"),
        (json!({"key-auth": 1}), "invalid plugin conf 1 for plugin [key-auth]"),
        (
            json!({"key-auth": {"_meta": {"disable": "x"}}}),
            "failed to check the configuration of plugin key-auth err: property \"_meta\" \
             validation failed: property \"disable\" validation failed: wrong type: expected \
             boolean, got string",
        ),
        (
            json!({"key-auth": {"_meta": {"filter": [["a", "=", "b"]]}}}),
            "failed to validate the 'vars' expression: invalid operator '='",
        ),
    ] {
        let refusal = bench.gateway.admin("PUT", "/routes/x", &bench.route("x.test", plugins));
        assert_eq!((refusal.status(), error_of(&refusal).as_str()), (400, wanted));
    }
}

#[test]
fn internal_endpoints_are_shown() {
    let bench = Bench::start();
    for (id, uri, plugins) in [
        ("m", "/apisix/prometheus/metrics", json!({"public-api": {}})),
        ("s", "/status", json!({"public-api": {"uri": "/apisix/status"}})),
        ("x", "/nothing", json!({"public-api": {}})),
        (
            "k",
            "/closed",
            json!({"public-api": {"uri": "/apisix/prometheus/metrics"}, "key-auth": {}}),
        ),
    ] {
        bench.put(
            &format!("/routes/{id}"),
            json!({"uri": uri, "host": "api.test", "plugins": plugins}),
        );
    }
    bench.wait_until_served();
    bench.say(
        "api.test",
        "\
        > GET /apisix/prometheus/metrics
        < 200
        <~ apisix_

        > GET /status
        < 200
        < Content-Type: application/json
        <~ \"status\":{

        > GET /nothing
        < 404

        > GET /closed
        < 401",
    );
}

#[test]
fn a_batch_is_answered_and_its_client_cannot_choose_an_address() {
    let bench = Bench::with_gateway(gateway().set("real_ip.header", "x-client"));
    let batch = json!({"uri": "/apisix/batch-requests", "plugins": {"public-api": {}}});
    bench.put("/routes/batch", batch);
    let refuse = json!({"ip-restriction": {"whitelist": ["6.6.6.6"]}});
    bench.put("/routes/a", bench.route("a.test", json!({})));
    bench.put("/routes/b", bench.route("b.test", refuse));
    bench.wait_until_served();
    let item = |host: &str| json!({"path": "/x", "headers": {"Host": host, "X-Client": "6.6.6.6"}});
    let batch = json!({
        "headers": {"x-client": "6.6.6.6"}, "pipeline": [item("a.test"), item("b.test")],
    });
    let body = batch.to_string();
    let request = format!(
        "POST /apisix/batch-requests HTTP/1.1\r\nHost: batch.test\r\nX_Client: 6.6.6.6\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = bench.gateway.client().ask(request);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let answers: Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!((&answers[0]["status"], &answers[0]["body"]), (&json!(200), &json!("hello")));
    assert_eq!(answers[1]["status"], 403, "{answers}");
    assert_eq!(bench.node.last_request().field("x-real-ip"), Some("127.0.0.1"));
}
