//! Messages of syslog, as servers in the test receive them.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;

use super::*;
use crate::logging::test_logger::TestLogger;

fn logger(port: u16, more: &Value) -> TestLogger {
    // Only the size closes a batch, however slowly the machine runs.
    let mut conf = json!({
        "host": "127.0.0.1", "port": port, "log_format": {"a": "$uri"}, "timeout": 60_000,
        "inactive_timeout": 3600, "buffer_duration": 3600, "batch_max_size": 2,
    });
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    TestLogger::new::<Syslog>(&conf, None)
}

fn message(host: &str, path: &str) -> String {
    let process = std::process::id();
    format!(
        r#"<46>1 2023-11-14T22:13:20.000Z {host} tollhouse {process} - - {{"a":"{path}","route_id":"r1"}}"#
    )
}

#[test]
fn over_tcp_messages_are_lines() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("a bound socket").port();
    let mut logger = logger(port, &json!({}));
    logger.log("GET /1 HTTP/1.1\nHost: one.test:81\n\n");
    logger.log("GET /2 HTTP/1.1\nHost: two.test\n\n");
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an orderly end");
    assert_eq!(text, format!("{}\n{}\n", message("one.test", "/1"), message("two.test", "/2")));
}

#[test]
fn over_udp_each_message_is_a_datagram() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("a bound socket").port();
    // `tls` means nothing here.
    let mut logger = logger(port, &json!({"sock_type": "udp", "tls": true}));
    logger.log("GET /1 HTTP/1.1\nHost: one.test\n\n");
    logger.log("GET /2 HTTP/1.1\nHost: two.test\n\n");
    for (host, path) in [("one.test", "/1"), ("two.test", "/2")] {
        let mut bytes = [0; 1024];
        let count = socket.recv(&mut bytes).expect("a datagram");
        assert_eq!(String::from_utf8_lossy(&bytes[..count]), message(host, path));
    }
}

#[test]
fn bad_confs_are_refused() {
    for (conf, inner) in [
        (json!({"port": 1}), r#"property "host" is required"#),
        (json!({"host": "a"}), r#"property "port" is required"#),
        (json!({"host": "a", "port": 1, "sock_type": "unix"}), "matches none of the enum values"),
        (json!({"host": "a", "port": 1, "pool_size": 4}), "expected 4 to be at least 5"),
        (json!({"host": "a", "port": 1, "flush_limit": 0}), "expected 0 to be at least 1"),
        (json!({"host": "a b", "port": 1, "tls": true}), r#"invalid server name "a b" for TLS"#),
    ] {
        let refusal = Harness::refusal::<Syslog>(&conf);
        assert!(refusal.ends_with(inner), "{refusal}");
    }
    let kind = PluginType::new::<Syslog>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
    assert!(kind.check_metadata(&json!({"log_format": "text"})).is_err());
}
