//! WebSocket and TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use tollhouse_mock::{Behaviour, Tls};

use super::{few, measure, mock, try_run};

/// A server that does the same with every connection; it lives as long as the test's process.
fn server(serve: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let serve = std::sync::Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = std::sync::Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn echo() -> SocketAddr {
    server(|mut stream| {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            // In pieces, as networks deliver.
            for piece in bytes[..count].chunks(3) {
                if stream.write_all(piece).is_err() {
                    return;
                }
            }
        }
    })
}

#[test]
fn a_websocket_message_comes_back() {
    let mock = mock(Behaviour::default());
    for message in ["", "hello", &"long ".repeat(20_000)] {
        let mut case = few(format!("ws://{}/chat", mock.address()));
        case.load.connections = 3;
        case.message = message.into();
        let result = measure(&case);
        assert_eq!((result.counts.succeeded, result.counts.failed), (20, 0));
        assert_eq!(result.counts.connections_opened, 3);
    }
}

#[test]
fn a_websocket_goes_over_tls_and_ends_after_each_message_when_asked_to() {
    let mock = mock(Behaviour { tls: Tls::SelfSigned, ..Behaviour::default() });
    let mut case = few(format!("wss://{}/", mock.address()));
    case.tls.insecure = true;
    case.load.keep_alive = false;
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.reused), (20, 0));
    assert_eq!(result.counts.connections_opened, 20);
}

#[test]
fn what_is_no_echo_or_no_websocket_is_named() {
    let mock = mock(Behaviour::default());
    let mut case = few(format!("ws://{}/", mock.address()));
    case.message = "hello".into();
    case.checks.body_contains = Some("bye".into());
    let error = try_run(&case).expect_err("another text").to_string();
    assert!(error.contains("body without \"bye\""), "{error}");
    let plain = server(|mut stream| {
        let mut bytes = [0; 4096];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    });
    let error = try_run(&few(format!("ws://{plain}/"))).expect_err("no WebSocket").to_string();
    assert!(error.contains("status 404 instead of 101"), "{error}");
}

#[test]
fn tcp_bytes_come_back() {
    let mut case = few(format!("tcp://{}", echo()));
    case.message = "ping over tcp".into();
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.reused), (20, 19));
    assert_eq!(result.counts.body_bytes, 20 * 13);
    case.load.keep_alive = false;
    assert_eq!(measure(&case).counts.connections_opened, 20);
}

#[test]
fn without_a_message_connecting_is_what_is_measured() {
    let case = few(format!("tcp://{}", echo()));
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.failed), (20, 0));
    assert!(result.counts.connections_opened >= 20);
    assert_eq!(result.connect.count, result.counts.connections_opened);
}

#[test]
fn a_connection_that_ends_before_all_bytes_are_back_is_a_failure() {
    let short = server(|mut stream| {
        let mut bytes = [0; 4096];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(b"pi");
    });
    let mut case = few(format!("tcp://{short}"));
    case.message = "ping".into();
    let error = try_run(&case).expect_err("never whole").to_string();
    assert!(error.contains("connection closed after 2 of 4 bytes"), "{error}");
}
