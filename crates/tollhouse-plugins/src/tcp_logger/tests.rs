//! Batches of tcp-logger, as a TCP server in the test reads them.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;
use tollhouse_testkit::patience::wait_for;

use super::*;
use crate::logging::test_logger::{TestLogger, TlsDelivery, TlsServer};

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    (listener, address)
}

fn conf(address: SocketAddr, more: &Value) -> Value {
    // Only the size closes a batch, however slowly the machine runs.
    let mut conf = json!({
        "host": address.ip().to_string(), "port": address.port(), "log_format": {"a": "$uri"},
        "inactive_timeout": 3600, "buffer_duration": 3600, "timeout": 60_000, "retry_delay": 0,
    });
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    conf
}

/// Text of the next connection, to its end.
fn next(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an orderly end");
    text
}

#[test]
fn a_batch_is_an_array_and_a_single_entry_an_object() {
    let (first, second) = (r#"{"a":"/1","route_id":"r1"}"#, r#"{"a":"/2","route_id":"r1"}"#);
    for (size, expected) in
        [(1, vec![first.to_owned(), second.to_owned()]), (2, vec![format!("[{first},{second}]")])]
    {
        let (listener, address) = listener();
        let conf = conf(address, &json!({"batch_max_size": size}));
        let mut logger = TestLogger::new::<TcpLogger>(&conf, None);
        logger.log("GET /1 HTTP/1.1\n\n");
        logger.log("GET /2 HTTP/1.1\n\n");
        for expected in expected {
            assert_eq!(next(&listener), expected);
        }
    }
}

#[test]
fn long_batches_arrive_whole() {
    let (listener, address) = listener();
    let more = json!({"batch_max_size": 1, "include_req_body": true, "max_req_body_bytes": 1 << 20,
        "log_format": {"body": "$request_body"}});
    let mut logger = TestLogger::new::<TcpLogger>(&conf(address, &more), None);
    let body = "x".repeat(300_000);
    logger.log(&format!("POST / HTTP/1.1\nContent-Length: {}\n\n{body}", body.len()));
    let entry: Value = serde_json::from_str(&next(&listener)).expect("JSON");
    assert_eq!(entry["body"].as_str().map(str::len), Some(body.len()));
}

#[test]
fn metadata_gives_the_format() {
    let (listener, address) = listener();
    let mut conf = conf(address, &json!({"batch_max_size": 1}));
    conf.as_object_mut().unwrap().remove("log_format");
    let metadata = json!({"log_format": {"from": "metadata"}});
    let mut logger = TestLogger::new::<TcpLogger>(&conf, Some(&metadata));
    logger.log("GET /1 HTTP/1.1\n\n");
    assert_eq!(next(&listener), r#"{"from":"metadata","route_id":"r1"}"#);
}

#[test]
fn a_batch_that_is_not_taken_is_tried_again_then_lost() {
    let (listener, address) = listener();
    drop(listener);
    let more = json!({"batch_max_size": 2, "max_retry_count": 1});
    let mut logger = TestLogger::new::<TcpLogger>(&conf(address, &more), None);
    logger.log("GET /1 HTTP/1.1\n\n");
    logger.log("GET /2 HTTP/1.1\n\n");
    wait_for("the loss", || (logger.services.queues.lost() == 2).then_some(()));
}

#[test]
fn tls_names_the_server_and_ends_in_order() {
    for (options, expected) in
        [(json!({"tls_options": "logs.test"}), Some("logs.test")), (json!({}), None)]
    {
        let server = TlsServer::new();
        let mut conf = conf(server.address, &json!({"batch_max_size": 1, "tls": true}));
        conf.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let mut logger = TestLogger::new::<TcpLogger>(&conf, None);
        let received = server.serve(&logger.runtime);
        logger.log("GET /1 HTTP/1.1\n\n");
        let text = r#"{"a":"/1","route_id":"r1"}"#.to_owned();
        let server_name = expected.map(str::to_owned);
        let expected = TlsDelivery { server_name, text, is_ended: true };
        assert_eq!(received.recv().expect("a batch"), expected);
    }
}

#[test]
fn bad_confs_are_refused() {
    for (conf, inner) in [
        (json!({"port": 1}), r#"property "host" is required"#),
        (json!({"host": "a"}), r#"property "port" is required"#),
        (json!({"host": "a", "port": -1}), "expected -1 to be at least 0"),
        (json!({"host": "a", "port": 1, "timeout": "10"}), "expected integer, got string"),
        (json!({"host": "a", "port": 1, "timeout": 0}), "expected 0 to be at least 1"),
        (
            json!({"host": "a", "port": 1, "tls": true, "tls_options": "a name"}),
            r#"invalid server name "a name" for the TLS handshake"#,
        ),
    ] {
        let refusal = Harness::refusal::<TcpLogger>(&conf);
        assert!(refusal.ends_with(inner), "{refusal}");
    }
    let kind = PluginType::new::<TcpLogger>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
    assert!(kind.check_metadata(&json!({"log_format": "text"})).is_err());
}
