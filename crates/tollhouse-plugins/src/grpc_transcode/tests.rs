//! Calls that requests become, and what comes of them.

use tollhouse_plugin::{BodyFilter, Piece};
use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome as Sent, Reply};
use tollhouse_transcode::Protos;

use super::*;
use crate::shared::auth::base64::encode_base64;

const PROTO: &str = "syntax = \"proto3\"; package shop;
    service Orders {
      rpc Place (Order) returns (Order);
      rpc Follow (Order) returns (stream Order);
      rpc Upload (stream Order) returns (Order);
    }
    enum Size { SMALL = 0; LARGE = 1; }
    message Item { string name = 1; }
    message Order { string name = 1; int64 big = 2; Size size = 3; repeated int32 numbers = 4; Item item = 5; }";

fn protos() -> Protos {
    let mut protos = Protos::default();
    let definition = Definition::compile(PROTO).expect("it compiles");
    protos.insert(Id::new("1"), definition.clone());
    protos.insert(Id::new("7"), definition);
    protos
}

fn conf(method: &str, more: &Value) -> Value {
    let mut conf = json!({"proto_id": "1", "service": "shop.Orders", "method": method});
    for (name, value) in more.as_object().expect("an object") {
        conf[name] = value.clone();
    }
    conf
}

fn request(conf: &Value, text: &str) -> Sent {
    Harness::among_protos::<GrpcTranscode>(conf, &protos()).request(text)
}

/// What a client gets of an answer to a call.
fn respond(conf: &Value, head: &str, body: &[&str], trailers: &str) -> Reply {
    let mut harness = Harness::among_protos::<GrpcTranscode>(conf, &protos());
    let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
    assert!(harness.run(&mut exchange).passes());
    harness.respond_with_trailers(&mut exchange, head, body, trailers)
}

/// A message of ASCII in its frame.
fn frame(message: &str) -> String {
    let length = char::from(u8::try_from(message.len()).expect("a short one"));
    format!("\0\0\0\0{length}{message}")
}

const GRPC: &str = "200\nContent-Type: application/grpc";

#[test]
fn a_request_becomes_a_call_of_the_method() {
    let sent = request(&conf("Place", &json!({})), "GET /any?name=a HTTP/1.1\n\n");
    let expected = "+Content-Type: application/grpc\n-Content-Encoding\n-grpc-encoding\n\
                    -grpc-accept-encoding\n-grpc-timeout\nuri /shop.Orders/Place\nmethod POST\n\
                    body \0\0\0\0\u{3}\n\u{1}a\n";
    assert_eq!(sent.edits, expected);
}

#[test]
fn fields_come_of_the_body_or_the_query_by_method_and_content_type() {
    let json = "Content-Type: application/json; charset=utf-8";
    let form = "Content-Type: application/x-www-form-urlencoded";
    for (text, expected) in [
        ("GET /?name=q HTTP/1.1\n\n".to_owned(), "q"),
        (format!("GET /?name=q HTTP/1.1\n{json}\n\n{{\"name\":\"b\"}}"), "q"),
        (format!("POST /?name=q HTTP/1.1\n{json}\n\n{{\"name\":\"b\"}}"), "b"),
        (format!("PUT /?name=q HTTP/1.1\n{json}\n\n{{\"name\":\"b\"}}"), "b"),
        (format!("PATCH /?name=q HTTP/1.1\n{json}\n\n{{\"name\":\"b\"}}"), "b"),
        (format!("DELETE /?name=q HTTP/1.1\n{json}\n\n{{\"name\":\"b\"}}"), "q"),
        (format!("POST /?name=q HTTP/1.1\n{form}\n\nname=f"), "f"),
        ("POST /?name=q HTTP/1.1\n\nname=f".to_owned(), "f"),
        ("PUT /?name=q HTTP/1.1\n\nname=f".to_owned(), "q"),
    ] {
        let sent = request(&conf("Place", &json!({})), &text);
        let body = format!("body \0\0\0\0\u{3}\n\u{1}{expected}\n");
        assert!(sent.edits.contains(&body), "{text}: {}", sent.edits);
    }
    let nested = "GET /?item.name=n&numbers=1&numbers=2 HTTP/1.1\n\n";
    let sent = request(&conf("Place", &json!({})), nested);
    let body = "body \0\0\0\0\u{9}*\u{3}\n\u{1}n\"\u{2}\u{1}\u{2}\n";
    assert!(sent.edits.contains(body), "{:?}", sent.edits);
    let empty = format!("POST / HTTP/1.1\n{json}\n\n");
    let sent = request(&conf("Place", &json!({})), &empty);
    assert!(sent.edits.contains("body \0\0\0\0\0\n"), "{:?}", sent.edits);
}

