//! When a client's connection ends, and what the log says of answers that are the gateway's own.

use std::io::{Read, Write};
use std::sync::Arc;

use serde_json::json;
use tollhouse_proxy::SnapshotCell;
use tollhouse_proxy::settings::Limits;
use tollhouse_telemetry::Metrics;

use crate::support::{Gateway, Options, connect, read_head, snapshot};

/// One rule for every kind of answer: a node's are tested in `crates/tollhouse/tests/it`.
#[test]
fn the_gateways_own_answers_count_as_requests_of_their_connection() {
    let route = json!({"uri": "/made-up", "plugins": {"mocking": {"response_example": "{}"}}});
    let snapshots = Arc::new(SnapshotCell::new(snapshot(route)));
    let limits = Limits { requests_per_connection: 2, ..Limits::default() };
    let gateway = Gateway::start_with(&snapshots, Options { limits, ..Options::default() });
    for target in ["OPTIONS *", "GET /nowhere", "GET /made-up"] {
        let mut client = connect(&gateway);
        let mut answers = Vec::new();
        for _ in 0..2 {
            let request = format!("{target} HTTP/1.1\r\nHost: a\r\n\r\n");
            client.write_all(request.as_bytes()).expect("the worker reads");
        }
        // To the end of the stream: nothing follows the second answer.
        client.read_to_end(&mut answers).expect("the worker closes");
        let answers = String::from_utf8(answers).expect("text").to_ascii_lowercase();
        assert_eq!(answers.matches("http/1.1 ").count(), 2, "{target}: {answers}");
        assert_eq!(answers.matches("connection: close").count(), 1, "{target}: {answers}");
    }
    gateway.stop();
}

#[test]
fn an_upstream_that_a_plugin_chose_and_nobody_has_is_an_error_with_a_code() {
    let rules = json!([{"weighted_upstreams": [{"upstream_id": "none", "weight": 1}]}]);
    let route = json!({"uri": "/*", "plugins": {"traffic-split": {"rules": rules}},
        "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}});
    let snapshots = Arc::new(SnapshotCell::new(snapshot(route)));
    let metrics = Arc::new(Metrics::new());
    let options = Options { metrics: Arc::clone(&metrics), ..Options::default() };
    let gateway = Gateway::start_with(&snapshots, options);
    let mut client = connect(&gateway);
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("the worker reads");
    let mut head = Vec::new();
    read_head(&mut client, &mut head).expect("an answer");
    let text = "failed to fetch upstream info by upstream id [none]";
    let mut body = vec![0; text.len()];
    client.read_exact(&mut body).expect("a whole answer");
    assert!(head.starts_with(b"HTTP/1.1 500 "), "{}", String::from_utf8_lossy(&head));
    assert_eq!(body, text.as_bytes());
    drop(client);
    gateway.stop();
    let failed = "tollhouse_requests_failed_total{code=\"plugin_upstream_not_found\"} 1";
    assert!(metrics.render().contains(failed), "{}", metrics.render());
}

/// Whoever answers, plugins that see the answer see the whole exchange.
#[test]
fn variables_have_their_values_in_answers_of_the_gateways_own() {
    let set = json!({"X-Route": "$route_name", "X-Length": "$request_length"});
    let route = json!({"uri": "/*", "name": "front", "plugins": {
        "mocking": {"response_example": "{}"},
        "response-rewrite": {"headers": {"set": set}},
    }});
    let snapshots = Arc::new(SnapshotCell::new(snapshot(route)));
    let gateway = Gateway::start(&snapshots, || {});
    let mut client = connect(&gateway);
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    client.write_all(request.as_bytes()).expect("the worker reads");
    let mut head = Vec::new();
    read_head(&mut client, &mut head).expect("an answer");
    let head = String::from_utf8(head).expect("text");
    assert!(head.contains("X-Route: front\r\n"), "{head}");
    assert!(head.contains(&format!("X-Length: {}\r\n", request.len())), "{head}");
    drop(client);
    gateway.stop();
}

#[test]
fn a_pending_challenge_is_answered_ahead_of_every_route_and_plugin() {
    let redirect = json!({"redirect": {"http_to_https": true}, "key-auth": {}});
    let route = json!({"uri": "/*", "plugins": redirect});
    let snapshots = Arc::new(SnapshotCell::new(snapshot(route)));
    let gateway = Gateway::start(&snapshots, || {});
    let ask = |target: &str| {
        let mut client = connect(&gateway);
        let request = format!("{target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).expect("the worker reads");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("the worker closes");
        String::from_utf8(answer).expect("text")
    };
    let target = "GET /.well-known/acme-challenge/token";
    assert!(ask(target).starts_with("HTTP/1.1 401 "), "{}", ask(target));
    snapshots.challenges().replace_http([("token".to_owned(), "token.thumb".to_owned())]);
    let answer = ask(target);
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\ntoken.thumb"),
        "{answer}"
    );
    for other in
        ["POST /.well-known/acme-challenge/token", "GET /.well-known/acme-challenge/other", "GET /"]
    {
        assert!(ask(other).starts_with("HTTP/1.1 401 "), "{other}: {}", ask(other));
    }
    snapshots.challenges().replace_http([]);
    assert!(ask(target).starts_with("HTTP/1.1 401 "));
    gateway.stop();
}
