//! The client of plugins against a small server: replies, reuse, limits, failures.

use tollhouse_testkit::ClosedPort;

use super::*;
use crate::shared::test_server::{TestServer, body, header, reply};

fn client(reuse: Reuse) -> HttpClient {
    HttpClient::new(Duration::from_secs(5), Verification::Off, reuse)
}

fn kept() -> HttpClient {
    client(Reuse::For { idle: Duration::from_secs(60), connections_max: 5 })
}

fn call(method: &str, path: &str, body: &str) -> Call {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let headers = Vec::new();
    Call { method: method.into(), path: path.into(), headers, body, repeat: Repeat::ByMethod }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(future)
}

#[test]
fn a_request_arrives_as_it_was_said() {
    let server = TestServer::start(|_| reply(201, "X-A: 1\r\nX-A: 2\r\n", "made"));
    let target = Target::parse(&server.url("/")).unwrap();
    let mut call = call("POST", "/a?b=%20c", "hello");
    call.headers = vec![
        ("X-One".into(), b"1".to_vec()),
        ("X-One".into(), b"2".to_vec()),
        // The client's own business, or nobody's.
        ("Content-Length".into(), b"77".to_vec()),
        ("Connection".into(), b"close".to_vec()),
        ("X Bad".into(), b"1".to_vec()),
        ("X-Bad".into(), b"1\r\nX-Smuggled: 2".to_vec()),
    ];
    let reply = run(kept().send(&target, call)).unwrap();
    assert_eq!((reply.status, &reply.body[..]), (201, &b"made"[..]));
    assert_eq!(reply.values("x-a").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(reply.values("no such name").count(), 0);
    let request = server.next_request();
    assert!(request.starts_with("POST /a?b=%20c HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("X-One: 1\r\nX-One: 2\r\n"), "{request}");
    assert!(!request.contains("Bad") && !request.contains("Smuggled"), "{request}");
    assert_eq!(header(&request, "host"), Some(target.authority.as_str()));
    assert_eq!(header(&request, "content-length"), Some("5"));
    assert_eq!(body(&request), "hello");
}

#[test]
fn an_empty_body_is_declared_where_one_is_expected() {
    for (method, length) in
        [("POST", Some("0")), ("PUT", Some("0")), ("GET", None), ("DELETE", None)]
    {
        let server = TestServer::ok();
        let target = Target::parse(&server.url("/")).unwrap();
        run(kept().send(&target, call(method, "/", ""))).unwrap();
        assert_eq!(header(&server.next_request(), "content-length"), length, "{method}");
    }
}

#[test]
fn a_connection_serves_again_where_it_may() {
    for (client, connections) in [(kept(), 1), (client(Reuse::Never), 3)] {
        let server = TestServer::ok();
        let target = Target::parse(&server.url("/")).unwrap();
        run(async {
            for _ in 0..3 {
                client.send(&target, call("GET", "/", "")).await.unwrap();
            }
        });
        assert_eq!(server.connections(), connections);
    }
}

#[test]
fn a_kept_connection_that_broke_is_replaced() {
    // Every second request on a connection finds it closed.
    let server = TestServer::start(|request| {
        if request.contains("/last") { String::new() } else { reply(200, "", "") }
    });
    let target = Target::parse(&server.url("/")).unwrap();
    run(async {
        kept().send(&target, call("GET", "/", "")).await.unwrap();
        let broken = kept().send(&target, call("GET", "/last", "")).await;
        assert!(matches!(broken, Err(ClientError::Exchange(_))), "{broken:?}");
        kept().send(&target, call("GET", "/", "")).await.unwrap();
    });
    // The broken one was tried on the kept connection and on a new one.
    assert_eq!(server.connections(), 3);
}

#[test]
fn what_a_server_may_have_acted_upon_is_not_sent_again() {
    for (repeat, connections) in [(Repeat::ByMethod, 1), (Repeat::Always, 2)] {
        let server = TestServer::start(|request| {
            if request.contains("/last") { String::new() } else { reply(200, "", "") }
        });
        let target = Target::parse(&server.url("/")).unwrap();
        let last = Call { repeat, ..call("POST", "/last", "pay") };
        run(async {
            kept().send(&target, call("GET", "/", "")).await.unwrap();
            let broken = kept().send(&target, last).await;
            assert!(matches!(broken, Err(ClientError::Exchange(_))), "{broken:?}");
        });
        assert_eq!(server.connections(), connections, "{repeat:?}");
    }
}

#[test]
fn what_cannot_be_reached_is_an_error() {
    let closed = ClosedPort::new();
    let nobody = Target::parse(&format!("http://{}/", closed.address())).unwrap();
    let refused = run(kept().send(&nobody, call("GET", "/", "")));
    assert!(matches!(refused, Err(ClientError::Connect(_))), "{refused:?}");
    let bad = run(kept().send(&nobody, call("G T", "/", "")));
    assert!(bad.is_err());
}

#[test]
fn a_silent_server_costs_no_more_than_the_timeout() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = Target::parse(&format!("http://{address}/")).unwrap();
    let client = HttpClient::new(Duration::from_millis(20), Verification::Off, Reuse::Never);
    let silent = run(client.send(&target, call("GET", "/", "")));
    assert!(matches!(silent, Err(ClientError::Timeout)), "{silent:?}");
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let server = TestServer::start(|_| {
        let body = "x".repeat(REPLY_BYTES_MAX + 1);
        reply(200, "", &body)
    });
    let target = Target::parse(&server.url("/")).unwrap();
    let endless = run(kept().send(&target, call("GET", "/", "")));
    assert!(matches!(endless, Err(ClientError::TooLarge(REPLY_BYTES_MAX))), "{endless:?}");
}