#[test]
fn a_method_that_takes_a_stream_takes_a_list() {
    let text = "POST / HTTP/1.1\nContent-Type: application/json\n\n[{\"name\":\"a\"},{}]";
    let sent = request(&conf("Upload", &json!({})), text);
    assert!(sent.edits.contains("body \0\0\0\0\u{3}\n\u{1}a\0\0\0\0\0\n"), "{:?}", sent.edits);
    assert_eq!(request(&conf("Place", &json!({})), text).status(), 400);
}

#[test]
fn what_cannot_be_sent_is_answered() {
    let json = "Content-Type: application/json";
    for (conf, text, status, error) in [
        (
            conf("Nothing", &json!({})),
            "GET / HTTP/1.1\n\n".to_owned(),
            503,
            "Undefined service method: shop.Orders/Nothing",
        ),
        (
            conf("Place", &json!({"service": "Orders"})),
            "GET / HTTP/1.1\n\n".into(),
            503,
            "Undefined service method: Orders/Place",
        ),
        (
            conf("Place", &json!({})),
            "GET /?big=many HTTP/1.1\n\n".into(),
            400,
            "failed to encode request data to protobuf: field big: expected an integer, got \
             \\\"many\\\"",
        ),
        (
            conf("Place", &json!({})),
            format!("POST / HTTP/1.1\n{json}\n\n{{\"name\":"),
            400,
            "failed to encode request data to protobuf: invalid JSON body at byte 8",
        ),
        (
            conf("Place", &json!({})),
            format!("POST / HTTP/1.1\n{json}\n\n{}", " ".repeat((4 << 20) + 1)),
            413,
            "the body is longer than 4194304 bytes",
        ),
    ] {
        let sent = request(&conf, &text);
        assert_eq!(sent.status(), status, "{error}");
        assert_eq!(sent.body(), format!("{{\"error_msg\":\"{error}\"}}\n"));
        assert_eq!(sent.edits, "", "{error}");
    }
}

#[test]
fn requests_pass_untouched_where_there_is_no_definition() {
    let conf = json!({"proto_id": "2", "service": "shop.Orders", "method": "Place"});
    let mut harness = Harness::among_protos::<GrpcTranscode>(&conf, &protos());
    let mut exchange = FakeExchange::parse("POST /a?b=c HTTP/1.1\n\nbody", 0);
    let sent = harness.run(&mut exchange);
    assert!(sent.passes() && sent.edits.is_empty());
    let reply = harness.respond(&mut exchange, "200\nContent-Type: text/html", &["page"]);
    assert_eq!((reply.body.as_str(), reply.header("content-type")), ("page", Some("text/html")));
}

#[test]
fn an_id_may_be_a_number() {
    let sent = request(&conf("Place", &json!({"proto_id": 7})), "GET /?name=a HTTP/1.1\n\n");
    assert!(sent.edits.contains("uri /shop.Orders/Place\n"), "{}", sent.edits);
}

