//! Calls of gRPC that clients make by plain HTTP, and browsers by grpc-web: the plugins between a client
//! and a node of gRPC, over sockets. Node and HTTP/2 client are the h2 crate.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollhouse_model::Kind;
use tollhouse_proxy::SnapshotCell;

use crate::http2_nodes::{Answer, Call, connect, head, plain, read, run, serve, trailers, whole};
use crate::support::{Gateway, Options, snapshot_of};

const PROTO: &str = "syntax = \"proto3\"; package shop;
    message Order { string name = 1; int32 count = 2; }
    service Orders {
      rpc Place (Order) returns (Order);
      rpc Follow (Order) returns (stream Order);
    }";

/// Runs `test` with a gateway before a node of gRPC; the route has these plugins.
fn with_plugins<F, T>(
    uri: &str,
    plugins: Value,
    answer: impl Fn(Call) -> F + 'static,
    test: impl FnOnce(Rc<Gateway>) -> T,
) where
    F: Future<Output = ()> + 'static,
    T: Future<Output = ()>,
{
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let node = listener.local_addr().expect("an address");
        tokio::task::spawn_local(serve(listener, Arc::new(AtomicUsize::new(0)), plain(), answer));
        let nodes = json!({ node.to_string(): 1 });
        let upstream = json!({"type": "roundrobin", "scheme": "grpc", "nodes": nodes});
        let route = json!({"uri": uri, "plugins": plugins, "upstream": upstream});
        // On a thread of its own: a runtime cannot be ended inside of another.
        let made = std::thread::spawn(|| {
            let proto = json!({ "content": PROTO });
            snapshot_of([(Kind::Route, "r", route), (Kind::Proto, "1", proto)])
        });
        let cell = Arc::new(SnapshotCell::new(made.join().expect("a configuration")));
        test(Rc::new(Gateway::start_with(&cell, Options::default()))).await;
    });
}

fn transcode(method: &str) -> Value {
    json!({"grpc-transcode": {"proto_id": "1", "service": "shop.Orders", "method": method}})
}

fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short message");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// Asks over HTTP/2.
async fn ask(gateway: &Gateway, request: Request<()>, body: &[u8]) -> Answer {
    let client = connect(gateway).await;
    let (response, mut stream) = client.clone().send_request(request, false).expect("a stream");
    stream.send_data(Bytes::copy_from_slice(body), true).expect("an open stream");
    read(response).await.expect("an answer")
}

/// Asks over HTTP/1.0, whose answers end with the connection; gives status and body.
async fn ask_plainly(gateway: &Gateway, head: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(gateway.address).await.expect("a connection");
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.0\r\nHost: h\r\nContent-Type: application/json\r\n\
                        Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.expect("an open connection");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").to_owned();
    (status, body.to_owned())
}

/// Answers with the message that it was sent, once it has looked at the call.
async fn place((request, mut respond): Call) {
    let (parts, mut body) = request.into_parts();
    let body = whole(&mut body).await;
    let value = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let is_call = parts.method == "POST"
        && parts.uri.path() == "/shop.Orders/Place"
        && parts.uri.query().is_none()
        && value("content-type") == Some("application/grpc")
        && value("te") == Some("trailers")
        && value("grpc-accept-encoding").is_none();
    let Ok(mut stream) = respond.send_response(head(), false) else { return };
    let _ = stream.send_data(body.into(), false);
    let _ = stream.send_trailers(trailers(if is_call { "0" } else { "3" }));
}

