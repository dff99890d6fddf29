//! gRPC: the four kinds of calls, statuses, answers that are none.

use std::path::PathBuf;
use std::time::Duration;

use tollhouse_load::case::{Case, GrpcCall, GrpcData};
use tollhouse_mock::{Behaviour, Grpc, GrpcAnswer, Tls};

use super::server::{Call, Plan, Server};
use super::{few, measure, mock, try_run};

pub(super) fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/grpc").join(name)
}

/// A case that calls a method of `kinds.v1.Kinds`.
pub(super) fn kinds(address: std::net::SocketAddr, method: &str, data: &str) -> Case {
    let mut case = few(format!("grpc://{address}"));
    case.grpc = Some(GrpcCall {
        call: format!("kinds.v1.Kinds.{method}"),
        proto: Some(testdata("kinds.proto")),
        data: Some(GrpcData::Json(data.into())),
        ..GrpcCall::default()
    });
    case
}

/// The call of a case, to be changed.
pub(super) fn call(case: &mut Case) -> &mut GrpcCall {
    case.grpc.as_mut().expect("it has a call")
}

#[test]
fn unary_calls_are_answered() {
    let mock = mock(Behaviour::default());
    let mut case = kinds(mock.address(), "Unary", r#"{"string": "n-{{.RequestNumber}}"}"#);
    case.load.connections = 2;
    case.load.streams = 4;
    case.load.requests = Some(100);
    case.checks.body_matches = Some(r#""string":"n-\d+""#.into());
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.failed), (100, 0));
    assert_eq!(result.counts.statuses["OK"], 100);
    assert_eq!(mock.requests(), 100);
}

#[test]
fn a_list_of_messages_takes_turns() {
    let mock = mock(Behaviour::default());
    let mut case = kinds(mock.address(), "Unary", r#"[{"int32": 1}, {"string": "longer"}]"#);
    // One message has two bytes and the other eight.
    let result = measure(&case);
    assert_eq!(result.counts.body_bytes, 10 * (2 + 8));
    case.checks.same_length = true;
    assert_eq!(measure(&case).counts.failures["check"], 10);
}

#[test]
fn calls_go_over_tls_and_with_compression() {
    let mock = mock(Behaviour { tls: Tls::SelfSigned, ..Behaviour::default() });
    let mut case =
        kinds(mock.address(), "Unary", &format!(r#"{{"string": "{}"}}"#, "x".repeat(10_000)));
    case.target = case.target.replace("grpc:", "grpcs:");
    case.tls.insecure = true;
    call(&mut case).compression = true;
    case.checks.body_contains = Some("xxxxx".into());
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.failed), (20, 0));
    assert!(result.counts.body_bytes < 20 * 1_000, "{}", result.counts.body_bytes);
}

#[test]
fn a_client_stream_sends_each_message_once_or_as_many_as_asked_for() {
    let answer = Grpc { answer: GrpcAnswer::Last, ..Grpc::default() };
    let mock = mock(Behaviour { grpc: answer, ..Behaviour::default() });
    let messages = r#"[{"int32": 1}, {"int32": 2}, {"int32": 3}]"#;
    for (count, last) in [(None, 3), (Some(2), 2), (Some(5), 2), (Some(7), 1)] {
        let mut case = kinds(mock.address(), "ClientStream", messages);
        call(&mut case).stream_call_count = count;
        case.checks.body_json = Some(("/int32".into(), last.into()));
        let result = measure(&case);
        assert_eq!((result.counts.succeeded, result.counts.failed), (20, 0), "{count:?}");
    }
}

#[test]
fn messages_of_a_stream_are_filled_in_once_or_each_anew() {
    let answer = Grpc { answer: GrpcAnswer::Last, ..Grpc::default() };
    let mock = mock(Behaviour { grpc: answer, ..Behaviour::default() });
    let mut case = kinds(mock.address(), "ClientStream", r#"{"string": "{{.UUID}}"}"#);
    call(&mut case).stream_call_count = Some(3);
    case.checks.body_matches = Some(r#""string":"[0-9a-f-]{36}""#.into());
    assert_eq!(measure(&case).counts.succeeded, 20);
    call(&mut case).stream_dynamic_messages = true;
    assert_eq!(measure(&case).counts.succeeded, 20);
}

#[test]
fn a_server_stream_is_read_to_its_end_or_cut_off() {
    let answer = Grpc { repeat: 10, ..Grpc::default() };
    let mock = mock(Behaviour { grpc: answer, ..Behaviour::default() });
    let mut case = kinds(mock.address(), "ServerStream", r#"{"int32": 1}"#);
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.body_bytes), (20, 20 * 10 * 2));
    assert_eq!(result.counts.statuses["OK"], 20);
    call(&mut case).stream_call_count = Some(4);
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.failed), (20, 0));
    assert_eq!(result.counts.statuses["Canceled"], 20);
}

