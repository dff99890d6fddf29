//! What clients get, and which confs are refused.

use std::io::Write;
use std::sync::Arc;

use tollhouse_plugin::testing::{FakeExchange, Harness, Reply};
use tollhouse_plugin::{FilterFailure, HeldBody, Piece};

use super::*;

const HEAD: &str = "200\nContent-Type: text/plain\nContent-Length: 11\nETag: \"a\"\nX-A: 1";

fn respond(conf: &Value, head: &str, body: &[&str]) -> Reply {
    let mut exchange = FakeExchange::parse("GET /hello?a=b HTTP/1.1\n\n", 0);
    Harness::new::<ResponseRewrite>(conf).respond(&mut exchange, head, body)
}

#[test]
fn status_and_body_are_replaced() {
    let conf = json!({"status_code": 201, "body": "new\n"});
    let reply = respond(&conf, HEAD, &["hello ", "world"]);
    assert_eq!((reply.status, reply.body.as_str()), (201, "new\n"));
    assert_eq!(reply.header("content-length"), None);
    assert_eq!(reply.header("etag"), None);
    assert_eq!(reply.header("content-type"), Some("text/plain"));
    for (text, decoded) in [("aGVsbG8=", "hello"), ("aGVsbG8", "hello"), ("aGk=", "hi")] {
        let conf = json!({"body": text, "body_base64": true});
        assert_eq!(respond(&conf, HEAD, &["x"]).body, decoded);
    }
    assert_eq!(respond(&json!({"body": ""}), HEAD, &["x"]).body, "");
}

#[test]
fn without_a_new_body_the_old_one_stays() {
    let reply = respond(&json!({"status_code": 404}), HEAD, &["hello ", "world"]);
    assert_eq!((reply.status, reply.body.as_str()), (404, "hello world"));
    assert_eq!(reply.header("content-length"), Some("11"));
}

#[test]
fn headers_are_added_set_and_removed() {
    let conf = json!({"headers": {
        "add": ["X-A: 2", "X-B :$arg_a", "Cache-Control: max-age=1"],
        "set": {"Content-Type": "text/html", "X-N": 7, "X-S": "$status"},
        "remove": ["ETag"],
    }});
    let reply = respond(&conf, HEAD, &["x"]);
    let values = |name: &str| -> Vec<&str> {
        let named = |(other, _): &&(String, String)| other.eq_ignore_ascii_case(name);
        reply.headers.iter().filter(named).map(|(_, value)| value.as_str()).collect()
    };
    assert_eq!(values("x-a"), ["1", "2"]);
    assert_eq!(values("x-b"), ["b"]);
    assert_eq!(values("cache-control"), ["max-age=1"]);
    assert_eq!(values("content-type"), ["text/html"]);
    assert_eq!(values("x-n"), ["7"]);
    assert_eq!(values("x-s"), ["200"]);
    assert_eq!(values("etag"), [""; 0]);
    let reply = respond(&json!({"headers": {"X-A": "", "X-B": 1}}), HEAD, &["x"]);
    assert_eq!(reply.header("x-a"), None);
    assert_eq!(reply.header("x-b"), Some("1"));
}

#[test]
fn vars_decide_by_request_and_answer() {
    for (vars, expected) in [
        (json!([]), 299),
        (json!([["status", "==", 200]]), 299),
        (json!([["status", "==", 404]]), 200),
        (json!([["arg_a", "==", "b"], ["sent_http_x_a", "==", "1"]]), 299),
        (json!([["uri", "~~", "^/other"]]), 200),
    ] {
        let reply = respond(&json!({"status_code": 299, "vars": vars}), HEAD, &["x"]);
        assert_eq!(reply.status, expected, "{vars}");
    }
}

