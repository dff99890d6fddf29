//! HTTP/1: persistence, pipelining, bodies, HEAD, interim answers, refusals; statuses and rates.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use tollhouse_mock::{Behaviour, Body, Latency, Share, Stall};

use super::{connect, exchange, start};

const HEAD: &str = "HTTP/1.1 200 OK\r\nserver: tollhouse-mock\r\ncontent-type: text/plain\r\n";

fn answer(length: usize, line: &str, body: &str) -> String {
    format!("{HEAD}content-length: {length}\r\n{line}\r\n{body}")
}

fn ok(line: &str) -> String {
    answer(2, line, "ok")
}

const CLOSE: &str = "connection: close\r\n";
const KEEP: &str = "connection: keep-alive\r\n";

#[test]
fn requests_are_answered_as_they_ask() {
    let mock = start(Behaviour::default());
    let last = "GET /b HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    for (case, request, expected) in [
        ("close", last.to_owned(), ok(CLOSE)),
        ("http/1.0", "GET / HTTP/1.0\r\n\r\n".to_owned(), ok(CLOSE)),
        (
            "http/1.0 with keep-alive",
            format!("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n{last}"),
            ok(KEEP) + &ok(CLOSE),
        ),
        (
            "pipelined",
            format!("{}{last}", "GET /a HTTP/1.1\r\nhost: a\r\n\r\n".repeat(3)),
            ok("").repeat(3) + &ok(CLOSE),
        ),
        (
            "head",
            format!("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n{last}"),
            answer(2, "", "") + &ok(CLOSE),
        ),
        (
            "body",
            format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello{last}"),
            ok("") + &ok(CLOSE),
        ),
        (
            "chunked body",
            format!(
                "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
                 5\r\nhello\r\n0\r\na: b\r\n\r\n{last}"
            ),
            ok("") + &ok(CLOSE),
        ),
    ] {
        assert_eq!(exchange(&mock, request.as_bytes()), expected, "{case}");
    }
    assert_eq!((mock.requests(), mock.connections()), (14, 7));
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let mock = start(Behaviour { body: Body::Echo, ..Behaviour::default() });
    let mut stream = connect(&mock);
    stream.set_nodelay(true).expect("tcp");
    let request =
        b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\
                    content-type: a/b\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    for byte in request {
        stream.write_all(&[*byte]).expect("sent");
    }
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    assert!(text.contains("content-type: a/b\r\ncontent-length: 3\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\nabc"), "{text}");
}

#[test]
fn a_client_that_waits_for_a_100_gets_one() {
    let mock = start(Behaviour { body: Body::Echo, ..Behaviour::default() });
    let mut stream = connect(&mock);
    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\n\
                content-length: 4\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).expect("an interim answer");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nbody"), "{text}");
}

#[test]
fn what_is_malformed_is_refused_and_counted() {
    let mock = start(Behaviour::default());
    for request in [
        "GET / HTTP/1.1\r\n\r\n",
        "nonsense\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
    ] {
        let text = exchange(&mock, request.as_bytes());
        assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{request}: {text}");
    }
    assert_eq!(mock.totals().malformed, 3);
}

#[test]
fn one_path_is_answered_where_one_is_asked_for() {
    let mock = start(Behaviour::ngxway());
    for (path, status) in
        [("/api/test", "200 OK"), ("/api/test?sign=1", "200 OK"), ("/", "404 Not Found")]
    {
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        let text = exchange(&mock, request.as_bytes());
        assert!(text.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{path}: {text}");
    }
}

#[test]
fn a_long_body_arrives_whole() {
    let body = Body::with_length(3_000_000).expect("length");
    let Body::Bytes(bytes) = body.clone() else { panic!("bytes") };
    let mock = start(Behaviour { body, ..Behaviour::default() });
    let two = "GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.0\r\n\r\n";
    let text = exchange(&mock, two.as_bytes());
    let bytes = std::str::from_utf8(&bytes).expect("text");
    let expected = answer(3_000_000, "", bytes) + &answer(3_000_000, CLOSE, bytes);
    assert!(text == expected, "{} bytes", text.len());
}

#[test]
fn statuses_errors_and_resets_come_in_their_shares() {
    const REQUESTS: u64 = 2_000;
    let mock = start(Behaviour {
        statuses: "200=3,503=1".parse().expect("statuses"),
        error_rate: Share::new(0.1),
        ..Behaviour::default()
    });
    let mut request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(REQUESTS as usize - 1);
    request.push_str("GET / HTTP/1.0\r\n\r\n");
    let text = exchange(&mock, request.as_bytes());
    let count = |status: &str| text.matches(&format!("HTTP/1.1 {status}")).count() as u64;
    let (good, unavailable, errors) = (count("200"), count("503"), count("500"));
    assert_eq!(good + unavailable + errors, REQUESTS);
    assert_eq!((mock.requests(), mock.totals().errors), (REQUESTS, errors));
    for (count, expected) in [(good, 1_350_u64), (unavailable, 450), (errors, 200)] {
        assert!(count.abs_diff(expected) < 80, "{good} {unavailable} {errors}");
    }
}

#[test]
fn a_reset_is_seen_as_one() {
    let mock = start(Behaviour { reset_rate: Share::new(1.0), ..Behaviour::default() });
    let mut stream = connect(&mock);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("sent");
    let error = stream.read(&mut [0]).expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!((mock.requests(), mock.totals().resets), (1, 1));
}

#[test]
fn no_answer_comes_before_its_time() {
    let latency = Duration::from_millis(20);
    let mock = start(Behaviour { latency: Latency::fixed(latency), ..Behaviour::default() });
    let begun = Instant::now();
    let two = "GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.0\r\n\r\n";
    assert_eq!(exchange(&mock, two.as_bytes()), ok("") + &ok(CLOSE));
    assert!(begun.elapsed() >= 2 * latency);
}

#[test]
fn a_stall_holds_all_answers_back() {
    let length = Duration::from_millis(50);
    let stall = Some(Stall { after: Duration::ZERO, length });
    let mock = start(Behaviour { stall, ..Behaviour::default() });
    let begun = Instant::now();
    assert_eq!(exchange(&mock, b"GET / HTTP/1.0\r\n\r\n"), ok(CLOSE));
    assert!(begun.elapsed() >= length);
    // It stands still once.
    assert_eq!(exchange(&mock, b"GET / HTTP/1.0\r\n\r\n"), ok(CLOSE));
}
