//! Tests of requests and responses against OpenAPI documents.

use std::sync::atomic::{AtomicUsize, Ordering};

use tollhouse_plugin::testing::Harness;

use super::*;
use crate::shared::test_server::{TestServer, header, reply};

fn document() -> Value {
    json!({
        "openapi": "3.0.2",
        "servers": [{"url": "/api/v3"}],
        "paths": {
            "/pet": {"post": {"requestBody": {"required": true, "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}},
                "application/x-www-form-urlencoded": {"schema": {"$ref": "#/components/schemas/Pet"}},
            }}}},
            "/pet/find": {"get": {"parameters": [
                {"name": "status", "in": "query", "schema": {"type": "string", "enum": ["sold", "pending"]}},
                {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "integer"}}},
                {"name": "ids", "in": "query", "explode": false, "schema": {"type": "array", "items": {"type": "integer"}}},
            ]}},
            "/pet/{id}": {
                "parameters": [{"$ref": "#/components/parameters/Id"}],
                "get": {"parameters": [
                    {"name": "X-Flag", "in": "header", "schema": {"type": "boolean"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string", "minLength": 2}},
                ]},
            },
            "/file": {"post": {"requestBody": {"content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                "application/*": {"schema": {"$ref": "#/components/schemas/Pet"}},
            }}}},
            "/number": {"post": {"requestBody": {"content": {"application/json": {"schema": {
                "type": "number", "minimum": 0, "exclusiveMinimum": true, "multipleOf": 0.5, "nullable": true,
            }}}}}},
        },
        "components": {
            "parameters": {"Id": {"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}},
            "schemas": {
                "Pet": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"},
                    "age": {"type": "integer"},
                    "tags": {"type": "array", "items": {"$ref": "#/components/schemas/Tag"}},
                }},
                "Tag": {"type": "object", "properties": {"id": {"type": "integer"}}},
            },
        },
    })
}

fn with(more: Value) -> Value {
    let mut conf = json!({"spec": document().to_string()});
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    conf
}

fn post(path: &str, content_type: &str, body: &str) -> String {
    format!("POST /api/v3{path} HTTP/1.1\nContent-Type: {content_type}\n\n{body}")
}

#[test]
fn only_described_requests_pass() {
    let mut harness = Harness::new::<OasValidator>(&with(json!({})));
    let json = "application/json";
    for (request, passes) in [
        (post("/pet", json, r#"{"name":"a","age":1,"tags":[{"id":2}]}"#), true),
        (post("/pet", "application/json; charset=utf-8", r#"{"name":"a"}"#), true),
        (post("/pet", json, r#"{"age":1}"#), false),
        (post("/pet", json, r#"{"name":"a","tags":[{"id":"x"}]}"#), false),
        (post("/pet", json, "{"), false),
        (post("/pet", json, ""), false),
        (post("/pet", "text/plain", "a"), false),
        (post("/pet", "application/x-www-form-urlencoded", "name=a&age=2"), true),
        (post("/pet", "application/x-www-form-urlencoded", "name=a&age=x"), false),
        (post("/pet", "application/x-www-form-urlencoded", "name=a&age=2&age=3"), false),
        (post("/pet", json, r#"{"age":1,"name":"a","name":"b"}"#), false),
        (post("/pet", "application/json\nContent-Type: text/plain", r#"{"name":"a"}"#), false),
        (post("/file", "application/octet-stream", "a"), true),
        (post("/file", "application/x", r#"{"name":"a"}"#), true),
        (post("/file", "application/x", r#"{"age":1}"#), false),
        (post("/file", "application/x", "a"), false),
        (post("/number", json, "1.5"), true),
        (post("/number", json, "null"), true),
        (post("/number", json, "0"), false),
        (post("/number", json, "1.2"), false),
        (post("/number", json, ""), true),
        ("GET /api/v3/pet/find?status=sold&tags=1&tags=2&ids=1,2 HTTP/1.1\n\n".into(), true),
        ("GET /api/v3/pet/find?status=sold&status=sold HTTP/1.1\n\n".into(), false),
        ("GET /api/v3/pet/find HTTP/1.1\n\n".into(), true),
        ("GET /api/v3/pet/find?status=married HTTP/1.1\n\n".into(), false),
        ("GET /api/v3/pet/find?tags=1&tags=x HTTP/1.1\n\n".into(), false),
        ("GET /api/v3/pet/find?ids=1,x HTTP/1.1\n\n".into(), false),
        ("GET /api/v3/pet/10 HTTP/1.1\n\n".into(), true),
        ("GET /api/v3/pet/ten HTTP/1.1\n\n".into(), false),
        ("GET /api/v3/pet/10 HTTP/1.1\nX-Flag: true\nCookie: session=ab\n\n".into(), true),
        ("GET /api/v3/pet/10 HTTP/1.1\nX-Flag: maybe\n\n".into(), false),
        ("GET /api/v3/pet/10 HTTP/1.1\nCookie: session=a\n\n".into(), false),
        ("DELETE /api/v3/pet/10 HTTP/1.1\n\n".into(), false),
        ("GET /pet/10 HTTP/1.1\n\n".into(), false),
        ("GET /api/v3/other HTTP/1.1\n\n".into(), false),
    ] {
        let outcome = harness.request(&request);
        assert_eq!(outcome.passes(), passes, "{request}");
        if !passes {
            assert_eq!(outcome.status(), 400);
            assert_eq!(outcome.body(), "{\"message\":\"failed to validate request. \"}\n");
        }
    }
}

#[test]
fn parts_may_be_skipped_and_refusals_differ() {
    for (more, request, status) in [
        (json!({"skip_request_body_validation": true}), post("/pet", "application/json", "{}"), 0),
        (
            json!({"skip_query_param_validation": true}),
            "GET /api/v3/pet/find?status=x HTTP/1.1\n\n".into(),
            0,
        ),
        (json!({"skip_path_params_validation": true}), "GET /api/v3/pet/x HTTP/1.1\n\n".into(), 0),
        (
            json!({"skip_request_header_validation": true}),
            "GET /api/v3/pet/1 HTTP/1.1\nX-Flag: x\n\n".into(),
            0,
        ),
        (json!({"reject_if_not_match": false}), "GET /x HTTP/1.1\n\n".into(), 0),
        (json!({"rejection_status_code": 422}), "GET /x HTTP/1.1\n\n".into(), 422),
        (json!({"max_req_body_size": 1}), post("/pet", "application/json", "{}"), 500),
    ] {
        let outcome = Harness::new::<OasValidator>(&with(more.clone())).request(&request);
        assert_eq!(outcome.status(), status, "{more}");
    }
    let verbose = with(json!({"verbose_errors": true}));
    let outcome = Harness::new::<OasValidator>(&verbose).request("GET /api/v3/pet/x HTTP/1.1\n\n");
    assert!(
        outcome.body().contains("parameter \\\"id\\\": wrong type: expected integer"),
        "{}",
        outcome.body()
    );
}

#[test]
fn a_document_is_fetched_and_kept() {
    let count = Arc::new(AtomicUsize::new(0));
    let served = Arc::clone(&count);
    let server = TestServer::start(move |request| {
        let is_allowed = header(request, "x-key") == Some("k");
        match served.fetch_add(1, Ordering::SeqCst) {
            0 if is_allowed => reply(200, "", &document().to_string()),
            _ => reply(500, "", ""),
        }
    });
    let conf = json!({"spec_url": server.url("/spec"), "spec_url_request_headers": {"X-Key": "k"}});
    let mut harness = Harness::new::<OasValidator>(&conf);
    for (wait_ms, request, status, fetches) in [
        (0, "GET /api/v3/pet/1 HTTP/1.1\n\n", 0, 1),
        (1_000, "GET /api/v3/pet/x HTTP/1.1\n\n", 400, 1),
        // The second fetch fails, so that the first document stays.
        (3_600_000, "GET /api/v3/pet/x HTTP/1.1\n\n", 400, 2),
        (0, "GET /api/v3/pet/1 HTTP/1.1\n\n", 0, 2),
    ] {
        harness.now_ms += wait_ms;
        assert_eq!(harness.request(request).status(), status, "{request}");
        assert_eq!(count.load(Ordering::SeqCst), fetches);
    }
    let bad_count = Arc::new(AtomicUsize::new(0));
    let served = Arc::clone(&bad_count);
    let bad = TestServer::start(move |_| {
        served.fetch_add(1, Ordering::SeqCst);
        reply(200, "", "{}")
    });
    let mut harness = Harness::new::<OasValidator>(&json!({"spec_url": bad.url("/")}));
    // A server without a document is not asked for each request.
    for (wait_ms, fetches) in [(0, 1), (1, 1), (RETRY_MS, 2)] {
        harness.now_ms += wait_ms;
        let outcome = harness.request("GET / HTTP/1.1\n\n");
        assert_eq!(outcome.status(), 500);
        assert_eq!(outcome.body(), "{\"message\":\"failed to parse openapi spec\"}\n");
        assert_eq!(bad_count.load(Ordering::SeqCst), fetches);
    }
}

#[test]
fn schemas_that_double_themselves_are_compiled_soon() {
    let own = json!({"$ref": "#/components/schemas/A"});
    let document = json!({
        "openapi": "3.0.2",
        "paths": {"/a": {"get": {"parameters": [{"name": "a", "in": "query", "schema": own}]}}},
        "components": {"schemas": {"A": {"anyOf": [own, own], "type": "string"}}},
    });
    // Compiled or refused, but not for ever.
    let _ = Spec::compile(document.to_string().as_bytes());
}

#[test]
fn keywords_of_openapi_3_1_count() {
    let document = json!({
        "openapi": "3.1.0",
        "paths": {"/a": {"post": {"requestBody": {"content": {"application/json": {
            "schema": {"$ref": "#/components/schemas/A"},
        }}}}}},
        "components": {"schemas": {"A": {"type": "object", "properties": {
            "places": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "boolean"}},
            "names": {"type": "array", "items": {"$dynamicRef": "#name"}},
            "price": {"type": "number", "multipleOf": 0.01},
        }, "$defs": {"n/a": {"$dynamicAnchor": "name", "type": "string"}}}}},
    });
    // Line ends in texts of the document are no reason to refuse it.
    let spec = document.to_string().replace("3.1.0", "3.1.0\n");
    let mut harness = Harness::new::<OasValidator>(&json!({"spec": spec}));
    for (body, passes) in [
        (r#"{"places": ["a", 1, true]}"#, true),
        (r#"{"places": [1, 1]}"#, false),
        (r#"{"places": ["a", 1, 2]}"#, false),
        (r#"{"names": ["a"]}"#, true),
        (r#"{"names": [1]}"#, false),
        (r#"{"price": 1.13}"#, true),
        (r#"{"price": 1.135}"#, false),
    ] {
        let request = format!("POST /a HTTP/1.1\nContent-Type: application/json\n\n{body}");
        assert_eq!(harness.request(&request).passes(), passes, "{body}");
    }
    let unknown = document.to_string().replace("#name", "#other");
    let refusal = Harness::refusal::<OasValidator>(&json!({"spec": unknown}));
    assert!(refusal.contains("failed to compile openapi spec"), "{refusal}");
}

#[test]
fn bad_confs_are_refused() {
    for (conf, text) in [
        (json!({}), "value should match only one schema, but matches none"),
        (json!({"spec": "{}", "spec_url": "http://a/"}), "value should match only one schema"),
        (json!({"spec_url": "ftp://a"}), "failed to match pattern"),
        (json!({"spec": "{"}), "invalid JSON string provided, err: "),
        (
            json!({"spec": "{}"}),
            "failed to compile openapi spec, err: the document is not OpenAPI 3",
        ),
        (with(json!({"rejection_status_code": 399})), "expected 399 to be at least 400"),
        (with(json!({"timeout": 1})), "expected 1 to be at least 1000"),
    ] {
        let refusal = Harness::refusal::<OasValidator>(&conf);
        assert!(refusal.contains(text), "{refusal}");
    }
}