#[test]
fn a_stream_that_does_not_end_is_cut_off_after_its_time() {
    let latency = tollhouse_mock::Latency::fixed(Duration::from_secs(60));
    let mock = mock(Behaviour { latency, ..Behaviour::default() });
    let mut case = kinds(mock.address(), "ServerStream", "{}");
    case.load.requests = Some(2);
    call(&mut case).stream_call_duration = Some(Duration::from_millis(5));
    let result = measure(&case);
    assert_eq!(result.counts.statuses["Canceled"], 2);
}

#[test]
fn a_bidirectional_stream_has_an_answer_for_every_message() {
    let mock = mock(Behaviour::default());
    let messages = r#"[{"int32": 1}, {"int32": 2}, {"int32": 3}]"#;
    let mut case = kinds(mock.address(), "BidirectionalStream", messages);
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.body_bytes), (20, 20 * 3 * 2));
    call(&mut case).stream_interval = Some(Duration::from_millis(1));
    call(&mut case).stream_call_duration = Some(Duration::from_millis(30));
    call(&mut case).stream_call_count = Some(1_000_000);
    case.load.requests = Some(2);
    let result = measure(&case);
    assert_eq!(result.counts.statuses["OK"], 2);
    assert!(result.counts.body_bytes >= 4, "{}", result.counts.body_bytes);
}

#[test]
fn a_status_is_a_failure_with_its_name() {
    let answer = Grpc { status: 5, ..Grpc::default() };
    let mock = mock(Behaviour { grpc: answer, ..Behaviour::default() });
    let mut case = kinds(mock.address(), "Unary", "{}");
    let error = try_run(&case).expect_err("all fail").to_string();
    assert!(error.contains("code = NotFound"), "{error}");
    case.checks.status = vec![0, 5];
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.statuses["NotFound"]), (20, 20));
}

#[test]
fn the_messages_of_the_registrys_report_are_sent() {
    let mock = mock(Behaviour::default());
    for (method, data) in [
        (
            "RegisterInstance",
            r#"{"id": "ins-{{.RequestNumber}}", "host": "fakehost-{{randomString 8 }}.com",
                "port": "{{randomInt 1000 50000}}", "enable_health_check": true,
                "health_check": {"type": 1, "heartbeat": {"ttl": 3}}}"#,
        ),
        (
            "Discover",
            r#"{"type": 1, "service": {"name": "SVC-{{.WorkerID}}", "namespace": "default"}}"#,
        ),
    ] {
        let mut case = few(format!("grpc://{}", mock.address()));
        case.grpc = Some(GrpcCall {
            call: format!("v1.PolarisGRPC.{method}"),
            proto: Some(testdata("polaris/grpcapi.proto")),
            data: Some(GrpcData::Json(data.into())),
            ..GrpcCall::default()
        });
        case.load.streams = 5;
        let result = measure(&case);
        assert_eq!((result.counts.succeeded, result.counts.failed), (20, 0), "{method}");
    }
}

/// A server that answers `Unary` as told.
fn answering(call: Call) -> Server {
    let calls = [("/kinds.v1.Kinds/Unary", call)].into_iter().collect();
    Server::start(Plan { calls, ..Plan::default() })
}

/// A message with `int32: 1`, framed.
const MESSAGE: &[u8] = &[0, 0, 0, 0, 2, 0x18, 1];
const OK: &[(&str, &str)] = &[("grpc-status", "0")];

