//! Calls of browsers, and what comes of them.

use serde_json::{Value, json};
use tollhouse_plugin::testing::{FakeExchange, Harness, Reply};

use super::*;

fn exchange(text: &str) -> FakeExchange {
    FakeExchange::parse(text, 0).with_variable(":ext", "pkg.Service/Method")
}

fn post(content_type: &str, body: &str) -> FakeExchange {
    exchange(&format!(
        "POST /grpc/pkg.Service/Method HTTP/1.1\nContent-Type: {content_type}\n\n{body}"
    ))
}

/// What a browser gets of an answer to a call.
fn respond(content_type: &str, head: &str, body: &[&str], trailers: &str) -> Reply {
    let mut harness = Harness::new::<GrpcWeb>(&json!({}));
    let mut exchange = post(content_type, "");
    assert!(harness.run(&mut exchange).passes());
    harness.respond_with_trailers(&mut exchange, head, body, trailers)
}

/// Status, code and content type of an answer of the gateway's own, after the request came as far as `goes`.
fn own_answer(exchange: &mut FakeExchange, status: u16, goes: Reached) -> [String; 3] {
    let mut harness = Harness::new::<GrpcWeb>(&json!({}));
    if goes == Reached::ThisPlugin {
        harness.run(exchange);
    }
    let (mut edits, mut filters) = (tollhouse_plugin::HeaderEdits::default(), Vec::new());
    let mut memory = std::mem::take(&mut exchange.memory);
    let facts = tollhouse_plugin::response::ResponseFacts {
        status,
        source: Source::Gateway,
        has_body: true,
        content_length: None,
        client_is_http11: true,
    };
    let mut cx =
        ResponseContext::new(exchange, &Page, &mut edits, &mut filters, &mut memory, facts);
    cx.enter(1);
    harness.handler.response(&mut cx);
    let text =
        |name: &str| String::from_utf8_lossy(cx.header(name).unwrap_or_default()).into_owned();
    [cx.status().to_string(), text("grpc-status"), text("Content-Type")]
}

#[derive(PartialEq, Eq)]
enum Reached {
    ThisPlugin,
    OneBefore,
}

struct Page;

impl tollhouse_plugin::ResponseHead for Page {
    fn find(&self, name: &[u8]) -> Option<&[u8]> {
        name.eq_ignore_ascii_case(b"content-type").then_some(b"text/html")
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        visit(b"Content-Type", b"text/html");
    }
}

#[test]
fn calls_get_a_status_where_the_gateway_answers_itself() {
    use Reached::{OneBefore, ThisPlugin};
    let timed = || {
        exchange(&format!("POST /grpc/a HTTP/1.1\nContent-Type: {TEXT}\ngrpc-timeout: 300m\n\n"))
    };
    for (mut exchange, status, goes, expected) in [
        (post(BINARY, ""), 502, ThisPlugin, ["200", "14", BINARY]),
        (post(BINARY, ""), 504, ThisPlugin, ["200", "14", BINARY]),
        (timed(), 504, ThisPlugin, ["200", "4", TEXT]),
        (post(BINARY, ""), 401, OneBefore, ["200", "16", BINARY]),
        (post(BINARY, ""), 200, ThisPlugin, ["200", "", "text/html"]),
        (post("application/json", ""), 400, ThisPlugin, ["400", "", "text/html"]),
        (post(TEXT, "not base64"), 400, ThisPlugin, ["400", "", "text/html"]),
        (exchange("OPTIONS /grpc/a HTTP/1.1\n\n"), 401, OneBefore, ["401", "", "text/html"]),
    ] {
        assert_eq!(own_answer(&mut exchange, status, goes), expected);
    }
}

const BINARY: &str = "application/grpc-web";
const TEXT: &str = "application/grpc-web-text";
const GRPC: &str = "200\nContent-Type: application/grpc\nContent-Length: 6";

#[test]
fn the_path_behind_the_prefix_is_called() {
    for (rest, expected) in
        [("pkg.S/M", "uri /pkg.S/M\n"), ("/pkg.S/M", "uri /pkg.S/M\n"), ("", "")]
    {
        let text = format!("POST /grpc/x HTTP/1.1\nContent-Type: {BINARY}\n\nbody");
        let mut exchange = FakeExchange::parse(&text, 0).with_variable(":ext", rest);
        let sent = Harness::new::<GrpcWeb>(&json!({})).run(&mut exchange);
        let edits = format!("+Content-Type: application/grpc\n{expected}body_bytes_max 67108864\n");
        assert_eq!(sent.edits, edits);
        assert!(!exchange.body_was_read, "a binary body passes as it comes");
    }
    let text = format!("POST /pkg.S/M HTTP/1.1\nContent-Type: {BINARY}\n\nbody");
    let sent = Harness::new::<GrpcWeb>(&json!({})).run(&mut FakeExchange::parse(&text, 0));
    assert!(sent.passes() && !sent.edits.contains("uri"), "{}", sent.edits);
}

#[test]
fn a_text_is_decoded_also_where_it_was_padded_in_pieces() {
    for content_type in [TEXT, "application/grpc-web-text+proto"] {
        let mut exchange = post(content_type, "AAAAAAE=YQ==");
        let sent = Harness::new::<GrpcWeb>(&json!({})).run(&mut exchange);
        assert!(sent.edits.ends_with("body \0\0\0\0\u{1}a\n"), "{:?}", sent.edits);
    }
}

