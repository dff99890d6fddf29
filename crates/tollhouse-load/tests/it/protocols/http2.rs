//! HTTP/2: streams on shared connections, TLS, GOAWAY, resets, what is no HTTP/2.

use tollhouse_load::case::Body as CaseBody;
use tollhouse_mock::{Behaviour, Body, Tls};

use super::server::{Plan, Server, http1_server};
use super::{few, measure, mock, try_run};

#[test]
fn streams_share_connections() {
    let mock = mock(Behaviour::default());
    let mut case = few(format!("h2c://{}/", mock.address()));
    case.load.connections = 2;
    case.load.streams = 5;
    case.load.requests = Some(200);
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.failed), (200, 0));
    assert_eq!(result.counts.statuses["200"], 200);
    assert_eq!(result.counts.body_bytes, 400);
    assert_eq!(result.counts.reused, 198);
    let is_server = |line: &&(String, String)| line.0 == "server";
    assert!(result.first_head.iter().any(|line| is_server(&line)), "{:?}", result.first_head);
    // One more was opened to try the target.
    assert_eq!(mock.connections(), 3);
    assert!(
        result.counts.sent_bytes > 0 && result.counts.received_bytes > result.counts.body_bytes
    );
}

#[test]
fn without_keep_alive_every_request_has_its_connection() {
    let mock = mock(Behaviour::default());
    let mut case = few(format!("h2c://{}/", mock.address()));
    case.load.streams = 2;
    case.load.keep_alive = false;
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.reused), (20, 0));
    assert_eq!(result.counts.connections_opened, 20);
}

#[test]
fn bodies_go_both_ways_and_are_checked() {
    let mock = mock(Behaviour { body: Body::Echo, ..Behaviour::default() });
    let mut case = few(format!("h2c://{}/echo", mock.address()));
    case.http.method = "POST".into();
    // Beyond the windows that HTTP/2 starts with.
    case.http.body = Some(CaseBody::Text("x".repeat(300_000)));
    case.checks.body_bytes = Some(300_000);
    assert_eq!(measure(&case).counts.succeeded, 20);
    case.checks.body_contains = Some("y".into());
    let error = try_run(&case).expect_err("no body has it").to_string();
    assert!(error.contains("body without \"y\""), "{error}");
}

#[test]
fn requests_are_filled_in() {
    let mock = mock(Behaviour { body: Body::Echo, ..Behaviour::default() });
    let mut case = few(format!("h2c://{}/", mock.address()));
    case.http.method = "POST".into();
    case.http.template = true;
    case.http.body = Some(CaseBody::Text("number {{.RequestNumber}} of {{.WorkerID}}".into()));
    case.checks.body_matches = Some(r"^number \d+ of w0c0$".into());
    assert_eq!(measure(&case).counts.succeeded, 20);
}

#[test]
fn over_tls_the_protocol_is_agreed_on() {
    let mock = mock(Behaviour { tls: Tls::SelfSigned, ..Behaviour::default() });
    let mut case = few(format!("https://{}/", mock.address()));
    case.protocol = Some(tollhouse_load::case::Protocol::Http2);
    case.tls.insecure = true;
    assert_eq!(measure(&case).counts.succeeded, 20);
}

#[test]
fn a_goaway_moves_the_load_to_a_new_connection() {
    let server = Server::start(Plan { answers_a_connection: 7, ..Plan::default() });
    let mut case = few(format!("h2c://{}/", server.address()));
    case.load.streams = 3;
    case.load.requests = Some(60);
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.failed), (60, 0));
    // Streams under way when the connection ends are answered on it, so that it may answer a few more.
    assert!((5..=9).contains(&result.counts.connections_opened), "{:?}", result.counts);
}

#[test]
fn refused_streams_are_sent_again_and_reset_ones_are_failures() {
    let refusing = Server::start(Plan { refuse_every: 5, ..Plan::default() });
    let result = measure(&few(format!("h2c://{}/", refusing.address())));
    assert_eq!((result.counts.succeeded, result.counts.failed), (20, 0));
    let resetting = Server::start(Plan { reset_every: 5, ..Plan::default() });
    let result = measure(&few(format!("h2c://{}/", resetting.address())));
    assert_eq!((result.counts.succeeded, result.counts.failed), (16, 4));
    assert_eq!(result.counts.failures["reset"], 4);
    assert_eq!(result.counts.messages["stream reset: INTERNAL_ERROR"], 4);
}

#[test]
fn a_stream_without_an_answer_times_out_and_its_connection_goes_on() {
    let silent = Server::start(Plan { silent_every: 5, ..Plan::default() });
    let mut case = few(format!("h2c://{}/", silent.address()));
    case.load.streams = 4;
    case.load.timeout = std::time::Duration::from_secs(2);
    let result = measure(&case);
    assert_eq!((result.counts.succeeded, result.counts.failed), (16, 4));
    assert_eq!(result.counts.failures["timeout"], 4);
    assert_eq!(result.counts.connections_opened, 1);
}

#[test]
fn a_target_that_does_not_speak_http2_is_named() {
    let server = http1_server();
    let error = try_run(&few(format!("h2c://{server}/"))).expect_err("no HTTP/2").to_string();
    assert!(error.contains("cannot be measured") && error.contains("HTTP/2"), "{error}");
}
