//! Requests of loki-logger to a small server in the test, as Loki's push API describes them.

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;

use super::*;
use crate::logging::test_logger::TestLogger;
use crate::shared::test_server::{TestServer, body, header, reply};

fn logger(server: &TestServer, more: &Value) -> TestLogger {
    let mut conf = json!({
        "endpoint_addrs": [server.url("")], "log_format": {"a": "$uri"}, "batch_max_size": 3,
    });
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    TestLogger::new::<LokiLogger>(&conf, None)
}

#[test]
fn entries_with_equal_labels_are_one_stream() {
    let server = TestServer::start(|_| reply(204, "", ""));
    let labels = json!({"job": "web", "host": "$host", "nothing": "$arg_nothing"});
    let mut logger = logger(&server, &json!({"log_labels": labels, "tenant_id": "team-a"}));
    for (path, host) in [("/1", "one.test"), ("/2", "two.test"), ("/3", "one.test")] {
        logger.log(&format!("GET {path} HTTP/1.1\nHost: {host}\n\n"));
    }
    let request = server.next_request();
    assert!(request.starts_with("POST /loki/api/v1/push HTTP/1.1\r\n"), "{request}");
    assert_eq!(header(&request, "content-type"), Some("application/json"));
    assert_eq!(header(&request, "x-scope-orgid"), Some("team-a"));
    let labels = |host| json!({"job": "web", "host": host, "nothing": "$arg_nothing"});
    let value =
        |path| json!(["1700000000000000000", format!(r#"{{"a":"{path}","route_id":"r1"}}"#)]);
    let expected = json!({"streams": [
        {"stream": labels("one.test"), "values": [value("/1"), value("/3")]},
        {"stream": labels("two.test"), "values": [value("/2")]},
    ]});
    assert_eq!(serde_json::from_str::<Value>(body(&request)).unwrap(), expected);
}

#[test]
fn defaults_and_header_lines_of_the_conf_are_sent() {
    let server = TestServer::start(|_| reply(204, "", ""));
    let headers = json!({"Authorization": "Basic abc", "x-scope-orgid": "other"});
    let more = json!({"headers": headers, "endpoint_uri": "/push", "batch_max_size": 1});
    let mut logger = logger(&server, &more);
    logger.log("GET /1 HTTP/1.1\n\n");
    let request = server.next_request();
    assert!(request.starts_with("POST /push HTTP/1.1\r\n"), "{request}");
    assert_eq!(header(&request, "authorization"), Some("Basic abc"));
    assert_eq!(header(&request, "x-scope-orgid"), Some("fake"));
    assert_eq!(request.to_ascii_lowercase().matches("x-scope-orgid").count(), 1);
    let sent: Value = serde_json::from_str(body(&request)).unwrap();
    assert_eq!(sent["streams"][0]["stream"], json!({"job": "apisix"}));
}

#[test]
fn servers_take_turns_and_a_refused_batch_is_tried_at_the_next() {
    let (first, second) = (TestServer::start(|_| reply(300, "", "no")), TestServer::ok());
    let more = json!({
        "endpoint_addrs": [first.url(""), second.url("")], "batch_max_size": 1,
        "max_retry_count": 1, "retry_delay": 0,
    });
    let mut logger = logger(&first, &more);
    logger.log("GET /1 HTTP/1.1\n\n");
    assert_eq!(body(&first.next_request()), body(&second.next_request()));
}

#[test]
fn bad_confs_are_refused() {
    let address = "http://127.0.0.1:3100";
    for (conf, inner) in [
        (json!({}), r#"property "endpoint_addrs" is required"#),
        (json!({"endpoint_addrs": []}), "expect array to have at least 1 items"),
        (json!({"endpoint_addrs": ["127.0.0.1"]}), r#"with "127.0.0.1""#),
        (json!({"endpoint_addrs": [address], "timeout": 60_001}), "at most 60000"),
        (json!({"endpoint_addrs": [address], "log_labels": {"a": ""}}), "at least 1, got 0"),
        (json!({"endpoint_addrs": [address], "keepalive_timeout": 9}), "at least 1000"),
    ] {
        let refusal = Harness::refusal::<LokiLogger>(&conf);
        assert!(refusal.ends_with(inner), "{refusal}");
    }
    let kind = PluginType::new::<LokiLogger>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
    assert!(kind.check_metadata(&json!({"log_format": "text"})).is_err());
}
