//! Responders of every kind, over sockets of this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use tollhouse_testkit::ClosedPort;

use super::*;

/// A responder that says `answer` to each request, whose last byte it has read, and stays open where it is
/// to.
fn responder(answer: Vec<u8>, stays_open: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut read = Vec::new();
            while !read.ends_with(b"question") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("the request comes whole");
                read.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&read).into_owned();
            assert!(head.starts_with("POST /a?b HTTP/1.1\r\n"), "{head}");
            assert!(head.contains(&format!("host: {address}\r\n")), "{head}");
            assert!(head.contains("content-type: application/ocsp-request\r\n"), "{head}");
            // Whoever has heard enough is gone.
            let _ = stream.write_all(&answer);
            if stays_open {
                let _ = stream.read(&mut [0]);
            }
        }
    });
    address
}

async fn ask(answer: impl Into<Vec<u8>>, stays_open: bool) -> Result<Vec<u8>, String> {
    let address = responder(answer.into(), stays_open);
    exchange(&format!("http://{address}/a?b"), b"question".to_vec()).await
}

fn with_length(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn an_answer_is_read_to_its_end_and_no_further_than_it_may_be_long() {
    let longest = vec![7; ANSWER_BYTES_MAX];
    let read = ask(with_length("200 OK", &longest), true).await;
    assert!(read.is_ok_and(|read| read == longest));
    // Without a length, it ends with the connection.
    assert_eq!(ask("HTTP/1.0 200 OK\r\n\r\nanswer", false).await, Ok(b"answer".to_vec()));
    let too_long = vec![7; ANSWER_BYTES_MAX + 1];
    let endless = [b"HTTP/1.0 200 OK\r\n\r\n".to_vec(), vec![7; 4 << 20]].concat();
    for answer in [with_length("200 OK", &too_long), endless] {
        let refused = ask(answer, true).await.expect_err("it is too long");
        assert!(refused.contains("the answer cannot be read"), "{refused}");
    }
}

#[tokio::test]
async fn what_is_no_answer_says_what_it_was() {
    let redirect =
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    let many_lines = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(100));
    let long_line = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    for (answer, expected) in [
        (with_length("404 Not Found", b"none"), "status 404"),
        (redirect.to_vec(), "status 302"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec(), "cannot be read"),
        (b"SSH-2.0-OpenSSH\r\n".to_vec(), "missing or incomplete"),
        (Vec::new(), "missing or incomplete"),
        (many_lines.into_bytes(), "missing or incomplete"),
        (long_line.into_bytes(), "missing or incomplete"),
    ] {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(40)]).into_owned();
        let refused = ask(answer, false).await.expect_err("it is none");
        assert!(refused.contains(expected), "{shown}: {refused}");
    }
}

#[tokio::test]
async fn an_address_that_is_none_is_not_asked() {
    let long = format!("http://{}.test/", "a".repeat(300));
    let closed = ClosedPort::new();
    let address = closed.address();
    for uri in [
        "http://",
        "http:///path",
        "http://a b/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:1/\r\nHost: other",
        &long,
        &format!("http://{address}/"),
    ] {
        assert!(exchange(uri, b"question".to_vec()).await.is_err(), "{uri:?}");
    }
}