#[test]
fn a_deadline_reaches_the_node_and_ends_the_exchange() {
    for (deadline, expected) in [
        (json!(0), None),
        (json!(-5), None),
        (json!(50), Some(("50m", "50ms"))),
        (json!(0.5), Some(("1m", "1ms"))),
        (json!(100_000_000), Some(("100000S", "100000s"))),
    ] {
        let sent = request(&conf("Place", &json!({"deadline": deadline})), "GET / HTTP/1.1\n\n");
        match expected {
            None => assert!(!sent.edits.contains("time_max"), "{}", sent.edits),
            Some((field, time)) => {
                assert!(
                    sent.edits.contains(&format!("+grpc-timeout: {field}\n")),
                    "{}",
                    sent.edits
                );
                assert!(sent.edits.contains(&format!("time_max {time}\n")), "{}", sent.edits);
            }
        }
    }
}

#[test]
fn an_answer_becomes_json_however_it_arrives() {
    let message = frame("\n\u{1}a\u{10}\u{5}\u{18}\u{1}");
    let expected = r#"{"name":"a","big":5,"size":"LARGE","numbers":[]}"#;
    for cut in 0..message.len() {
        let (first, second) = message.split_at(cut);
        let conf = conf("Place", &json!({}));
        let reply = respond(&conf, GRPC, &[first, second], "grpc-status: 0");
        assert_eq!((reply.status, reply.body.as_str()), (200, expected), "{cut}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
}

#[test]
fn options_say_how_answers_are_written() {
    let message = frame("\u{10}\u{7f}\u{18}\u{1}");
    for (options, expected) in [
        (json!(["enum_as_value", "no_default_values"]), r#"{"big":127,"size":1}"#),
        (json!(["use_default_metatable"]), r#"{"big":127,"size":"LARGE"}"#),
        (
            json!(["int64_as_string", "enable_hooks", "use_default_values"]),
            r#"{"name":"","big":127,"size":"LARGE","numbers":[]}"#,
        ),
        (
            json!(["int64_as_hexstring", "enum_as_name", "enum_as_value", "no_default_values"]),
            r#"{"big":127,"size":1}"#,
        ),
    ] {
        let conf = conf("Place", &json!({"pb_option": options}));
        assert_eq!(respond(&conf, GRPC, &[&message], "grpc-status: 0").body, expected);
    }
}

#[test]
fn a_stream_becomes_a_line_a_message() {
    let conf = conf("Follow", &json!({"pb_option": ["no_default_values"]}));
    let (first, second) = (frame("\n\u{1}a"), frame("\n\u{1}b"));
    let reply = respond(&conf, GRPC, &[&first, &second], "grpc-status: 0");
    assert_eq!(reply.body, "{\"name\":\"a\"}\n{\"name\":\"b\"}\n");
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let failed = respond(&conf, GRPC, &[&first], "grpc-status: 8\ngrpc-message: too%20much");
    let expected = "{\"name\":\"a\"}\n{\"error\":{\"code\":8,\"message\":\"too much\"}}\n";
    assert_eq!(failed.body, expected);
    let broken = respond(&conf, GRPC, &[&first, &frame("\n\u{5}b")], "grpc-status: 0");
    let expected = "{\"name\":\"a\"}\n{\"error\":{\"code\":13,\"message\":\"failed to decode \
                    response data by protobuf\"}}\n";
    assert_eq!(broken.body, expected);
    assert_eq!(respond(&conf, GRPC, &[], "grpc-status: 0").body, "");
}

#[test]
fn answers_that_cannot_be_read_say_why() {
    let small = json!({"max_resp_body_size": 3});
    for (more, body, expected) in [
        (json!({}), frame("\n\u{5}b"), "failed to decode response data by protobuf"),
        (small.clone(), frame("\n\u{2}ab"), "a message is longer than max_resp_body_size"),
        (small, frame("\n\u{1}a"), r#"{"name":"a","big":0,"size":"SMALL","numbers":[]}"#),
        (json!({}), "\u{1}\0\0\0\0".into(), "a message is compressed, which was not asked for"),
        (json!({}), "\0\0\0".into(), "the answer ends in the middle of a message"),
    ] {
        let conf = conf("Place", &more);
        assert_eq!(respond(&conf, GRPC, &[&body], "grpc-status: 0").body, expected);
    }
}

#[test]
fn a_call_that_fails_has_the_http_status_of_its_code() {
    for (code, expected) in [
        ("1", 499),
        ("2", 500),
        ("3", 400),
        ("4", 504),
        ("5", 404),
        ("6", 409),
        ("7", 403),
        ("8", 429),
        ("9", 400),
        ("10", 409),
        ("11", 400),
        ("12", 501),
        ("13", 500),
        ("14", 503),
        ("15", 500),
        ("16", 401),
        ("17", 599),
        ("x", 599),
    ] {
        let head = format!("{GRPC}\ngrpc-status: {code}\ngrpc-message: no");
        let reply = respond(&conf("Place", &json!({})), &head, &[], "");
        assert_eq!((reply.status, reply.body.as_str()), (expected, ""), "{code}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
}

#[test]
fn a_status_is_shown_in_the_body_where_that_is_wanted() {
    let status = "\u{8}\u{5}\u{12}\u{2}no\u{1a}\u{8}\n\u{1}t\u{12}\u{3}\n\u{1}x";
    let details = encode_base64(status);
    let shown = json!({"show_status_in_body": true, "pb_option": ["no_default_values"]});
    let typed = |name: &str| {
        let mut typed = shown.clone();
        typed["status_detail_type"] = json!(name);
        typed
    };
    let head = format!("{GRPC}\ngrpc-status: 5\ngrpc-message: not%20here");
    let with = |details: &str| format!("{head}\ngrpc-status-details-bin: {details}");
    for (more, head, expected) in [
        (json!({}), with(&details), ""),
        (shown.clone(), head.clone(), r#"{"error":{"code":5,"message":"not here"}}"#),
        (
            shown.clone(),
            with(details.trim_end_matches('=')),
            r#"{"error":{"code":5,"message":"no","details":[{"type_url":"t","value":"CgF4"}]}}"#,
        ),
        (
            typed("shop.Item"),
            with(&details),
            r#"{"error":{"code":5,"message":"no","details":[{"name":"x"}]}}"#,
        ),
        (
            typed("shop.Nothing"),
            with(&details),
            "failed to call pb.decode to decode details in grpc-status-details-bin",
        ),
        (shown.clone(), with("?"), "grpc-status-details-bin is not base64 format"),
        (shown.clone(), with("CgU="), "failed to call pb.decode to decode grpc-status-details-bin"),
    ] {
        let reply = respond(&conf("Place", &more), &head, &[], "");
        assert_eq!((reply.status, reply.body.as_str()), (404, expected), "{more}");
    }
}

#[test]
fn a_failure_behind_an_open_head_is_told_in_the_body() {
    let reply = respond(&conf("Place", &json!({})), GRPC, &[], "grpc-status: 5\ngrpc-message: no");
    let expected = r#"{"error":{"code":5,"message":"no"}}"#;
    assert_eq!((reply.status, reply.body.as_str()), (200, expected));
}

#[test]
fn answers_that_are_none_of_a_call_stay_as_they_are() {
    for head in ["200\nContent-Type: text/html", "502\nContent-Type: application/grpc", "204"] {
        let reply = respond(&conf("Place", &json!({})), head, &["page"], "");
        let kind = head.split_once(": ").map(|(_, kind)| kind);
        assert_eq!(reply.header("content-type"), kind, "{head}");
        assert_eq!(reply.body, if head == "204" { "" } else { "page" });
    }
}

#[test]
fn bad_confs_are_refused() {
    let bad = |more: &Value| Harness::refusal::<GrpcTranscode>(&conf("Place", more));
    for missing in ["proto_id", "service", "method"] {
        let mut conf = conf("Place", &json!({}));
        conf.as_object_mut().expect("an object").remove(missing);
        let refusal = Harness::refusal::<GrpcTranscode>(&conf);
        assert_eq!(refusal, format!("property \"{missing}\" is required"));
    }
    for (more, expected) in [
        (json!({"pb_option": []}), "property \"pb_option\" validation failed: "),
        (json!({"pb_option": ["int32"]}), "property \"pb_option\" validation failed: "),
        (json!({"proto_id": 0}), "property \"proto_id\" validation failed: "),
        (json!({"proto_id": "a b"}), "property \"proto_id\" validation failed: "),
        (json!({"deadline": "1"}), "property \"deadline\" validation failed: "),
        (json!({"max_resp_body_size": 0}), "property \"max_resp_body_size\" validation failed: "),
        (json!({"show_status_in_body": 1}), "property \"show_status_in_body\" validation failed: "),
    ] {
        let refusal = bad(&more);
        assert!(refusal.starts_with(expected), "{more}: {refusal}");
    }
    assert_eq!(bad(&json!({})), "");
}

#[test]
fn what_short_bytes_become_as_json_is_taken_from_memory_too() {
    const PROTO: &str = "syntax = \"proto3\"; service Pages { rpc Get (Page) returns (Page); }
        message Item { string a_name_of_some_length = 1; } message Page { repeated Item items = 1; }";
    let definition = Definition::compile(PROTO).expect("it compiles");
    let method = definition.method("Pages", "Get").expect("it is there");
    let message = [0x0a, 0x00].repeat(1_000);
    let mut body = Vec::new();
    frames::append_frame(0, &message, &mut body);
    for (bytes_max, has_room) in [(140_000, false), (300_000, true)] {
        let memory = MemoryBudget::new(bytes_max);
        let terms = Arc::new(Terms {
            definition: Arc::new(definition.clone()),
            method: None,
            form: JsonForm { defaults: Defaults::Auto, ..JsonForm::default() },
            shows_status: false,
            detail_type: None,
            message_bytes_max: 1 << 20,
            memory: Arc::clone(&memory),
        });
        let mut filter = Transcoding::new(&terms, &method);
        let mut out = Vec::new();
        tollhouse_plugin::BodyFilter::filter(&mut filter, &body, Piece::Middle, &mut out);
        if has_room {
            assert!(out.len() > 25_000 && memory.held() >= out.len() as u64);
            let mut end = Vec::new();
            tollhouse_plugin::BodyFilter::filter(&mut filter, b"", Piece::Last, &mut end);
            assert!(end.is_empty() && memory.held() < 10_000, "{}", memory.held());
        } else {
            assert_eq!(String::from_utf8_lossy(&out), "not enough memory for a message");
        }
        drop(filter);
        assert_eq!(memory.held(), 0);
    }
}

#[test]
fn a_long_message_is_work_once_it_is_whole() {
    let definition = protos();
    let definition = definition.get(&Id::new("1")).expect("it is there");
    let method = definition.method("shop.Orders", "Follow").expect("a method");
    let terms = Arc::new(Terms {
        method: Some(method.clone()),
        definition: Arc::clone(definition),
        form: JsonForm::default(),
        shows_status: false,
        detail_type: None,
        message_bytes_max: 1 << 20,
        memory: MemoryBudget::new(1 << 30),
    });
    let mut transcoding = Transcoding::new(&terms, &method);
    let name = vec![b'a'; 100_000];
    let mut message = vec![0x0a, 0xa0, 0x8d, 0x06];
    message.extend_from_slice(&name);
    let mut bytes = Vec::new();
    frames::append_frame(0, &message, &mut bytes);
    let (head, rest) = bytes.split_at(50_000);
    let mut out = Vec::new();
    assert_eq!(transcoding.work_bytes(head.len(), Piece::Middle), 0);
    transcoding.filter(head, Piece::Middle, &mut out);
    assert_eq!((out.len(), transcoding.work_bytes(rest.len() - 1, Piece::Middle)), (0, 0));
    assert_eq!(transcoding.work_bytes(rest.len(), Piece::Middle), bytes.len());
    transcoding.filter(rest, Piece::Middle, &mut out);
    assert!(out.starts_with(b"{\"name\":\"aaa") && out.len() > name.len());
    assert_eq!(transcoding.work_bytes(10, Piece::Last), 0);
}
