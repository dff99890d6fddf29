//! Requests of splunk-hec-logging to a small server in the test, as the event collector takes them.

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;

use super::*;
use crate::logging::test_logger::TestLogger;
use crate::shared::test_server::{TestServer, body, header};

fn logger(server: &TestServer, more: &Value) -> TestLogger {
    let mut conf = json!({
        "endpoint": {
            "uri": server.url("/services/collector"), "token": "BD27", "channel": "FE0E",
        },
        "batch_max_size": 1, "ssl_verify": false,
    });
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    TestLogger::new::<SplunkHecLogging>(&conf, None)
}

#[test]
fn an_event_has_the_fields_that_searches_know() {
    let server = TestServer::ok();
    let more = json!({"log_format_extra": {"path": "$uri"}});
    let mut logger = logger(&server, &more);
    logger.log("GET /hello?ab=cd HTTP/1.1\nHost: a.com\n\n");
    let request = server.next_request();
    assert!(request.starts_with("POST /services/collector HTTP/1.1\r\n"), "{request}");
    assert_eq!(header(&request, "content-type"), Some("application/json"));
    assert_eq!(header(&request, "authorization"), Some("Splunk BD27"));
    assert_eq!(header(&request, "x-splunk-request-channel"), Some("FE0E"));
    let sent: Value = serde_json::from_str(body(&request)).unwrap();
    let expected = json!({
        "time": 1_700_000_000.0,
        "host": hostname(),
        "source": "apache-apisix-splunk-hec-logging",
        "sourcetype": "_json",
        "event": {
            "path": "/hello",
            "request_url": "http://a.com:9080/hello?ab=cd",
            "request_method": "GET",
            "request_headers": {"host": "a.com"},
            "request_query": {"ab": "cd"},
            "request_size": 90,
            "response_headers":
                {"content-type": "text/plain", "x-a": ["1", "2"], "server": "APISIX/3.18.0"},
            "response_status": 200,
            "response_size": 190,
            "latency": 12,
            "upstream": "127.0.0.1:1980",
        },
    });
    assert_eq!(sent, expected);
}

#[test]
fn a_batch_is_the_events_behind_each_other() {
    let server = TestServer::ok();
    let more = json!({"batch_max_size": 2, "log_format": {"a": "$uri"}});
    let mut logger = logger(&server, &more);
    logger.log("GET /1 HTTP/1.1\n\n");
    logger.log("GET /2 HTTP/1.1\n\n");
    let request = server.next_request();
    let events = serde_json::Deserializer::from_str(body(&request)).into_iter::<Value>();
    let events: Vec<Value> = events.map(|event| event.unwrap()["event"].take()).collect();
    assert_eq!(
        events,
        [json!({"a": "/1", "route_id": "r1"}), json!({"a": "/2", "route_id": "r1"})]
    );
}

#[test]
fn bad_confs_are_refused() {
    let uri = "http://127.0.0.1:8088/services/collector";
    for (conf, inner) in [
        (json!({}), r#"property "endpoint" is required"#),
        (json!({"endpoint": {"uri": uri}}), r#"property "token" is required"#),
        (json!({"endpoint": {"uri": "a", "token": "t"}}), r#"with "a""#),
        (json!({"endpoint": {"uri": uri, "token": "t", "timeout": 0}}), "at least 1"),
        (json!({"endpoint": {"uri": uri, "token": "t", "keepalive_timeout": 9}}), "at least 1000"),
    ] {
        let refusal = Harness::refusal::<SplunkHecLogging>(&conf);
        assert!(refusal.ends_with(inner), "{refusal}");
    }
    let kind = PluginType::new::<SplunkHecLogging>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
}
