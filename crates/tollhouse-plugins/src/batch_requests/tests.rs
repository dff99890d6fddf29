//! Tests of batches of requests.

use serde_json::json;
use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome, configure_among};
use tollhouse_plugin::{Catalogue, PluginType};
use tollhouse_stdx::MemoryBudget;

use super::*;
use crate::public_api::PublicApi;
use crate::shared::test_server::{TestServer, body, header, reply};

/// Sends a batch through `public-api` to a gateway that listens at the server's port.
fn ask(port: &str, text: &str, metadata: Option<Value>) -> Outcome {
    let mut services = Services::new("APISIX/3.18.0");
    services.client_address_header = Some("X-Real-IP".into());
    ask_with(services, port, text, metadata)
}

fn ask_with(services: Services, port: &str, text: &str, metadata: Option<Value>) -> Outcome {
    let services = Arc::new(services);
    let kept = metadata.map(|metadata| BatchRequests::start(&metadata, &services));
    let catalogue = Catalogue::new([PluginType::new::<BatchRequests>()]);
    let conf = json!({"uri": PATH});
    let handler = configure_among::<PublicApi>(&conf, &services, &catalogue, None);
    let mut harness = Harness::with(handler.expect("the conf is good"), services);
    let mut exchange = FakeExchange::parse(text, 0).with_variable("server_port", port);
    let outcome = harness.run(&mut exchange);
    drop(kept);
    outcome
}

fn post(batch: &Value) -> String {
    format!(
        "POST /batch HTTP/1.1\nHost: a.com\nX-Outer: 1\nX-Forwarded-For: 6.6.6.6\nContent-Type: x\n\n{batch}"
    )
}

#[test]
fn each_request_is_answered() {
    let server = TestServer::start(|request| match request.starts_with("GET /late") {
        true => String::new(),
        false => reply(201, "X-OwnID: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n", body(request)),
    });
    let batch = json!({
        "query": {"common": "x y", "own": 1},
        "headers": {"X-Common": "c", "X-Own": "outer"},
        "pipeline": [
            {"path": "/a?z=1", "query": {"own": 2, "flag": true}, "headers": {"x-own": "inner"}},
            {"path": "/b", "method": "POST", "body": "hello"},
        ],
    });
    let port = server.url("").rsplit(':').next().unwrap().to_owned();
    let outcome = ask(&port, &post(&batch), None);
    assert_eq!(outcome.status(), 200, "{}", outcome.body());
    let answers: Value = serde_json::from_str(outcome.body()).unwrap();
    assert_eq!(answers[0]["status"], 201);
    assert_eq!(answers[0]["reason"], "Created");
    assert_eq!(answers[0]["headers"]["X-OwnID"], "1");
    assert_eq!(answers[1]["headers"]["X-OwnID"], "1");
    assert_eq!(answers[0]["headers"]["Set-Cookie"], json!(["a", "b"]));
    assert_eq!(answers[1]["body"], "hello");
    let first = server.next_request();
    assert!(first.starts_with("GET /a?z=1&own=2&flag&common=x%20y HTTP/1.1\r\n"), "{first}");
    for (name, value) in [
        ("x-own", Some("inner")),
        ("x-common", Some("c")),
        ("x-outer", Some("1")),
        ("host", Some("a.com")),
        ("x-real-ip", Some("127.0.0.1")),
        ("x-forwarded-for", None),
        ("content-type", None),
        (MARK, Some("1")),
    ] {
        assert_eq!(header(&first, name), value, "{name}");
    }
    assert_eq!(body(&server.next_request()), "hello");
}

#[test]
fn bad_batches_are_refused() {
    let small = json!({"max_body_size": 200, "max_pipeline_items": 1});
    for (sent, status, text) in [
        ("".to_owned(), 400, "no request body, you should give at least one pipeline setting"),
        ("{".to_owned(), 400, "invalid request body: {, err: Expected"),
        ("{}".to_owned(), 400, "bad request body: object matches none of the required"),
        (json!({"pipeline": []}).to_string(), 400, "expect array to have at least 1 items"),
        (json!({"pipeline": [{"paths": "/"}]}).to_string(), 400, "bad request body: "),
        (
            json!({"pipeline": [{"path": "/"}, {"path": "/"}]}).to_string(),
            400,
            "too many pipeline requests, 2 exceeds the maximum of 1",
        ),
        ("x".repeat(201), 413, "maximum size 200 allowed"),
    ] {
        let request = format!("POST /batch HTTP/1.1\n\n{sent}");
        let outcome = ask("1", &request, Some(small.clone()));
        assert_eq!(outcome.status(), status, "{sent}");
        assert!(outcome.body().contains(text), "{}", outcome.body());
    }
    let batch = json!({"pipeline": [{"path": "/"}]});
    let nested = format!("POST /batch HTTP/1.1\nX-Batch-Request: 1\n\n{batch}");
    assert!(ask("1", &nested, None).body().contains("cannot contain batches"));
    assert_eq!(ask("1", "GET /batch HTTP/1.1\n\n", None).status(), 404);
}

fn port_of(server: &TestServer) -> String {
    server.url("").rsplit(':').next().unwrap().to_owned()
}

