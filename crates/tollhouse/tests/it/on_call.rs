//! What the person on call sees. For each fault, every door names the culprit first.

use std::process::Command;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{run, run_well};
use tollhouse_testkit::{ClosedPort, Gateway, Origin, RawClient};

use crate::support::{gateway, routes, upstream, with};
use crate::tls_support::{Authority, tls_node};

/// A command about a running gateway, with the option that names its listener.
fn command(gateway: &Gateway, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(words).env_remove("TOLLHOUSE_ADMIN_KEY");
    command.arg("--set").arg(format!("data_dir={}", gateway.folder().display()));
    // The commands that need no key ask the control API.
    if ["status", "doctor"].contains(&words[0]) {
        command.args(["--control", &format!("http://{}", gateway.control_address())]);
    } else {
        command.args(["--admin", &format!("http://{}", gateway.admin_address())]);
    }
    command
}

/// Token of the consumer `jack` that ended in November 2023, signed by HS256 with [`SECRET`].
const EXPIRED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJqYWNrIiwiZXhwIjoxNzAwMDAwMDAwfQ.S9XUp2E9c8nRYmLyqOWnv-igJx_qgzBkrcE9OCNIHE0";
const SECRET: &str = "a-secret-of-32-characters-or-more";

/// Writes an object through the Admin API.
fn put(gateway: &Gateway, path: &str, body: &Value) {
    let answer = gateway.admin("PUT", path, body);
    assert!(answer.status() < 300, "{path}: {}", answer.text());
}

/// Status of a request.
fn ask(gateway: &Gateway, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    RawClient::connect(gateway.address()).ask(request).status()
}

/// Waits until the first finding is of this kind, and checks that `status` and `doctor` name it
/// first.
fn first_finding(gateway: &Gateway, kind: &str) -> Value {
    let first = wait_for(kind, || {
        let first = gateway.control("/v1/findings")["findings"][0].clone();
        (first["kind"] == kind).then_some(first)
    });
    let text = |name: &str| first[name].as_str().unwrap_or_default();
    let line = format!("{}: {}", text("severity"), text("what"));
    let status = run_well(&mut command(gateway, &["status"]));
    assert_eq!(status.lines().nth(2), Some(line.as_str()), "{status}");
    let doctor = run(&mut command(gateway, &["doctor"]));
    let named = doctor.text.lines().find(|line| {
        line.starts_with("problem: ") || line.starts_with("warning: ") || line.starts_with("note: ")
    });
    assert_eq!((doctor.status.code(), named), (Some(1), Some(line.as_str())), "{}", doctor.text);
    first
}

#[test]
fn a_dead_node_is_named_first_at_every_door() {
    let closed = ClosedPort::new();
    let node = closed.address().to_string();
    let gateway = gateway().without_resources().start();
    let route = json!({"uri": "/*", "upstream": upstream([closed.address()])});
    put(&gateway, "/routes/billing", &route);
    wait_for("the route", || (ask(&gateway, "/") == 502).then_some(()));
    (0..9).for_each(|_| assert_eq!(ask(&gateway, "/invoices"), 502));

    let finding = first_finding(&gateway, "node_failing");
    assert_eq!(finding["severity"], "problem");
    assert_eq!(finding["subject"], format!("routes/billing {node}"));
    assert_eq!(finding["change"]["path"], "routes/billing");
    assert!(finding["count"].as_u64() >= Some(10) && finding["since_ms"].is_u64(), "{finding}");

    let top = run_well(&mut command(&gateway, &["top", "--once"]));
    assert!(top.contains("0 of 1 serve, 1 failing"), "{top}");
    assert!(top.contains(&format!("problem: node {node} of routes/billing fails")), "{top}");
    let metric = "tollhouse_findings{severity=\"problem\",kind=\"node_failing\"}";
    assert!((gateway.metric(metric) - 1.0).abs() < f64::EPSILON);
    let requests = requests_of(&gateway, &finding);
    for word in ["/invoices", "cause=\"Connection refused", &format!("attempts={node}(")] {
        assert!(requests.contains(word), "{word}: {requests}");
    }
    assert!(requests.contains("code=upstream_connect_failed"), "{requests}");
    // A single request is explained by its id.
    let id = requests.lines().find_map(|line| line.split_once(" id=")?.1.split(' ').next());
    let id = id.expect("each request has an id");
    let explained = run(&mut command(&gateway, &["explain", "--request", id]));
    assert_eq!(explained.status.code(), Some(1), "{}", explained.text);
    assert!(explained.text.contains("now         route billing, /*"), "{}", explained.text);

    // A node that answers fails no more.
    let origin = Origin::named("a");
    let route = json!({"uri": "/*", "upstream": upstream([origin.address()])});
    put(&gateway, "/routes/billing", &route);
    wait_for("the other node", || (ask(&gateway, "/") == 200).then_some(()));
    wait_for("the end of the finding", || {
        let all = gateway.control("/v1/findings")["findings"].clone();
        (!all.to_string().contains("node_failing")).then_some(())
    });
}

/// Requests of a finding, by the command that it names.
fn requests_of(gateway: &Gateway, finding: &Value) -> String {
    let line = finding["requests"]["command"].as_str().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    assert_eq!(words.first(), Some(&"requests"), "{finding}");
    run_well(&mut command(gateway, &words))
}

