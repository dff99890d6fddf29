//! Exchanges with servers that answer in every way, over sockets of this machine.

use std::net::SocketAddr;

use hyper::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tollhouse_testkit::ClosedPort;

use super::*;

const LIMITS: Limits = Limits { time_max: Duration::from_secs(10), body_bytes_max: 1 << 10 };

/// Reads a request head without a body.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).expect("text"))
}

/// Serves connections one by one: each gets these responses, one for a request, and ends. Returns
/// the heads of the requests, by connection.
async fn server(connections: Vec<Vec<String>>) -> (SocketAddr, JoinHandle<Vec<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let serving = tokio::spawn(async move {
        let mut all = Vec::new();
        for responses in connections {
            let (mut stream, _) = listener.accept().await.expect("a client comes");
            let mut heads = Vec::new();
            for response in responses {
                let Some(head) = head(&mut stream).await else { break };
                heads.push(head);
                let _ = stream.write_all(response.as_bytes()).await;
            }
            all.push(heads);
        }
        all
    });
    (address, serving)
}

fn get(uri: &str) -> Request<Bytes> {
    Request::get(uri).body(Bytes::new()).expect("a request")
}

fn with_length(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_request_names_its_server_and_closes_its_connection() {
    let (address, serving) = server(vec![vec![with_length("yes")]]).await;
    let uri = format!("http://user:password@{address}/a?b");
    let response = Client::new(LIMITS).send(get(&uri)).await.expect("an answer");
    assert_eq!((response.status(), &response.body()[..]), (StatusCode::OK, &b"yes"[..]));
    let heads = serving.await.expect("no panic").concat().concat();
    assert_eq!(heads, format!("GET /a?b HTTP/1.1\r\nconnection: close\r\nhost: {address}\r\n\r\n"));
}

#[tokio::test]
async fn a_response_outside_the_limits_is_refused() {
    let lines = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(HEADER_LINES_MAX + 1));
    let long_line = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    for (response, expected) in [
        (with_length(&"y".repeat(1 << 10)), "Ok"),
        (with_length(&"y".repeat((1 << 10) + 1)), "the answer cannot be read"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_owned(), "cannot be read"),
        ("SSH-2.0-OpenSSH\r\n".to_owned(), "missing or incomplete answer"),
        (String::new(), "missing or incomplete answer"),
        (lines, "missing or incomplete answer"),
        (long_line, "missing or incomplete answer"),
    ] {
        let (address, _serving) = server(vec![vec![response]]).await;
        let answered = Client::new(LIMITS).send(get(&format!("http://{address}/"))).await;
        let text = answered.map_or_else(|error| error.to_string(), |_| "Ok".to_owned());
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_is_silent_or_absent_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let silent = listener.local_addr().expect("bound");
    let soon = Limits { time_max: Duration::from_millis(10), ..LIMITS };
    let answered = Client::new(soon).send(get(&format!("http://{silent}/"))).await;
    assert!(matches!(answered, Err(ClientError::Timeout(_))), "{answered:?}");
    let closed = ClosedPort::new();
    let answered = Client::new(LIMITS).send(get(&format!("http://{}/", closed.address()))).await;
    assert!(matches!(answered, Err(ClientError::Connect(_))), "{answered:?}");
    let answered = Client::new(LIMITS).send(get("/")).await;
    assert!(matches!(answered, Err(ClientError::Address)), "{answered:?}");
}

#[tokio::test]
async fn a_session_keeps_its_connection_and_replaces_one_that_has_ended() {
    let yes = || with_length("yes");
    let (address, serving) = server(vec![vec![yes(), yes()], vec![yes()]]).await;
    let server = format!("http://{address}").parse().expect("an address");
    let mut session = Session::new(Client::new(LIMITS), server);
    for path in ["/1", "/2", "/3"] {
        let response = session.send(get(path)).await.expect("an answer");
        assert_eq!(&response.body()[..], b"yes", "{path}");
        // The connection is driven until its end is seen, if the server has ended it.
        while path == "/2" && session.sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            tokio::task::yield_now().await;
        }
    }
    let counts: Vec<usize> = serving.await.expect("no panic").iter().map(Vec::len).collect();
    assert_eq!(counts, [2, 1]);
}