#[test]
fn filters_replace_in_turn() {
    for (filters, expected) in [
        (json!([{"regex": "hello", "replace": "test"}]), "test world"),
        (json!([{"regex": "l", "replace": "t", "scope": "global"}]), "hetto wortd"),
        (json!([{"regex": "hello", "replace": ""}]), " world"),
        (json!([{"regex": "\\w\\S+$", "replace": "*"}]), "hello *"),
        (
            json!([{"regex": "hello", "replace": "HELLO"}, {"regex": "L", "replace": "T"}]),
            "HETLO world",
        ),
        (json!([{"regex": "test", "replace": "TEST"}]), "hello world"),
        (json!([{"regex": "HELLO (.)", "replace": "$1-", "options": "ijo"}]), "w-orld"),
        (json!([{"regex": "world", "replace": "", "options": "a"}]), "hello world"),
        (json!([{"regex": "o w # both", "replace": "", "options": "x"}]), "hello world"),
        (json!([{"regex": "o\\ w # both", "replace": "", "options": "x"}]), "hellorld"),
        (json!([{"regex": "(a*)*(?<!c)\\1x", "replace": ""}]), "hello world"),
    ] {
        let reply = respond(&json!({"filters": filters}), HEAD, &["hel", "lo wor", "ld"]);
        assert_eq!(reply.body, expected, "{filters}");
        assert_eq!(reply.header("content-length"), None);
    }
}

#[test]
fn an_encoded_body_is_decoded_for_filters() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    encoder.write_all(b"hello world").unwrap();
    let encoded = encoder.finish().unwrap();
    let config = json!({"regex": "hello", "replace": "bye", "scope": "once"});
    let config: FilterConfig = serde_json::from_value(config).unwrap();
    let filters: Arc<[Filter]> = vec![Filter::compile(&config).unwrap()].into();
    let mut out = Vec::new();
    let held = || HeldBody::new(tollhouse_stdx::MemoryBudget::new(1_000));
    let mut filter = Filters::new(Arc::clone(&filters), Some(Encoding::Gzip), held(), 1000);
    filter.filter(&encoded[..5], Piece::Middle, &mut out);
    filter.filter(&encoded[5..], Piece::Last, &mut out);
    assert_eq!(out, b"bye world");

    // What finds no memory is no body at all, and says so.
    let mut filter = Filters::new(filters, None, held(), 10_000);
    let mut out = Vec::new();
    filter.filter(&[b'x'; 600], Piece::Middle, &mut out);
    assert_eq!(filter.failure(), None);
    filter.filter(&[b'x'; 600], Piece::Middle, &mut out);
    filter.filter(b"", Piece::Last, &mut out);
    assert_eq!(filter.failure(), Some(FilterFailure::NoMemory));
    assert!(out.is_empty());
}

#[test]
fn an_encoded_body_counts_as_long_as_it_may_become() {
    for (encoding, expected) in [(None, 100), (Some(Encoding::Gzip), 1 << 20)] {
        let held = HeldBody::new(tollhouse_stdx::MemoryBudget::new(1_000));
        let filter = Filters::new(Vec::new().into(), encoding, held, 1 << 20);
        assert_eq!(filter.work_bytes(100, Piece::Last), expected);
        assert_eq!(filter.work_bytes(100, Piece::Middle), 0);
    }
}

#[test]
fn a_body_that_filters_cannot_read_is_refused_and_none_of_it_shown() {
    let conf = json!({"filters": [{"regex": "hello", "replace": "bye"}], "max_resp_body_size": 11});
    for (lines, body, status) in [
        ("Content-Encoding: identity", "hello", 200),
        ("Content-Encoding: zstd", "hello", 502),
        ("Content-Encoding: gzip, gzip", "hello", 502),
        // It is not what its head says.
        ("Content-Encoding: gzip", "hello", 502),
        ("Content-Encoding: gzip", "", 200),
        ("X-A: 1", "hello world", 200),
        ("X-A: 1", "hello world!", 502),
        ("Content-Length: 12", "", 502),
    ] {
        let head = format!("200\n{lines}");
        let reply = respond(&conf, &head, &[body]);
        assert_eq!(reply.status, status, "{lines} {body}");
        assert!(!reply.body.contains("hello"), "{lines}: {}", reply.body);
        assert_eq!(reply.header("content-encoding"), None, "{lines}");
    }
    let mut exchange = FakeExchange::parse("HEAD / HTTP/1.1\n\n", 0);
    let head = "200\nContent-Encoding: zstd\nContent-Length: 12";
    let reply = Harness::new::<ResponseRewrite>(&conf).respond(&mut exchange, head, &[]);
    assert_eq!(reply.status, 200, "there is nothing to hide");
}

