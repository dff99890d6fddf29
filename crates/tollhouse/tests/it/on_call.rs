//! What the person on call sees. For each fault, every door names the culprit first.

use std::process::Command;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{run, run_well};
use tollhouse_testkit::{ClosedPort, Etcd, Gateway, Origin, RawClient};

use crate::etcd::{route as etcd_route, sharing};
use crate::support::{gateway, routes, upstream, with};
use crate::tls_support::{Authority, TlsOptions, ssl, tls_node};

/// A command about a running gateway, with the option that names its listener.
pub(crate) fn command(gateway: &Gateway, words: &[&str]) -> Command {
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
pub(crate) const EXPIRED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJqYWNrIiwiZXhwIjoxNzAwMDAwMDAwfQ.S9XUp2E9c8nRYmLyqOWnv-igJx_qgzBkrcE9OCNIHE0";
pub(crate) const SECRET: &str = "a-secret-of-32-characters-or-more";

/// Token of the same consumer that begins in the year 2100.
const OF_THE_FUTURE: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJqYWNrIiwibmJmIjo0MTAyNDQ0ODAwfQ.Ei0A6R3m1rYbl4hHOTp4VLozC8CS0WVpZTtBPiXPMYE";

/// Writes an object through the Admin API.
pub(crate) fn put(gateway: &Gateway, path: &str, body: &Value) {
    let answer = gateway.admin("PUT", path, body);
    assert!(answer.status() < 300, "{path}: {}", answer.text());
}

/// Status of a request.
pub(crate) fn ask(gateway: &Gateway, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    RawClient::connect(gateway.address()).ask(request).status()
}

/// Waits until the first finding is of this kind, and checks that `status` and `doctor` name it
/// first.
pub(crate) fn first_finding(gateway: &Gateway, kind: &str) -> Value {
    // A request is counted after its answer is sent, so that the count may still rise.
    let (first, line) = wait_for(kind, || {
        let first = gateway.control("/v1/findings")["findings"][0].clone();
        if first["kind"] != kind {
            return None;
        }
        let text = |name: &str| first[name].as_str().unwrap_or_default();
        let line = format!("{}: {}", text("severity"), text("what"));
        let status = run_well(&mut command(gateway, &["status"]));
        (status.lines().nth(2) == Some(line.as_str())).then_some((first, line))
    });
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
    assert!(explained.text.contains(&format!("{node} (fails: ")), "{}", explained.text);

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
pub(crate) fn ask_often(gateway: &Gateway, request: &str, status: u16) {
    for _ in 0..8 {
        let answer = RawClient::connect(gateway.address()).ask(request);
        assert_eq!(answer.status(), status, "{}", answer.text());
    }
}

/// Request that closes its connection, with further lines.
pub(crate) fn get(path: &str, lines: &str) -> String {
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
    let gateway = gateway().resources(&routes([route])).set("listen.admin", "127.0.0.1:0").start();
    ask_often(&gateway, &get("/", ""), 504);
    let finding = first_finding(&gateway, "node_failing");
    assert_eq!(finding["subject"], format!("routes/slow {}", silent.address()));
    assert_eq!(finding["change"]["path"], "revision 1");
    let requests = requests_of(&gateway, &finding);
    let attempt = format!("attempts={}(upstream_read_timeout in ", silent.address());
    assert!(requests.contains(&attempt) && requests.contains("route=slow"), "{requests}");
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

/// A gateway whose route `orders` asks for tokens of the consumer `jack`.
pub(crate) fn gateway_for_jack(origin: &Origin) -> Gateway {
    let route = json!({
        "uri": "/*", "plugins": {"jwt-auth": {}}, "upstream": upstream([origin.address()]),
    });
    let gateway = gateway().without_resources().start();
    let own = json!({"jwt-auth": {"key": "jack", "secret": SECRET}});
    put(&gateway, "/consumers", &json!({"username": "jack", "plugins": own}));
    put(&gateway, "/routes/orders", &route);
    wait_for("the route", || (ask(&gateway, "/") == 401).then_some(()));
    gateway
}

#[test]
fn a_token_of_another_clock_is_named_first() {
    let origin = Origin::named("a");
    let gateway = gateway_for_jack(&origin);
    let early = format!("Authorization: {OF_THE_FUTURE}\r\n");
    ask_often(&gateway, &get("/", &early), 401);
    let finding = first_finding(&gateway, "route_failing");
    assert_eq!(finding["subject"], "routes/orders clock_skew by jwt-auth");
    assert!(finding["remedy"].as_str().is_some_and(|remedy| remedy.contains("timedatectl")));
    assert!(requests_of(&gateway, &finding).contains("plugin=jwt-auth code=clock_skew"));
}

#[test]
fn an_expired_credential_is_named_first_with_its_plugin() {
    let origin = Origin::named("a");
    let gateway = gateway_for_jack(&origin);
    let expired = format!("Authorization: {EXPIRED}\r\n");
    ask_often(&gateway, &get("/", &expired), 401);
    let finding = first_finding(&gateway, "route_failing");
    assert_eq!(finding["subject"], "routes/orders auth_invalid by jwt-auth");
    let requests = requests_of(&gateway, &finding);
    assert!(requests.contains("plugin=jwt-auth code=auth_invalid"), "{requests}");
    let metric = "tollhouse_requests_refused_total{plugin=\"jwt-auth\",code=\"auth_invalid\"}";
    assert!(gateway.metric(metric) >= 8.0);
    let timed = "tollhouse_plugin_duration_seconds_count{plugin=\"jwt-auth\"}";
    assert!(gateway.metric(timed) >= 1.0);
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
    let gateway = gateway().resources(&routes([route])).set("listen.admin", "127.0.0.1:0").start();
    ask_often(&gateway, &get("/", ""), 503);
    let finding = first_finding(&gateway, "object_invalid");
    assert_eq!(finding["severity"], "problem");
    assert!(finding["what"].as_str().is_some_and(|what| what.contains("key-auht")), "{finding}");
    assert!(gateway.failures("plugin_unavailable") >= 8.0);
    let words = ["requests", "--route", "safe"];
    let requests = run_well(&mut command(&gateway, &words));
    assert!(requests.contains("code=plugin_unavailable"), "{requests}");
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

#[test]
fn a_store_that_is_lost_is_named_first_and_requests_go_on() {
    let Some(mut etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let gateway = sharing(&etcd).start();
    put(&gateway, "/routes/1", &etcd_route(&origin));
    assert_eq!(ask(&gateway, "/"), 200);
    etcd.kill();
    // The reason changes once: connections break, and new ones are refused.
    gateway.output().wait_line("the outage", |line| {
        (line.contains("store is down") && line.contains("Connection refused")).then_some(())
    });
    let finding = first_finding(&gateway, "part_down");
    assert_eq!((&finding["subject"], &finding["severity"]), (&json!("store"), &json!("warning")));
    assert!(finding["since_ms"].is_u64() && finding["requests"].is_null(), "{finding}");
    assert_eq!(ask(&gateway, "/"), 200);
    let requests = run_well(&mut command(&gateway, &["requests", "--status", "5xx"]));
    assert!(!requests.contains("code="), "{requests}");
}

#[test]
fn a_name_without_a_certificate_and_a_refused_client_are_named_first() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let origin = Origin::named("a");
    let gateway = gateway().tls().without_resources().start();
    put(&gateway, "/routes/1", &json!({"uri": "/*", "upstream": upstream([origin.address()])}));
    let pair = servers.server(&["mutual.test"]);
    let object = with(ssl("1", &["mutual.test"], &pair), json!({"client": {"ca": clients.pem}}));
    put(&gateway, "/ssls/1", &object);
    let nobody = TlsOptions::new(&servers).build();
    let address = gateway.tls_address();
    for (name, reason) in
        [("shop.test", "no certificate is served for it"), ("mutual.test", "no certificate")]
    {
        (0..20).for_each(|_| drop(nobody.get(address, name, "/")));
        let finding = wait_for(name, || {
            let all = gateway.control("/v1/findings")["findings"].clone();
            let all = all.as_array().cloned().unwrap_or_default();
            let of_name =
                |it: &&Value| it["subject"].as_str().is_some_and(|it| it.starts_with(name));
            all.iter().find(of_name).cloned()
        });
        assert_eq!(finding["kind"], "handshakes_failing");
        let what = finding["what"].as_str().unwrap_or_default();
        assert!(what.starts_with(&format!("20 TLS handshakes for {name} failed: ")), "{what}");
        assert!(what.contains(reason) && finding["requests"].is_null(), "{finding}");
    }
    first_finding(&gateway, "handshakes_failing");
}

#[test]
fn explain_asks_the_running_gateway_unless_it_is_told_not_to() {
    let gateway = gateway().without_resources().start();
    let url = "http://gateway.test/demo";
    let served = run_well(&mut command(&gateway, &["explain", "--url", url]));
    assert!(served.contains("route       demonstration"), "{served}");
    assert!(served.contains("revision "), "{served}");
    let offline = run(&mut command(&gateway, &["explain", "--offline", "--url", url]));
    assert!(!offline.text.contains("route       demonstration"), "{}", offline.text);
    let stream = run(&mut command(&gateway, &["explain", "--url", "tcp://127.0.0.1:9100"]));
    assert_eq!(stream.status.code(), Some(1), "{}", stream.text);
    assert!(stream.text.contains("nothing listens on port 9100"), "{}", stream.text);
    // The nearest route of those in service is told.
    let near = run(&mut command(&gateway, &["explain", "--url", "http://gateway.test/dem"]));
    assert!(near.text.contains("demonstration  /demo*"), "{}", near.text);
}

#[test]
fn a_node_of_http2_that_answers_in_between_does_not_fail() {
    let delay = json!({"fault-injection": {"delay": {"duration": 60}}});
    let mocking = json!({"mocking": {"response_example": "a"}});
    let node = gateway()
        .resources(&routes([
            json!({"id": "slow", "uri": "/slow", "plugins": with(delay, mocking.clone())}),
            json!({"id": "good", "uri": "/good", "plugins": mocking}),
        ]))
        .start();
    let timeout = json!({"scheme": "grpc", "timeout": {"connect": 5, "send": 5, "read": 0.1}});
    let shared = with(upstream([node.address()]), timeout);
    let gateway =
        gateway().resources(&routes([json!({"id": "1", "uri": "/*", "upstream": shared})]));
    let gateway = gateway.start();
    for _ in 0..4 {
        assert_eq!(ask(&gateway, "/slow"), 504);
        assert_eq!(ask(&gateway, "/good"), 200);
    }
    let fails =
        |gateway: &Gateway| gateway.control("/v1/findings").to_string().contains("node_failing");
    assert!(!fails(&gateway), "{}", gateway.control("/v1/findings"));
    (0..4).for_each(|_| assert_eq!(ask(&gateway, "/slow"), 504));
    wait_for("the finding", || fails(&gateway).then_some(()));
}

/// Waits for a finding of this kind.
fn finding_of(gateway: &Gateway, kind: &str) -> Value {
    wait_for(kind, || {
        let all = gateway.control("/v1/findings")["findings"].clone();
        all.as_array()?.iter().find(|finding| finding["kind"] == kind).cloned()
    })
}

#[test]
fn an_object_without_effect_and_an_instance_that_nothing_checks_are_named() {
    let origin = Origin::named("a");
    let gateway = gateway().without_resources().registry().start();
    let route = json!({"server_port": 9100, "upstream": upstream([origin.address()])});
    put(&gateway, "/stream_routes/1", &route);
    let finding = first_finding(&gateway, "no_effect");
    let what = finding["what"].as_str().unwrap_or_default();
    assert!(what.starts_with("stream_routes/1") && what.contains("9100"), "{finding}");
    put(&gateway, "/upstreams/spare", &upstream([origin.address()]));
    wait_for("the note", || {
        let all = gateway.control("/v1/findings").to_string();
        all.contains("no other refers to them: upstreams/spare").then_some(())
    });
    run_well(&mut command(&gateway, &["registry", "register", "prod/files", "10.0.0.7:80"]));
    let finding = finding_of(&gateway, "instance_unchecked");
    assert_eq!(
        (&finding["subject"], &finding["severity"]),
        (&json!("registry prod/files"), &json!("note"))
    );
    assert!(finding["what"].as_str().is_some_and(|what| what.contains("10.0.0.7:80")), "{finding}");
}

#[test]
fn a_bound_on_memory_that_is_reached_is_named_first() {
    let origin = Origin::named("a");
    let schema = json!({"type": "array"});
    let route = json!({
        "id": "judged", "uri": "/*", "upstream": upstream([origin.address()]),
        "plugins": {"request-validation": {"body_schema": schema}},
    });
    let gateway = gateway()
        .set("limits.buffered_bytes", "64KiB")
        .set("listen.admin", "127.0.0.1:0")
        .resources(&routes([route]))
        .start();
    let long = format!("[1{}]", ",1".repeat(100_000));
    let request = format!(
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{long}",
        long.len()
    );
    ask_often(&gateway, &request, 503);
    gateway.wait_failures("memory_limit", 8);
    let finding = first_finding(&gateway, "limit_reached");
    assert_eq!(finding["severity"], "problem");
    assert_eq!(finding["subject"], "routes/judged memory_limit by request-validation");
    assert!(finding["remedy"].as_str().is_some_and(|it| it.contains("limits.buffered_bytes")));
    assert!(requests_of(&gateway, &finding).contains("POST a/orders"));
}

#[test]
fn an_object_of_a_document_that_no_other_refers_to_is_named() {
    let origin = Origin::named("a");
    let resources = json!({
        "routes": [{"id": "r", "uri": "/*", "upstream_id": "used"}],
        "upstreams": [
            {"id": "used", "nodes": {origin.address().to_string(): 1}},
            {"id": "spare", "nodes": {origin.address().to_string(): 1}},
        ],
    });
    let gateway = gateway().resources(&resources).start();
    let finding = finding_of(&gateway, "no_effect");
    assert_eq!(finding["severity"], "note");
    let what = finding["what"].as_str().unwrap_or_default();
    assert!(what.ends_with("no other refers to them: upstreams/spare"), "{what}");
}

#[test]
fn a_limit_on_connections_that_is_full_is_named_first() {
    let gateway = gateway().without_resources().set("limits.connections_per_worker", "2").start();
    let held: Vec<RawClient> = (0..2)
        .map(|_| {
            let mut client = gateway.client();
            assert_eq!(client.get("/demo").status(), 200);
            client
        })
        .collect();
    assert_eq!(ask(&gateway, "/demo"), 503);
    let finding = first_finding(&gateway, "limit_reached");
    assert_eq!(finding["severity"], "problem");
    assert!(finding["what"].as_str().is_some_and(|what| what.contains("connection")), "{finding}");
    drop(held);
}
