//! gRPC: messages come back, alone, as they come, repeated, or the last; statuses in trailers.

use bytes::Bytes;
use h2::SendStream;
use h2::client::ResponseFuture;
use http::Request;
use tollhouse_mock::{Behaviour, Grpc, GrpcAnswer, Mock, Share};

use super::http2::plain;
use super::{runtime, start};

/// A message as it travels.
fn message(text: &str) -> Bytes {
    let length = u32::try_from(text.len()).expect("short").to_be_bytes();
    [&[0], &length[..], text.as_bytes()].concat().into()
}

async fn begin(mock: &Mock) -> (ResponseFuture, SendStream<Bytes>) {
    let mut client = plain(mock).await;
    let request = Request::builder()
        .method("POST")
        .uri("http://a/demo.Echo/Say")
        .header("content-type", "application/grpc+proto")
        .header("te", "trailers")
        .header("grpc-encoding", "identity")
        .body(());
    client.send_request(request.expect("valid"), false).expect("sent")
}

/// Sends messages at once; tells what came back and the status.
fn call(behaviour: Grpc, messages: &[&str]) -> (String, Option<String>) {
    let mock = start(Behaviour { grpc: behaviour, ..Behaviour::default() });
    call_to(&mock, messages)
}

fn call_to(mock: &Mock, messages: &[&str]) -> (String, Option<String>) {
    runtime().block_on(async {
        let (answer, mut stream) = begin(mock).await;
        for text in messages {
            stream.send_data(message(text), false).expect("sent");
        }
        stream.send_data(Bytes::new(), true).expect("sent");
        let (head, mut body) = answer.await.expect("answered").into_parts();
        assert_eq!(head.status, 200);
        assert_eq!(head.headers["content-type"], "application/grpc+proto");
        assert_eq!(head.headers["grpc-encoding"], "identity");
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            let data = data.expect("data");
            body.flow_control().release_capacity(data.len()).expect("an open stream");
            bytes.extend_from_slice(&data);
        }
        let trailers = body.trailers().await.expect("a whole answer").unwrap_or(head.headers);
        let status = trailers.get("grpc-status").and_then(|status| status.to_str().ok());
        (texts(&bytes), status.map(str::to_owned))
    })
}

/// The texts of messages, with commas between.
fn texts(mut bytes: &[u8]) -> String {
    let mut texts = Vec::new();
    while let Some((prefix, rest)) = bytes.split_first_chunk::<5>() {
        let length = u32::from_be_bytes(prefix[1..].try_into().expect("four bytes")) as usize;
        texts.push(String::from_utf8_lossy(&rest[..length]).into_owned());
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty(), "whole messages");
    texts.join(",")
}

#[test]
fn calls_of_every_kind_are_answered() {
    let usual = Grpc::default();
    for (case, behaviour, sent, back, status) in [
        ("unary", usual, &["hello"][..], "hello", "0"),
        ("both ways", usual, &["a", "", "b"], "a,,b", "0"),
        ("no message", usual, &[], "", "0"),
        ("server streams", Grpc { repeat: 3, ..usual }, &["a"], "a,a,a", "0"),
        ("client streams", Grpc { answer: GrpcAnswer::Last, ..usual }, &["a", "b"], "b", "0"),
        ("status", Grpc { status: 14, ..usual }, &["a"], "", "14"),
    ] {
        let (answer, code) = call(behaviour, sent);
        assert_eq!((answer.as_str(), code.as_deref()), (back, Some(status)), "{case}");
    }
}

#[test]
fn an_injected_error_is_internal() {
    let mock = start(Behaviour { error_rate: Share::new(1.0), ..Behaviour::default() });
    assert_eq!(call_to(&mock, &["a"]), (String::new(), Some("13".into())));
    assert_eq!((mock.requests(), mock.totals().errors), (1, 1));
}

#[test]
fn a_long_message_passes_and_a_longer_one_is_refused() {
    let long = "x".repeat(4 * 1024 * 1024);
    let (answer, status) = call(Grpc::default(), &[&long]);
    assert!(answer == long, "{} bytes", answer.len());
    assert_eq!(status.as_deref(), Some("0"));
    let mock = start(Behaviour::default());
    let status = runtime().block_on(async {
        let (answer, mut stream) = begin(&mock).await;
        stream.send_data(Bytes::from_static(&[0, 0xff, 0, 0, 0]), false).expect("sent");
        let mut body = answer.await.expect("answered").into_body();
        assert!(body.data().await.is_none());
        let trailers = body.trailers().await.expect("ended").expect("trailers");
        trailers["grpc-status"].to_str().expect("text").to_owned()
    });
    assert_eq!(status, "8");
}

#[test]
fn each_message_is_answered_before_the_next_is_sent() {
    let mock = start(Behaviour::default());
    runtime().block_on(async {
        let (answer, mut stream) = begin(&mock).await;
        let mut body = answer.await.expect("a head before the first message").into_body();
        for text in ["one", "two", "three"] {
            stream.send_data(message(text), false).expect("sent");
            let data = body.data().await.expect("open").expect("data");
            assert_eq!(texts(&data), text);
        }
        stream.send_data(Bytes::new(), true).expect("sent");
        assert!(body.data().await.is_none());
        let trailers = body.trailers().await.expect("a whole answer").expect("trailers");
        assert_eq!(trailers["grpc-status"], "0");
    });
}