#[test]
fn nodes_are_asked_for_what_filters_can_read() {
    let filters = json!({"filters": [{"regex": "hello", "replace": "bye"}]});
    for (conf, expected) in [(filters, Some(Encoding::READABLE)), (json!({"body": "x"}), None)] {
        let mut exchange = FakeExchange::parse("GET / HTTP/1.1\nAccept-Encoding: zstd\n\n", 0);
        assert!(Harness::new::<ResponseRewrite>(&conf).run(&mut exchange).passes());
        assert_eq!(exchange.edits.answer_codings, expected, "{conf}");
    }
}

#[test]
fn the_first_colon_of_an_added_line_ends_its_name() {
    let line = "Link: <https://cdn.example:8443/a.css/>; rel=preload";
    let reply = respond(&json!({"headers": {"add": [line, "X-B: a/"]}}), HEAD, &["x"]);
    assert_eq!(reply.header("link"), Some("<https://cdn.example:8443/a.css/>; rel=preload"));
    assert_eq!(reply.header("x-b"), Some("a/"));
}

#[test]
fn bad_confs_are_refused() {
    let filter = |conf: Value| json!({"filters": [conf]});
    let item = "property \"filters\" validation failed: failed to validate item 1: ";
    for (conf, expected) in [
        (
            json!({"status_code": 599}),
            "property \"status_code\" validation failed: expected 599 to",
        ),
        (
            json!({"body": 2}),
            "property \"body\" validation failed: wrong type: expected string, got",
        ),
        (json!({"body": "", "body_base64": true}), "invalid base64 content"),
        (json!({"body_base64": true}), "invalid base64 content"),
        (json!({"body": "a*", "body_base64": true}), "invalid base64 content"),
        (json!({"vars": [["status", "===", 1]]}), "failed to validate the 'vars' expression: "),
        (
            json!({"body": "a", "filters": [{"regex": "a", "replace": "b"}]}),
            "failed to validate dependent schema for \"",
        ),
        (
            json!({"filters": []}),
            "property \"filters\" validation failed: expect array to have at least 1 items",
        ),
        (filter(json!({"regex": "l"})), &format!("{item}property \"replace\" is required")),
        (
            filter(json!({"regex": "", "replace": "m"})),
            &format!("{item}property \"regex\" validation failed: string too short, expected at"),
        ),
        (
            filter(json!({"regex": "l", "replace": "m", "scope": "two"})),
            &format!("{item}property \"scope\" validation failed: matches none of the enum values"),
        ),
        (
            filter(json!({"regex": "hello", "replace": "HELLO", "options": "h"})),
            "regex \"hello\" validation failed: unknown flag \"h\" (flags \"h\")",
        ),
        (filter(json!({"regex": "(", "replace": ""})), "regex \"(\" validation failed: "),
        (json!({"headers": {}}), ""),
        (json!({"headers": {"X": {}}}), "invalid type as header value"),
        (json!({"headers": {"": "a"}}), "invalid field length in header"),
        (json!({"headers": {"add": []}}), "property \"headers\" validation failed: "),
        (json!({"headers": {"add": ["X-A"]}}), "property \"headers\" validation failed: "),
    ] {
        let refusal = Harness::refusal::<ResponseRewrite>(&conf);
        assert!(refusal.starts_with(expected), "{conf}: {refusal}");
    }
    assert_eq!(Harness::refusal::<ResponseRewrite>(&json!({})), "");
}
