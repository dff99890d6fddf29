//! Requests of elasticsearch-logger to a small server in the test, as the bulk API describes them.

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;

use super::*;
use crate::logging::test_logger::TestLogger;
use crate::shared::test_server::{TestServer, body, header, reply};

/// Server of a version that answers every bulk request alike.
fn server(version: &'static str, answer: &'static str) -> TestServer {
    TestServer::start(move |request| {
        if request.starts_with("GET / ") {
            return reply(200, "", &json!({"version": {"number": version}}).to_string());
        }
        reply(200, "", answer)
    })
}

fn logger(server: &TestServer, more: &Value) -> TestLogger {
    let mut conf = json!({
        "endpoint_addrs": [server.url("")], "field": {"index": "a-{%Y.%m}-$host"},
        "log_format": {"a": "$uri"}, "batch_max_size": 2, "ssl_verify": false,
    });
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    TestLogger::new::<ElasticsearchLogger>(&conf, None)
}

#[test]
fn a_batch_is_a_bulk_request_with_an_action_for_each_document() {
    for (version, kind) in [
        ("8.14.1", ""),
        ("7.0.0", ""),
        ("6.8.23", r#","_type":"_doc""#),
        ("5.6.16", r#","_type":"_doc""#),
    ] {
        let server = server(version, r#"{"errors":false}"#);
        let auth = json!({"username": "elastic", "password": "secret"});
        let mut logger = logger(&server, &json!({"auth": auth}));
        logger.log("GET /1 HTTP/1.1\nHost: one.test\n\n");
        logger.log("GET /2 HTTP/1.1\nHost: two.test\n\n");
        let request = server.next_request();
        assert!(request.starts_with("GET / HTTP/1.1\r\n"), "{request}");
        assert_eq!(header(&request, "authorization"), Some("Basic ZWxhc3RpYzpzZWNyZXQ="));
        let request = server.next_request();
        assert!(request.starts_with("POST /_bulk HTTP/1.1\r\n"), "{request}");
        assert_eq!(header(&request, "content-type"), Some("application/x-ndjson"));
        assert_eq!(header(&request, "accept"), Some("application/vnd.elasticsearch+json"));
        assert_eq!(header(&request, "authorization"), Some("Basic ZWxhc3RpYzpzZWNyZXQ="));
        let action = |host| format!(r#"{{"index":{{"_index":"a-2023.11-{host}"{kind}}}}}"#);
        let document = |path| format!(r#"{{"a":"{path}","route_id":"r1"}}"#);
        let expected = [action("one.test"), document("/1"), action("two.test"), document("/2")];
        assert_eq!(body(&request), format!("{}\n", expected.join("\n")));
    }
}

#[test]
fn header_lines_of_the_conf_replace_those_of_the_plugin() {
    let server = server("8.0.0", "{}");
    let headers = json!({"authorization": "ApiKey abc", "Accept": "application/json"});
    let auth = json!({"username": "elastic", "password": "secret"});
    let more = json!({"headers": headers, "auth": auth, "batch_max_size": 1});
    let mut logger = logger(&server, &more);
    logger.log("GET /1 HTTP/1.1\n\n");
    server.next_request();
    let request = server.next_request();
    assert_eq!(header(&request, "authorization"), Some("ApiKey abc"));
    assert_eq!(header(&request, "accept"), Some("application/json"));
    let lower = request.to_ascii_lowercase();
    assert_eq!((lower.matches("authorization:").count(), lower.matches("accept:").count()), (1, 1));
}

#[test]
fn documents_that_the_server_refuses_are_lost() {
    let answer = json!({"errors": true, "items": [
        {"index": {"status": 201}},
        {"index": {"status": 400, "error": {"reason": "no such field"}}},
        {"create": {"status": 409}},
    ]});
    let failure = refused_documents(answer.to_string().as_bytes(), 3).unwrap_err();
    assert_eq!((failure.taken, failure.lost), (3, 2));
    assert_eq!(failure.error.to_string(), r#"the server refused 2 entries: "no such field""#);
    for answer in [r#"{"errors":false,"items":[{"index":{"status":400}}]}"#, "", "{}"] {
        assert!(refused_documents(answer.as_bytes(), 1).is_ok(), "{answer}");
    }
}

#[test]
fn bad_confs_are_refused() {
    let address = "http://127.0.0.1:9200";
    let field = json!({"index": "a"});
    for (conf, inner) in [
        (json!({"field": field}), "value should match only one schema, but matches none"),
        (json!({"endpoint_addrs": [address]}), "but matches none"),
        (json!({"endpoint_addrs": [address], "field": {}}), r#"property "index" is required"#),
        (json!({"endpoint_addrs": [format!("{address}/")], "field": field}), "9200/\""),
        (json!({"endpoint_addrs": [address], "field": field, "headers": {}}), "at least 1"),
        (
            json!({"endpoint_addrs": [address], "field": field, "auth": {"username": "a"}}),
            "required",
        ),
        (
            json!({"endpoint_addrs": [address], "field": {"index": "{%Q}"}}),
            r#"unknown conversion %Q in the time of index "{%Q}""#,
        ),
    ] {
        let refusal = Harness::refusal::<ElasticsearchLogger>(&conf);
        assert!(refusal.contains(inner), "{conf}: {refusal}");
    }
    let kind = PluginType::new::<ElasticsearchLogger>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
}