#[test]
fn answers_that_are_no_whole_call_are_named() {
    let cases: [(Call, &str, &str); 9] = [
        (
            |call| Box::pin(async { call.head_only(502, &[]) }),
            "status",
            "code = Unavailable desc = the answer is not gRPC: HTTP status 502",
        ),
        (
            |call| Box::pin(async { call.head_only(404, &[("content-type", "text/html")]) }),
            "status",
            "code = Unimplemented desc = the answer is not gRPC: HTTP status 404, text/html",
        ),
        (
            |call| Box::pin(async { call.head_only(200, &[("content-type", "text/html")]) }),
            "malformed",
            "code = Unknown desc = the answer is not gRPC: HTTP status 200, text/html",
        ),
        (
            |call| {
                Box::pin(async {
                    let head = [
                        ("content-type", "application/grpc"),
                        ("grpc-status", "7"),
                        ("grpc-message", "not%20you"),
                    ];
                    call.head_only(200, &head);
                })
            },
            "status",
            "code = PermissionDenied desc = not you",
        ),
        (
            |call| Box::pin(async { call.answer(&[], MESSAGE, &[]) }),
            "malformed",
            "the answer ended without a status",
        ),
        (
            |call| Box::pin(async { call.answer(&[], &MESSAGE[..6], OK) }),
            "malformed",
            "the answer ended inside of a message",
        ),
        (
            |call| Box::pin(async { call.answer(&[], &[1, 0, 0, 0, 0], OK) }),
            "malformed",
            "a compressed message without an encoding",
        ),
        (
            |call| Box::pin(async { call.answer(&[("grpc-encoding", "zstd")], MESSAGE, OK) }),
            "malformed",
            "the answer's encoding `zstd` is not known",
        ),
        (
            |call| Box::pin(async { call.answer(&[], &[0, 1, 0, 0, 0], OK) }),
            "check",
            "code = ResourceExhausted desc = a message of 16777216 bytes is longer than 4194304",
        ),
    ];
    for (answer, class, message) in cases {
        let server = answering(answer);
        let mut case = kinds(server.address(), "Unary", "{}");
        case.load.requests = Some(1);
        case.load.persistent = true;
        let counts = measure(&case).counts;
        assert_eq!(counts.failures.get(class), Some(&1), "{counts:?}");
        assert!(counts.messages.keys().any(|text| text.contains(message)), "{counts:?}");
    }
}

#[test]
fn the_head_of_a_call_is_what_grpc_wants() {
    let server = answering(|call| {
        Box::pin(async {
            let head = call.request.headers();
            let is_right = head["content-type"] == "application/grpc"
                && head["te"] == "trailers"
                && head["grpc-timeout"] == "10000m"
                && head["x-number"] == "7"
                && call.request.uri().authority().is_some_and(|name| name == "service.example")
                && call.request.method() == "POST";
            let status = if is_right { "0" } else { "3" };
            call.answer(&[], MESSAGE, &[("grpc-status", status)]);
        })
    });
    let mut case = kinds(server.address(), "Unary", "{}");
    call(&mut case).authority = Some("service.example".into());
    call(&mut case).metadata = Some(serde_json::json!({"x-number": "{{add 3 4}}"}));
    assert_eq!(measure(&case).counts.succeeded, 20);
}

#[test]
fn a_bad_call_is_named_before_anything_is_sent() {
    let address = "127.0.0.1:1".parse().expect("an address");
    for (method, data, part) in [
        ("Unry", "{}", "no method of kinds.v1.Kinds is called `Unry`; did you mean `Unary`?"),
        ("Unary", r#"{"int33": 1}"#, "grpc.data: `int33`: kinds.v1.Everything has no such field"),
        ("Unary", "[]", "grpc.data: the list is empty"),
        ("Unary", r#"{"int32": "{{.WorkerID}}"}"#, "grpc.data: `int32`: takes a whole number"),
    ] {
        let error = try_run(&kinds(address, method, data)).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    let mut case = kinds(address, "Unary", "{}");
    case.load.timeout = Duration::from_secs(1);
    let error = try_run(&case).expect_err("nobody listens").to_string();
    assert!(error.contains("connect") && error.contains("refused"), "{error}");
}