#[test]
fn requests_that_are_no_calls_are_answered() {
    let method = |method: &str| exchange(&format!("{method} /grpc/a HTTP/1.1\n\n"));
    for (conf, mut exchange, status) in [
        (json!({}), method("GET"), 405),
        (json!({}), method("PUT"), 405),
        (json!({}), method("HEAD"), 405),
        (json!({}), method("POST"), 400),
        (json!({}), post("application/json", ""), 400),
        (json!({}), post("application/grpc", ""), 400),
        (json!({}), post("application/grpc-web;charset=utf-8", ""), 400),
        (json!({}), post("Application/grpc-web", ""), 400),
        (json!({}), post(TEXT, "not base64"), 400),
        (json!({"max_req_body_size": 3}), post(TEXT, "Zm9v"), 413),
        (json!({"max_req_body_size": 4}), post(TEXT, "Zm9v"), 0),
    ] {
        let head = format!("{} {:?}", exchange.method, exchange.headers);
        let sent = Harness::new::<GrpcWeb>(&conf).run(&mut exchange);
        assert_eq!(sent.status(), status, "{head}");
    }
}

#[test]
fn preflights_are_told_what_pages_may_send() {
    for (conf, headers) in [
        (json!({}), "content-type,x-grpc-web,x-user-agent"),
        (json!({"cors_allow_headers": "grpc-timeout"}), "grpc-timeout"),
    ] {
        let mut harness = Harness::new::<GrpcWeb>(&conf);
        let mut exchange = exchange("OPTIONS /grpc/a HTTP/1.1\n\n");
        let sent = harness.run(&mut exchange);
        assert_eq!((sent.status(), sent.body()), (204, ""));
        assert_eq!(sent.header("Access-Control-Allow-Methods"), Some("POST"));
        assert_eq!(sent.header("Access-Control-Allow-Headers"), Some(headers));
        let reply = harness.respond(&mut exchange, "204", &[]);
        assert_eq!(reply.header("Access-Control-Allow-Origin"), Some("*"));
        let exposed = reply.header("Access-Control-Expose-Headers");
        assert_eq!(exposed, Some("grpc-message,grpc-status"));
    }
}

#[test]
fn trailers_become_the_last_frame() {
    let trailers = "grpc-status: 0\nGrpc-Message: OK";
    let frame = b"\x80\0\0\0\x20grpc-status:0\r\ngrpc-message:OK\r\n";
    for content_type in [BINARY, "application/grpc-web+proto"] {
        let reply = respond(content_type, GRPC, &["\0\0\0\0\u{1}", "a"], trailers);
        assert_eq!(reply.bytes, [&b"\0\0\0\0\x01a"[..], frame].concat());
        assert_eq!(reply.header("Content-Type"), Some(content_type));
        assert_eq!(reply.header("Content-Length"), None);
        assert_eq!(reply.header("Access-Control-Allow-Origin"), Some("*"));
    }
}

#[test]
fn in_text_each_piece_is_base64_by_itself() {
    let reply = respond(TEXT, GRPC, &["\0\0\0\0\u{1}", "a"], "grpc-status: 0");
    let frame = encode_base64(b"\x80\0\0\0\x0fgrpc-status:0\r\n");
    assert_eq!(reply.body, format!("{}{}{frame}", encode_base64("\0\0\0\0\u{1}"), "YQ=="));
    let decoded = text::decode(reply.body.as_bytes()).expect("base64");
    assert_eq!(decoded, b"\0\0\0\0\x01a\x80\0\0\0\x0fgrpc-status:0\r\n");
}

#[test]
fn a_status_in_the_head_stays_there() {
    let head = format!("{GRPC}\ngrpc-status: 5\ngrpc-message: no");
    let reply = respond(BINARY, &head, &[], "");
    assert_eq!((reply.header("grpc-status"), reply.bytes.as_slice()), (Some("5"), &b""[..]));
    assert_eq!(reply.header("Content-Type"), Some(BINARY));
}

#[test]
fn other_answers_keep_their_bodies_and_can_be_read_by_pages() {
    let reply = respond(BINARY, "502\nContent-Type: text/html", &["page"], "");
    assert_eq!((reply.body.as_str(), reply.header("content-type")), ("page", Some("text/html")));
    assert_eq!(reply.header("Access-Control-Allow-Origin"), Some("*"));
    let own = format!("{GRPC}\nAccess-Control-Allow-Origin: https://a.example");
    let reply = respond(BINARY, &own, &[], "grpc-status: 0");
    assert_eq!(reply.header("Access-Control-Allow-Origin"), Some("https://a.example"));
}

#[test]
fn the_time_that_a_client_allows_counts() {
    let text = format!("POST /grpc/a HTTP/1.1\nContent-Type: {BINARY}\ngrpc-timeout: 2S\n\n");
    let sent = Harness::new::<GrpcWeb>(&json!({})).run(&mut exchange(&text));
    assert!(sent.edits.contains("time_max 2s\n"), "{}", sent.edits);
}

#[test]
fn bad_confs_are_refused() {
    let refusal = |conf: &Value| Harness::refusal::<GrpcWeb>(conf);
    let expected = "property \"max_req_body_size\" validation failed: ";
    assert!(refusal(&json!({"max_req_body_size": 0})).starts_with(expected));
    let expected = "property \"cors_allow_headers\" validation failed: ";
    assert!(refusal(&json!({"cors_allow_headers": 1})).starts_with(expected));
    assert_eq!(refusal(&json!({})), "");
}
