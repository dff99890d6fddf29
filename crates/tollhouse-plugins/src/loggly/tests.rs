//! Messages of loggly, as servers in the test receive them.

use std::net::UdpSocket;

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;

use super::*;
use crate::logging::test_logger::TestLogger;
use crate::shared::test_server::{TestServer, body};

fn conf(more: &Value) -> Value {
    let mut conf = json!({
        "customer_token": "abc-123", "tags": ["web", "a\"b"], "log_format": {"a": "$uri"},
        "batch_max_size": 2,
    });
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    conf
}

#[test]
fn over_udp_an_entry_is_a_syslog_message() {
    for (more, priority) in [
        (json!({}), 14),
        (json!({"severity": "ERR"}), 11),
        (json!({"severity": "debug"}), 15),
        (json!({"severity_map": {"200": "EMEGR", "500": "ERR"}}), 8),
    ] {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("a bound socket").port();
        let metadata = json!({"host": "127.0.0.1", "port": port});
        let mut logger = TestLogger::new::<Loggly>(&conf(&more), Some(&metadata));
        logger.log("GET /1 HTTP/1.1\nHost: one.test\n\n");
        logger.log("GET /2 HTTP/1.1\nHost: two.test\n\n");
        for (host, path) in [("one.test", "/1"), ("two.test", "/2")] {
            let mut bytes = [0; 1024];
            let count = socket.recv(&mut bytes).expect("a datagram");
            let process = std::process::id();
            let expected = format!(
                r#"<{priority}>1 2023-11-14T22:13:20.000Z {host} tollhouse {process} - [abc-123@41058 tag="web" tag="a\"b"] {{"a":"{path}","route_id":"r1"}}"#
            );
            assert_eq!(String::from_utf8_lossy(&bytes[..count]), expected);
        }
    }
}

#[test]
fn over_http_a_batch_goes_to_the_bulk_endpoint() {
    let server = TestServer::ok();
    let host = server.url("").trim_start_matches("http://").to_owned();
    for host in [host, server.url("/")] {
        let metadata = json!({"host": host, "protocol": "http"});
        let mut logger = TestLogger::new::<Loggly>(&conf(&json!({})), Some(&metadata));
        logger.log("GET /1 HTTP/1.1\n\n");
        logger.log("GET /2 HTTP/1.1\n\n");
        let request = server.next_request();
        assert!(request.starts_with("POST /bulk/abc-123/tag/bulk HTTP/1.1\r\n"), "{request}");
        let head = request.to_ascii_lowercase();
        assert!(head.contains("x-loggly-tag: web\r\nx-loggly-tag: a\"b\r\n"), "{head}");
        assert!(head.contains("content-type: application/json\r\n"), "{head}");
        let entries = "{\"a\":\"/1\",\"route_id\":\"r1\"}\n{\"a\":\"/2\",\"route_id\":\"r1\"}";
        assert_eq!(body(&request), entries);
    }
}

#[test]
fn bad_confs_are_refused() {
    for (conf, inner) in [
        (json!({}), r#"property "customer_token" is required"#),
        (json!({"customer_token": "a", "tags": []}), "at least 1 items"),
        (json!({"customer_token": "a", "tags": ["tag=a"]}), r#"must not begin with "tag=""#),
        (json!({"customer_token": "a", "severity": "loud"}), "matches none of the enum values"),
        (json!({"customer_token": "a", "severity_map": {"600": "INFO"}}), "600"),
        (json!({"customer_token": "a", "severity_map": {"500": "loud"}}), "enum values"),
    ] {
        let refusal = Harness::refusal::<Loggly>(&conf);
        assert!(refusal.contains(inner), "{conf}: {refusal}");
    }
    let kind = PluginType::new::<Loggly>();
    assert!(kind.check_metadata(&json!({"protocol": "https"})).is_ok());
    assert!(kind.check_metadata(&json!({"protocol": "ftp"})).is_err());
}