#[test]
fn clients_choose_neither_their_address_nor_the_mark() {
    let server = TestServer::ok();
    let mut services = Services::new("APISIX/3.18.0");
    services.client_address_header = Some("X-Client-Address".into());
    let batch = json!({
        "headers": {"x-client-address": "6.6.6.6", "X-Client_Address": "7.7.7.7"},
        "pipeline": [{"path": "/", "headers": {"X-CLIENT-ADDRESS": "8.8.8.8", "X-Batch-Request": "0"}}],
    });
    let outer = "x-client-address: 9.9.9.9\nX_Client_Address: 5.5.5.5";
    let request = format!("POST /batch HTTP/1.1\n{outer}\n\n{batch}");
    assert_eq!(ask_with(services, &port_of(&server), &request, None).status(), 200);
    let inner = server.next_request().to_ascii_lowercase().replace('_', "-");
    for (name, value) in [("x-client-address", "127.0.0.1"), (MARK, "1")] {
        let lines = inner.lines().filter(|line| line.starts_with(&format!("{name}:")));
        assert_eq!(lines.collect::<Vec<_>>(), [format!("{name}: {value}")]);
    }
}

#[test]
fn a_page_cannot_pretend_to_be_another_one() {
    let server = TestServer::ok();
    let batch = json!({
        "headers": {"Referer": "https://good.test/"},
        "pipeline": [{"path": "/", "headers": {"origin": "https://good.test", "Sec_Fetch-Site": "none"}}],
    });
    let send = |outer: &str| {
        let request = format!("POST /batch HTTP/1.1\n{outer}\n\n{batch}");
        ask(&port_of(&server), &request, None)
    };
    let json = "Content-Type: application/json; charset=utf-8";
    assert_eq!(send(&format!("Origin: https://evil.test\n{json}")).status(), 200);
    let inner = server.next_request();
    assert_eq!(header(&inner, "origin"), Some("https://evil.test"));
    assert_eq!((header(&inner, "referer"), header(&inner, "sec_fetch-site")), (None, None));
    assert_eq!(send("X-Other: 1").status(), 200);
    assert_eq!(header(&server.next_request(), "origin"), Some("https://good.test"));
    for kind in ["Content-Type: text/plain", "Content-Type: application/jsonp", "X-Other: 1"] {
        let outcome = send(&format!("Origin: https://evil.test\n{kind}"));
        assert_eq!(outcome.status(), 415, "{kind}");
        assert!(outcome.body().contains("application/json"), "{}", outcome.body());
    }
}

#[test]
fn answers_are_bounded_in_their_joined_form() {
    // One MiB of control characters is six in JSON.
    let server = TestServer::start(|request| match request.starts_with("GET /long") {
        true => reply(200, "", &"\u{1}".repeat(1 << 20)),
        false => reply(200, "", "short"),
    });
    let batch = json!({"pipeline": [{"path": "/long"}, {"path": "/"}]});
    let outcome = ask(&port_of(&server), &post(&batch), None);
    let answers: Value = serde_json::from_str(outcome.body()).unwrap();
    assert_eq!(answers[0], json!({"status": 502, "reason": "the answers are too long"}));
    assert_eq!(answers[1]["body"], "short");
}

#[test]
fn answers_take_their_memory_from_the_budget() {
    let server = TestServer::start(|_| reply(200, "", &"x".repeat(100_000)));
    let batch = json!({"pipeline": [{"path": "/"}]});
    for (bytes_max, status) in [(1 << 19, 503), ((3 << 19) + 50_000, 503), (3 << 20, 200)] {
        let mut services = Services::new("APISIX/3.18.0");
        services.client_address_header = Some("X-Real-IP".into());
        let memory = MemoryBudget::new(bytes_max);
        services.memory = Arc::clone(&memory);
        let outcome = ask_with(services, &port_of(&server), &post(&batch), None);
        assert_eq!(outcome.status(), status, "{bytes_max}");
        assert_eq!(memory.held(), 0, "{bytes_max}");
    }
}

#[test]
fn what_repeats_for_each_request_is_bounded() {
    let long = "%".repeat(17 << 10);
    let many: Value =
        (0..101).map(|n| (format!("a{n}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    for batch in [
        json!({"query": {"a": long}, "pipeline": [{"path": "/"}]}),
        json!({"headers": many, "pipeline": [{"path": "/"}]}),
        json!({"pipeline": [{"path": "/", "query": many}]}),
        json!({"pipeline": [{"path": "/", "headers": {"a": long}}]}),
        json!({"pipeline": [{"path": long}]}),
    ] {
        let outcome = ask("1", &post(&batch), None);
        assert_eq!(outcome.status(), 400);
        assert!(outcome.body().contains("16384 bytes"), "{}", outcome.body());
    }
}

#[test]
fn the_timeout_is_capped() {
    for (timeout, expected) in [(5, 5), (86_400_000, 60_000)] {
        let body = json!({"timeout": timeout, "pipeline": [{"path": "/"}]}).to_string();
        let batch = Batch::parse(body.as_bytes(), 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(batch.timeout(), Duration::from_millis(expected));
    }
}
