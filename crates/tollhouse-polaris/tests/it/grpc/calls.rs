//! Calls of every shape, good and bad, and the status of each.

use bytes::Bytes;
use http::Request;

use super::start;
use crate::client::{Client, framed, request, run};

#[test]
fn unary_calls_end_with_their_status() {
    let server = start();
    let one = framed(b"hello");
    let pieces: Vec<Bytes> = one.chunks(1).map(Bytes::copy_from_slice).collect();
    let compressed = Bytes::from_static(b"\x01\0\0\0\x01x");
    let huge = Bytes::from_static(&[0, 0, 0x40, 0, 1]);
    let cut = one.slice(..7);
    run(async {
        let client = Client::connect(server.address).await;
        for (case, path, bytes, code, text) in [
            ("one message", "Echo", vec![one.clone()], 0, ""),
            ("in pieces", "Echo", pieces, 0, ""),
            ("late answer", "Echo", vec![framed(b"late")], 0, ""),
            ("empty message", "Echo", vec![framed(b"")], 0, ""),
            ("no message", "Echo", vec![], 13, "the call ended without a message"),
            ("cut off", "Echo", vec![cut], 13, "the call ended within a message"),
            ("several", "Echo", vec![one.clone(), one.clone()], 13, "a unary call has one"),
            ("compressed", "Echo", vec![compressed], 12, "compressed messages are not"),
            ("too long", "Echo", vec![huge], 8, "received message larger than max (4194305 vs"),
            ("panic", "Echo", vec![framed(b"panic")], 13, "the handler failed"),
            ("method", "Nothing", vec![one.clone()], 12, "unknown method Nothing for service"),
        ] {
            let ended = client.send(request(&format!("/test.Test/{path}")), &bytes).await;
            assert_eq!((ended.http, ended.code), (200, Some(code)), "{case}: {ended:?}");
            assert!(ended.text.starts_with(text), "{case}: {}", ended.text);
            let expected = bytes.concat()[..].get(5..).filter(|_| code == 0).map(<[u8]>::to_vec);
            assert_eq!(ended.messages, Vec::from_iter(expected), "{case}");
            assert_eq!(ended.head["content-type"], "application/grpc", "{case}");
        }
        let ended = client.unary("/test.Other/Echo", b"").await;
        assert_eq!((ended.code, &*ended.text), (Some(12), "unknown service test.Other"));
    });
    assert_eq!(server.counts.panics.get(), 1);
}

#[test]
fn requests_that_are_no_calls_are_refused_by_http() {
    let server = start();
    let plain = |method: &str, kind: Option<&str>| {
        let request = Request::builder().method(method).uri("http://registry/test.Test/Echo");
        let request = kind.into_iter().fold(request, |it, kind| it.header("content-type", kind));
        request.body(()).expect("valid")
    };
    run(async {
        let client = Client::connect(server.address).await;
        for (method, kind, http) in [
            ("POST", Some("application/grpc+proto"), 200),
            ("POST", Some("application/grpc;charset=utf-8"), 200),
            ("POST", Some("application/grpc+json"), 415),
            ("POST", Some("application/json"), 415),
            ("POST", None, 415),
            ("GET", Some("application/grpc"), 405),
            ("DELETE", None, 405),
        ] {
            let ended = client.send(plain(method, kind), &[framed(b"x")]).await;
            assert_eq!(ended.http, http, "{method} {kind:?}");
            assert_eq!(ended.messages.len(), usize::from(http == 200), "{method} {kind:?}");
            if http == 405 {
                assert_eq!(ended.head["allow"], "POST");
            }
        }
    });
}

#[test]
fn the_time_that_a_client_gives_is_kept() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        for (path, timeout, sent, code) in [
            ("/test.Test/Echo", "20S", &[framed(b"x")][..], 0),
            ("/test.Test/Echo", "20s", &[framed(b"x")], 13),
            ("/test.Test/Never", "10m", &[framed(b"x")], 4),
            ("/test.Test/Never", "0n", &[framed(b"x")], 4),
        ] {
            let mut request = request(path);
            request.headers_mut().insert("grpc-timeout", timeout.parse().expect("valid"));
            assert_eq!(client.send(request, sent).await.code, Some(code), "{path} {timeout}");
        }
        for path in ["/test.Test/Echo", "/test.Test/Each"] {
            let mut request = request(path);
            request.headers_mut().insert("grpc-timeout", "10m".parse().expect("valid"));
            let open = client.open(request).await;
            assert_eq!(open.end().await.code, Some(4), "{path} waits for a message");
        }
    });
}

#[test]
fn a_stream_has_an_answer_for_every_message_in_order() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        let three = [&framed(b"a")[..], &framed(b"late b"), &framed(b"c")].concat();
        let chopped = three.chunks(3).map(Bytes::copy_from_slice).collect();
        for pieces in [vec![Bytes::from(three.clone())], chopped] {
            let ended = client.send(request("/test.Test/Each"), &pieces).await;
            assert_eq!(ended.messages, [&b"a"[..], b"late b", b"c"]);
            assert_eq!(ended.code, Some(0), "half-closed by the client, ended well");
        }
        let ended = client.send(request("/test.Test/Each"), &[]).await;
        assert_eq!((ended.messages.len(), ended.code), (0, Some(0)));
        for (bad, code) in [(Bytes::from_static(b"\x01\0\0\0\0"), 12), (framed(b"panic"), 13)] {
            let ended = client.send(request("/test.Test/Each"), &[framed(b"a"), bad]).await;
            assert_eq!((ended.messages, ended.code), (vec![b"a".to_vec()], Some(code)));
        }
    });
}

#[test]
fn a_stream_is_a_conversation_and_opens_before_the_first_message() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        let mut open = client.open(request("/test.Test/Each")).await;
        assert_eq!(open.head().await, 200);
        for message in [&b"one"[..], b"late two", b""] {
            open.say(message);
            assert_eq!(open.next().await.as_deref(), Some(message));
        }
        open.close();
        assert_eq!(open.end().await.code, Some(0));
    });
}

#[test]
fn four_hundred_calls_at_once_share_a_connection() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        let mut calls = Vec::new();
        for number in 0..400 {
            let text = format!("{} {number}", if number % 2 == 0 { "now" } else { "late" });
            let path = if number % 3 == 0 { "/test.Test/Each" } else { "/test.Test/Echo" };
            let mut call = client.open(request(path)).await;
            call.say(text.as_bytes());
            calls.push((text, call));
        }
        for (text, mut call) in calls {
            call.close();
            let ended = call.end().await;
            assert_eq!((ended.code, ended.messages), (Some(0), vec![text.into_bytes()]));
        }
    });
    assert_eq!((server.counts.calls.get(), server.counts.calls_failed.get()), (400, 0));
}
