//! What an operator sees of the traffic: access log and metrics.

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{ClosedPort, Gateway, Origin};

use crate::support::{everything_to, gateway, gateway_to, routes, upstream};

#[test]
fn a_line_tells_who_asked_what_and_who_answered() {
    let (refusing, good) = (ClosedPort::new(), Origin::named("good"));
    let node = |port: u16, priority: i32| json!({ "host": "127.0.0.1", "port": port, "weight": 1, "priority": priority });
    let nodes = json!([node(refusing.address().port(), 1), node(good.address().port(), 0)]);
    let mut resources = routes([json!({ "id": "r1", "uri": "/*", "service_id": "s1" })]);
    resources["services"] =
        json!([{ "id": "s1", "upstream": { "type": "roundrobin", "nodes": nodes } }]);
    let gateway = gateway().log_requests().resources(&resources).start();
    let mut client = gateway.client();
    client.ask("PUT /thing?a=\"b\" HTTP/1.1\r\nHost: Some.Test:81\r\nUser-Agent: tester\r\nX-Real-IP: 1.2.3.4\r\nContent-Length: 2\r\n\r\nhi");
    let line = gateway.log_line("/thing?a=\"b\"");
    let upstreams = format!("{}, {}", refusing.address(), good.address());
    let expected = [
        ("remote_addr", json!("1.2.3.4")),
        ("request_method", json!("PUT")),
        ("host", json!("some.test")),
        ("server_protocol", json!("HTTP/1.1")),
        ("status", json!(200)),
        ("http_user_agent", json!("tester")),
        ("upstream_addr", json!(upstreams)),
        ("upstream_status", json!("502, 200")),
        ("route_id", json!("r1")),
        ("service_id", json!("s1")),
    ];
    for (name, value) in expected {
        assert_eq!(line[name], value, "{name}: {line}");
    }
}

#[test]
fn a_format_of_ones_own_is_followed() {
    let origin = Origin::named("a");
    let format = "seen $request_method $uri $status $body_bytes_sent ${upstream_addr}";
    let resources = everything_to(origin.address());
    let builder = gateway().set("access_log.format", format).set("access_log.file", "-");
    let gateway = builder.resources(&resources).start();
    gateway.client().get("/x");
    let line = gateway
        .output()
        .wait_line("a line", |line| line.starts_with("seen ").then(|| line.to_owned()));
    assert_eq!(line, format!("seen GET /x 200 1 {}", origin.address()));
}

#[test]
fn a_log_that_was_moved_away_is_opened_anew() {
    let origin = Origin::named("a");
    let resources = everything_to(origin.address());
    let mut gateway = gateway().set("access_log.format", "combined").resources(&resources).start();
    let (log, moved) = (gateway.folder().join("access.log"), gateway.folder().join("access.log.1"));
    let lines =
        |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default().lines().count();
    let mut client = gateway.client();
    client.get("/one");
    wait_for("the first line", || (lines(&log) == 1).then_some(()));
    std::fs::rename(&log, &moved).expect("files of one folder can be renamed");
    gateway.hang_up();
    wait_for("the new file", || log.exists().then_some(()));
    client.get("/two");
    gateway.terminate();
    assert_eq!(gateway.wait_exit().code(), Some(0));
    assert_eq!((lines(&moved), lines(&log)), (1, 1), "nothing is lost at the end either");
}

/// Waits until a metric has a value.
fn wait_metric(gateway: &Gateway, name: &str, value: f64) {
    let mut last = 0.0;
    wait_for(&format!("{name} {value}"), || {
        last = gateway.metric(name);
        (last == value).then_some(())
    });
}

#[test]
fn metrics_count_requests_bytes_and_connections() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for _ in 0..10 {
        client.get("/");
    }
    client.ask("GET / HTTP/1.1\r\nHost: a\r\nExpect: much\r\n\r\n");
    drop(client);
    let expected = [
        ("tollhouse_requests_total{class=\"2xx\"}", 10.0),
        ("tollhouse_requests_total{class=\"4xx\"}", 1.0),
        ("tollhouse_requests_failed_total{code=\"expectation_failed\"}", 1.0),
        ("tollhouse_downstream_connections_accepted_total", 1.0),
        ("tollhouse_downstream_connections_open", 0.0),
        ("tollhouse_upstream_connections_opened_total", 1.0),
        ("tollhouse_upstream_connections_open", 1.0),
        ("tollhouse_upstream_connections_reused_total", 9.0),
        ("tollhouse_config_revision", 1.0),
        ("tollhouse_config_problems", 0.0),
    ];
    for (name, value) in expected {
        wait_metric(&gateway, name, value);
    }
    assert!(gateway.metric("tollhouse_downstream_received_bytes_total") > 0.0);
    assert!(gateway.metric("tollhouse_downstream_sent_bytes_total") > 0.0);
}

#[test]
fn workers_are_summed() {
    let origin = Origin::named("a");
    let resources = everything_to(origin.address());
    let gateway = gateway().set("workers", "4").resources(&resources).start();
    for _ in 0..40 {
        gateway.client().get("/");
    }
    wait_metric(&gateway, "tollhouse_requests_total{class=\"2xx\"}", 40.0);
    wait_metric(&gateway, "tollhouse_downstream_connections_accepted_total", 40.0);
    let problems: Value = gateway.configuration()["problems"].clone();
    assert_eq!(problems, json!([]));
}

#[test]
fn a_request_that_fails_leaves_a_line_that_says_why_and_a_thousand_leave_a_few() {
    let closed = ClosedPort::new();
    let route = json!({ "id": "r7", "uri": "/*", "upstream": upstream([closed.address()]) });
    let gateway = gateway().resources(&routes([route])).start();
    let mut client = gateway.client();
    for _ in 0..1000 {
        assert_eq!(client.get("/").status(), 502);
    }
    let node = closed.address().to_string();
    gateway.output().wait_line("the reason", |line| {
        let words = ["a request failed", "upstream_connect_failed", "r7", &node, "refused"];
        words.iter().all(|word| line.contains(word)).then_some(())
    });
    let told = gateway.output().text().lines().filter(|it| it.contains("a request failed")).count();
    assert!(told < 100, "{told} lines");
}
