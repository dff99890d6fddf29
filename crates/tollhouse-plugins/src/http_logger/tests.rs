//! What http-logger sends: entries, batches, tries, and what is dropped. The log server is a small one
//! inside of the test.

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;

use super::*;
use crate::logging::test_logger::TestLogger;
use crate::shared::test_server::{TestServer, body, header, reply};

struct Logger {
    logger: TestLogger,
    server: TestServer,
}

impl Logger {
    fn new(server: TestServer, more: Value, metadata: Option<&Value>) -> Self {
        let mut conf = json!({"uri": server.url("/log?a=b"), "batch_max_size": 1});
        conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Self { logger: TestLogger::new::<HttpLogger>(&conf, metadata), server }
    }

    /// Logs one exchange.
    fn log(&mut self, request: &str) {
        self.logger.log(request);
    }

    /// What the server got next.
    fn received(&self) -> Value {
        serde_json::from_str(body(&self.server.next_request())).expect("JSON")
    }
}

#[test]
fn the_default_entry_tells_everything_about_the_exchange() {
    let mut logger = Logger::new(TestServer::ok(), json!({}), None);
    logger.log("GET /hello?ab=cd HTTP/1.1\nHost: a.com\nX-B: 1\n\n");
    let request = logger.server.next_request();
    assert!(request.starts_with("POST /log?a=b HTTP/1.1\r\n"), "{request}");
    assert_eq!(header(&request, "content-type"), Some("application/json"));
    assert_eq!(header(&request, "authorization"), None);
    let mut entry: Value = serde_json::from_str(body(&request)).unwrap();
    let hostname = entry["server"]["hostname"].take();
    assert!(hostname.as_str().is_some_and(|name| !name.is_empty()));
    let expected = json!({
        "request": {
            "url": "http://a.com:9080/hello?ab=cd",
            "uri": "/hello?ab=cd",
            "method": "GET",
            "headers": {"host": "a.com", "x-b": "1"},
            "querystring": {"ab": "cd"},
            "size": 90,
        },
        "response": {
            "status": 200,
            "headers": {"content-type": "text/plain", "x-a": ["1", "2"], "server": "APISIX/3.18.0"},
            "size": 190,
        },
        "server": {"hostname": null, "version": "3.18.0"},
        "upstream": "127.0.0.1:1980",
        "service_id": "",
        "route_id": "r1",
        "client_ip": "127.0.0.1",
        "start_time": 1_700_000_000_000_u64,
        "latency": 12,
        "upstream_latency": 10,
        "apisix_latency": 2,
    });
    assert_eq!(entry, expected);
}

#[test]
fn bodies_are_in_the_entry_where_the_conf_wants_them() {
    let upload = "POST /?log=1 HTTP/1.1\nContent-Length: 5\n\nabcde";
    let on = |arg: &str| json!([[arg, "==", "1"]]);
    for (conf, request_body, response_body) in [
        (json!({}), None, None),
        (json!({"include_req_body": true}), Some("abcde"), None),
        (json!({"include_req_body": true, "max_req_body_bytes": 3}), Some("abc"), None),
        (
            json!({"include_req_body": true, "include_req_body_expr": on("arg_log")}),
            Some("abcde"),
            None,
        ),
        (json!({"include_req_body": true, "include_req_body_expr": on("arg_x")}), None, None),
        (json!({"include_resp_body": true}), None, Some("hello world")),
        (json!({"include_resp_body": true, "max_resp_body_bytes": 8}), None, Some("hello wo")),
        (json!({"include_resp_body": true, "include_resp_body_expr": on("arg_x")}), None, None),
        (
            json!({"include_resp_body": true, "include_resp_body_expr": [["status", "==", 200]]}),
            None,
            Some("hello world"),
        ),
    ] {
        let mut logger = Logger::new(TestServer::ok(), conf.clone(), None);
        logger.log(upload);
        let entry = logger.received();
        assert_eq!(entry["request"]["body"].as_str(), request_body, "{conf}");
        assert_eq!(entry["response"]["body"].as_str(), response_body, "{conf}");
    }
}