/// Sends requests whose status is this.
fn ask_often(gateway: &Gateway, request: &str, status: u16) {
    for _ in 0..8 {
        let answer = RawClient::connect(gateway.address()).ask(request);
        assert_eq!(answer.status(), status, "{}", answer.text());
    }
}

/// Request that closes its connection, with further lines.
fn get(path: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}Connection: close\r\n\r\n")
}

#[test]
fn a_node_that_is_too_slow_is_named_first() {
    let silent = Origin::script(|connection| {
        connection.request();
        let _ = connection.wait_end();
    });
    let timeout = json!({"timeout": {"connect": 5, "send": 5, "read": 0.05}});
    let slow = with(upstream([silent.address()]), timeout);
    let route = json!({"id": "slow", "uri": "/*", "upstream": slow});
    let gateway = gateway().resources(&routes([route])).start();
    ask_often(&gateway, &get("/", ""), 504);
    let finding = first_finding(&gateway, "node_failing");
    assert_eq!(finding["subject"], format!("routes/slow {}", silent.address()));
    assert_eq!(finding["change"]["path"], "revision 1");
}

#[test]
fn a_node_with_the_wrong_certificate_is_named_first() {
    let (servers, strangers) = (Authority::new("servers"), Authority::new("strangers"));
    let node = tls_node(&servers.server(&["node.test"]), None);
    let upstream = json!({
        "type": "roundrobin", "scheme": "https", "nodes": {node.to_string(): 1},
        "pass_host": "rewrite", "upstream_host": "node.test",
        "tls": {"verify": true, "ca": strangers.pem},
    });
    let gateway = gateway().without_resources().start();
    put(&gateway, "/routes/shop", &json!({"uri": "/*", "upstream": upstream}));
    wait_for("the route", || (ask(&gateway, "/") == 502).then_some(()));
    ask_often(&gateway, &get("/", ""), 502);
    let finding = first_finding(&gateway, "node_failing");
    assert!(requests_of(&gateway, &finding).contains("UnknownIssuer"));
}

#[test]
fn an_expired_credential_is_named_first_with_its_plugin() {
    let origin = Origin::named("a");
    let route = json!({
        "uri": "/*", "plugins": {"jwt-auth": {}}, "upstream": upstream([origin.address()]),
    });
    let gateway = gateway().without_resources().start();
    let own = json!({"jwt-auth": {"key": "jack", "secret": SECRET}});
    let jack = json!({"username": "jack", "plugins": own});
    put(&gateway, "/consumers", &jack);
    put(&gateway, "/routes/orders", &route);
    wait_for("the route", || (ask(&gateway, "/") == 401).then_some(()));
    let expired = format!("Authorization: {EXPIRED}\r\n");
    ask_often(&gateway, &get("/", &expired), 401);
    let finding = first_finding(&gateway, "route_failing");
    assert_eq!(finding["subject"], "routes/orders auth_invalid by jwt-auth");
    let requests = requests_of(&gateway, &finding);
    assert!(requests.contains("plugin=jwt-auth code=auth_invalid"), "{requests}");
    let metric = "tollhouse_requests_refused_total{plugin=\"jwt-auth\",code=\"auth_invalid\"}";
    assert!(gateway.metric(metric) >= 8.0);
}

#[test]
fn a_limit_that_is_reached_is_named_first() {
    let origin = Origin::named("a");
    let limit = json!({"count": 1, "time_window": 600, "rejected_code": 429, "key_type": "constant", "key": "k"});
    let route = json!({
        "uri": "/*", "plugins": {"limit-count": limit}, "upstream": upstream([origin.address()]),
    });
    let gateway = gateway().without_resources().start();
    put(&gateway, "/routes/api", &route);
    wait_for("the limit", || (ask(&gateway, "/") == 429).then_some(()));
    ask_often(&gateway, &get("/", ""), 429);
    let finding = first_finding(&gateway, "limit_reached");
    assert_eq!(finding["subject"], "routes/api limit_exceeded by limit-count");
    assert!(requests_of(&gateway, &finding).contains("plugin=limit-count code=limit_exceeded"));
}

#[test]
fn a_plugin_that_does_not_exist_is_named_first() {
    let origin = Origin::named("a");
    let route = json!({
        "id": "safe", "uri": "/*", "plugins": {"key-auht": {}},
        "upstream": upstream([origin.address()]),
    });
    let gateway = gateway().resources(&routes([route])).start();
    ask_often(&gateway, &get("/", ""), 503);
    let finding = first_finding(&gateway, "object_invalid");
    assert_eq!(finding["severity"], "problem");
    assert!(finding["what"].as_str().is_some_and(|what| what.contains("key-auht")), "{finding}");
    assert!(gateway.failures("plugin_unavailable") >= 8.0);
}

#[test]
fn a_path_that_no_route_takes_is_named_first() {
    let gateway = gateway().without_resources().start();
    ask_often(&gateway, &get("/ordres", ""), 404);
    let finding = first_finding(&gateway, "route_missing");
    assert!(requests_of(&gateway, &finding).contains("/ordres"));
}

#[test]
fn an_instance_that_fell_silent_is_named_first() {
    let gateway = gateway().without_resources().registry().start();
    let words = ["registry", "register", "prod/orders", "10.0.0.7:80", "--ttl", "1"];
    run_well(&mut command(&gateway, &words));
    let finding = first_finding(&gateway, "service_empty");
    assert_eq!(finding["subject"], "registry prod/orders");
    assert!(finding["what"].as_str().is_some_and(|what| what.contains("10.0.0.7:80")), "{finding}");
}