#[test]
fn json_and_arguments_become_a_call_and_its_answer_json() {
    with_plugins("/order", transcode("Place"), place, async |gateway| {
        let expected = r#"{"name":"a","count":7}"#;
        for _ in 0..3 {
            let (status, body) =
                ask_plainly(&gateway, "POST /order?x=y", r#"{"name":"a","count":7}"#).await;
            assert_eq!((status.as_str(), body.as_str()), ("200", expected));
            let (status, body) = ask_plainly(&gateway, "GET /order?name=a&count=7", "").await;
            assert_eq!((status.as_str(), body.as_str()), ("200", expected));
        }
        let request = Request::put("http://host.test/order")
            .header("content-type", "application/json")
            .header("grpc-accept-encoding", "gzip");
        let request = request.body(()).expect("a request");
        let answer = ask(&gateway, request, br#"{"name":"a","count":"7"}"#).await;
        assert_eq!(answer.body, expected.as_bytes());
        assert_eq!(answer.head.headers()["content-type"], "application/json");
        let (status, body) = ask_plainly(&gateway, "POST /order", r#"{"count":"many"}"#).await;
        assert_eq!(status, "400");
        assert!(body.contains("field count: expected an integer"), "{body}");
    });
}

#[test]
fn a_message_that_takes_long_to_write_arrives_whole() {
    with_plugins("/order", transcode("Place"), place, async |gateway| {
        let name = "long ".repeat(40_000);
        let order = format!("{{\"name\":\"{name}\",\"count\":7}}");
        let (status, body) = ask_plainly(&gateway, "POST /order", &order).await;
        assert_eq!((status.as_str(), body.len()), ("200", order.len()));
        assert!(body == order, "the body is another one");
        // What is behind it on the way is not held up for ever, nor taken for its rest.
        let (status, body) = ask_plainly(&gateway, "GET /order?name=a&count=7", "").await;
        assert_eq!((status.as_str(), body.as_str()), ("200", r#"{"name":"a","count":7}"#));
    });
}

/// Fails with a head alone, as servers do that have sent nothing yet.
async fn fail_at_once((_request, mut respond): Call) {
    let failed = Response::builder()
        .header("content-type", "application/grpc")
        .header("grpc-status", "5")
        .header("grpc-message", "not%20here");
    let _ = respond.send_response(failed.body(()).expect("a head"), true);
}

#[test]
fn a_call_that_fails_has_an_http_status_and_where_wanted_a_body() {
    let mut plugins = transcode("Place");
    with_plugins("/order", plugins.clone(), fail_at_once, async |gateway| {
        let (status, body) = ask_plainly(&gateway, "GET /order", "").await;
        assert_eq!((status.as_str(), body.as_str()), ("404", ""));
    });
    plugins["grpc-transcode"]["show_status_in_body"] = json!(true);
    with_plugins("/order", plugins, fail_at_once, async |gateway| {
        let expected = r#"{"error":{"code":5,"message":"not here"}}"#;
        let (status, body) = ask_plainly(&gateway, "GET /order", "").await;
        assert_eq!((status.as_str(), body.as_str()), ("404", expected));
        let request = Request::get("http://host.test/order").body(()).expect("a request");
        let answer = ask(&gateway, request, b"").await;
        assert_eq!(
            (answer.head.status().as_u16(), answer.body.as_slice()),
            (404, expected.as_bytes())
        );
    });
}

#[test]
fn lines_of_a_stream_come_when_the_node_sends_them() {
    let (go_on, waits) = tokio::sync::watch::channel(false);
    let answer = move |(_, mut respond): Call| {
        let mut waits = waits.clone();
        async move {
            let mut stream = respond.send_response(head(), false).expect("a stream");
            stream.send_data(frame(b"\n\x01a").into(), false).expect("an open stream");
            let _ = waits.wait_for(|goes_on| *goes_on).await;
            stream.send_data(frame(b"\n\x01b").into(), false).expect("an open stream");
            let failed = HeaderMap::from_iter([
                (http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("8")),
                (http::HeaderName::from_static("grpc-message"), HeaderValue::from_static("full")),
            ]);
            stream.send_trailers(failed).expect("an open stream");
        }
    };
    with_plugins("/orders", transcode("Follow"), answer, async move |gateway| {
        let mut stream = TcpStream::connect(gateway.address).await.expect("a connection");
        stream.write_all(b"GET /orders HTTP/1.0\r\nHost: h\r\n\r\n").await.expect("a connection");
        let mut got = Vec::new();
        let first = br#"{"name":"a","count":0}"#;
        while !got.windows(first.len() + 1).any(|part| part == [first.as_slice(), b"\n"].concat()) {
            assert_ne!(stream.read_buf(&mut got).await.expect("an answer"), 0);
        }
        go_on.send_replace(true);
        stream.read_to_end(&mut got).await.expect("an answer");
        let text = String::from_utf8(got).expect("text");
        assert!(text.contains("Content-Type: application/x-ndjson\r\n"), "{text}");
        let lines = "{\"name\":\"a\",\"count\":0}\n{\"name\":\"b\",\"count\":0}\n\
                     {\"error\":{\"code\":8,\"message\":\"full\"}}\n";
        assert!(text.ends_with(&format!("\r\n\r\n{lines}")), "{text}");
    });
}

#[test]
fn a_deadline_ends_the_call_at_a_silent_node_too() {
    let mut plugins = transcode("Place");
    plugins["grpc-transcode"]["deadline"] = json!(20);
    let never = |call: Call| async move {
        let _call = call;
        std::future::pending::<()>().await;
    };
    with_plugins("/order", plugins, never, async |gateway| {
        let (status, _) = ask_plainly(&gateway, "GET /order", "").await;
        assert_eq!(status, "504");
    });
}

#[test]
fn a_node_that_gives_up_at_the_deadline_has_not_failed() {
    let mut plugins = transcode("Place");
    plugins["grpc-transcode"]["deadline"] = json!(20);
    // As servers do that keep deadlines: they end the stream without a word.
    let gives_up = |(_, mut respond): Call| async move {
        let deadline = std::time::Instant::now() + std::time::Duration::from_millis(20);
        while std::time::Instant::now() < deadline {
            tokio::task::yield_now().await;
        }
        respond.send_reset(h2::Reason::CANCEL);
    };
    with_plugins("/order", plugins, gives_up, async |gateway| {
        for _ in 0..5 {
            let (status, _) = ask_plainly(&gateway, "GET /order", "").await;
            assert_eq!(status, "504");
        }
    });
}

fn web(content_type: &str) -> Request<()> {
    let request = Request::post("http://host.test/web/shop.Orders/Place");
    request.header("content-type", content_type).body(()).expect("a request")
}

#[test]
fn a_browser_calls_in_binary_and_in_text() {
    let plugins = json!({"grpc-web": {}});
    let sent = frame(b"\n\x01a");
    with_plugins("/web/*", plugins, place, async |gateway| {
        let answer = ask(&gateway, web("application/grpc-web+proto"), &sent).await;
        let last = b"grpc-status:0\r\nx-note:from the node\r\n";
        let last = [&[0x80, 0, 0, 0, u8::try_from(last.len()).expect("short")], &last[..]].concat();
        assert_eq!(answer.body, [sent.as_slice(), &last].concat());
        let headers = answer.head.headers();
        assert_eq!(headers["content-type"], "application/grpc-web+proto");
        assert_eq!(headers["access-control-allow-origin"], "*");
        assert_eq!(headers["access-control-expose-headers"], "grpc-message,grpc-status");
        assert!(answer.trailers.is_empty(), "{:?}", answer.trailers);
        let answer = ask(&gateway, web("application/grpc-web-text"), b"AAAAAAMKAWE=").await;
        let text = String::from_utf8(answer.body).expect("text");
        assert!(text.starts_with("AAAAAAMKAWE=gAAAA"), "{text}");
        let (status, _) = ask_plainly(&gateway, "GET /web/shop.Orders/Place", "").await;
        assert_eq!(status, "405");
    });
}

#[test]
fn a_failed_call_of_a_browser_has_its_status_in_the_head() {
    with_plugins("/web/*", json!({"grpc-web": {}}), fail_at_once, async |gateway| {
        let answer = ask(&gateway, web("application/grpc-web"), &frame(b"")).await;
        let headers = answer.head.headers();
        assert_eq!(headers["grpc-status"], "5");
        assert_eq!(answer.head.status(), 200);
        assert_eq!(headers["content-type"], "application/grpc-web");
        assert!(answer.body.is_empty());
    });
}