#[test]
fn a_format_replaces_the_entry_and_route_beats_metadata() {
    let metadata = json!({"log_format": {"from": "metadata"}, "log_format_extra": {"x": "$uri"}});
    let mut logger = Logger::new(TestServer::ok(), json!({}), Some(&metadata));
    logger.log("GET /a HTTP/1.1\n\n");
    assert_eq!(logger.received(), json!({"from": "metadata", "route_id": "r1", "x": "/a"}));

    let format = json!({
        "host": "$host", "status": "$status", "size": "$bytes_sent", "took": "$request_time",
        "absent": "$arg_nothing", "text": "plain", "header": "$sent_http_content_type",
        "time": "$time_iso8601", "body": "$resp_body",
        "nested": {"ip": "$remote_addr", "upstream": "$upstream_addr"},
    });
    let conf = json!({"log_format": format, "include_resp_body": true});
    let mut logger = Logger::new(TestServer::ok(), conf, Some(&metadata));
    logger.log("GET /a HTTP/1.1\n\n");
    let expected = json!({
        "host": "test.com", "status": 200, "size": 190, "took": "0.012", "text": "plain",
        "header": "text/plain", "time": "2023-11-14T22:13:20+00:00", "body": "hello world",
        "nested": {"ip": "127.0.0.1", "upstream": "127.0.0.1:1980"},
        "route_id": "r1", "x": "/a",
    });
    assert_eq!(logger.received(), expected);
}

#[test]
fn a_batch_is_an_array_or_lines() {
    for (method, content_type, expected) in [
        ("json", "application/json", r#"[{"a":"/1","route_id":"r1"},{"a":"/2","route_id":"r1"}]"#),
        (
            "new_line",
            "text/plain",
            "{\"a\":\"/1\",\"route_id\":\"r1\"}\n{\"a\":\"/2\",\"route_id\":\"r1\"}",
        ),
    ] {
        let conf = json!({
            "batch_max_size": 2, "concat_method": method,
            "log_format": {"a": "$uri"}, "auth_header": "Basic 123",
        });
        let mut logger = Logger::new(TestServer::ok(), conf, None);
        logger.log("GET /1 HTTP/1.1\n\n");
        logger.log("GET /2 HTTP/1.1\n\n");
        let request = logger.server.next_request();
        assert_eq!(body(&request), expected);
        assert_eq!(header(&request, "content-type"), Some(content_type));
        assert_eq!(header(&request, "authorization"), Some("Basic 123"));
    }
}

#[test]
fn an_error_of_the_server_is_tried_again() {
    let server = TestServer::start(|_| reply(500, "", "no"));
    let conf = json!({"max_retry_count": 1, "retry_delay": 0});
    let mut logger = Logger::new(server, conf, None);
    logger.log("GET /1 HTTP/1.1\n\n");
    assert_eq!(logger.received(), logger.received());
}

#[test]
fn bad_confs_are_refused() {
    let uri = "http://127.0.0.1:80/";
    for (conf, inner) in [
        (json!({}), r#"property "uri" is required"#),
        (json!({"uri": "127.0.0.1:80"}), r#"(:\\d+)?" with "127.0.0.1:80""#),
        (json!({"uri": uri, "timeout": 0}), "expected 0 to be at least 1"),
        (json!({"uri": uri, "concat_method": "x"}), "matches none of the enum values"),
        (json!({"uri": uri, "batch_max_size": 0}), "expected 0 to be at least 1"),
        (json!({"uri": uri, "include_req_body_expr": []}), "expect array to have at least 1 items"),
        (
            json!({"uri": uri, "include_resp_body_expr": [["status", "<>", 1]]}),
            "failed to validate the 'include_resp_body_expr' expression: invalid operator '<>'",
        ),
    ] {
        let refusal = Harness::refusal::<HttpLogger>(&conf);
        assert!(refusal.ends_with(inner), "{refusal}");
    }
    let kind = PluginType::new::<HttpLogger>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
    assert!(kind.check_metadata(&json!({"log_format": "text"})).is_err());
}
