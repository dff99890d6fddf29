//! What the node receives and what the OAP gets.

use tollhouse_plugin::testing::{FakeExchange, Harness, configure};
use tollhouse_plugin::{Services, Transfer};

use super::*;
use crate::shared::test_server::{TestServer, body};

fn services(endpoint: &str, background: Option<Handle>) -> Arc<Services> {
    let mut services = Services::new("APISIX/3.18.0");
    let attributes = json!({"endpoint_addr": endpoint, "service_name": "edge",
        "service_instance_name": "edge-1", "report_interval": 1});
    services.attributes.insert("skywalking".into(), attributes);
    services.background = background;
    Arc::new(services)
}

fn carrier() -> Carrier {
    Carrier {
        trace_id: "t1".into(),
        segment_id: "s1".into(),
        span: 2,
        service: "web".into(),
        instance: "web-1".into(),
        endpoint: "/home".into(),
        peer: "edge:80".into(),
    }
}

fn sent(exchange: &FakeExchange) -> Option<Carrier> {
    let mut found = None;
    tollhouse_plugin::each_header(exchange, &mut |name, value| {
        if name.eq_ignore_ascii_case(SW8.as_bytes()) {
            found = Carrier::parse(value);
        }
    });
    found
}

#[test]
fn the_node_receives_the_gateway_as_its_parent() {
    let services = services("http://127.0.0.1:1", None);
    let handler = configure::<Skywalking>(&json!({}), &services).expect("the conf is good");
    let mut harness = Harness::with(handler, services);
    let mut exchange = FakeExchange::parse("GET /a?b=c HTTP/1.1\n\n", 0);
    assert!(harness.run(&mut exchange).passes());
    let own = sent(&exchange).expect("a header");
    assert_eq!((own.service.as_str(), own.instance.as_str()), ("edge", "edge-1"));
    assert_eq!((own.endpoint.as_str(), own.peer.as_str(), own.span), ("/a", PEER, EXIT_SPAN));
    let text = format!("GET / HTTP/1.1\nsw8: {}\n\n", carrier());
    let mut exchange = FakeExchange::parse(&text, 0);
    assert!(harness.run(&mut exchange).passes());
    let continued = sent(&exchange).expect("a header");
    assert_eq!(continued.trace_id, "t1");
    assert_ne!(continued.segment_id, "s1");
}

#[test]
fn segments_and_the_instance_are_reported() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = TestServer::ok();
    let services = services(&server.url(""), Some(runtime.handle().clone()));
    let handler = configure::<Skywalking>(&json!({}), &services).expect("the conf is good");
    let mut harness = Harness::with(handler, services);
    let text = format!("GET /a?b=c HTTP/1.1\nsw8: {}\n\n", carrier());
    let mut exchange = FakeExchange::parse(&text, 0);
    assert!(harness.run(&mut exchange).passes());
    harness.respond(&mut exchange, "200", &["x"]);
    let transfer = Transfer { status: 502, upstream_status: Some(503), ..Transfer::default() };
    harness.log(&mut exchange, transfer);
    let mut requests = [server.next_request(), server.next_request()];
    requests.sort();
    assert!(requests[0].starts_with("POST /v3/management/reportProperties "), "{}", requests[0]);
    assert!(requests[1].starts_with("POST /v3/segments "), "{}", requests[1]);
    let instance: Value = serde_json::from_str(body(&requests[0])).expect("JSON");
    assert_eq!((&instance["service"], &instance["serviceInstance"]), (&json!("edge"), &json!("edge-1")));
    let segments: Value = serde_json::from_str(body(&requests[1])).expect("JSON");
    let segment = &segments[0];
    assert_eq!((&segment["traceId"], &segment["service"]), (&json!("t1"), &json!("edge")));
    let (exit, entry) = (&segment["spans"][0], &segment["spans"][1]);
    assert_eq!((&exit["spanType"], &exit["spanId"], &exit["parentSpanId"]), (&json!("Exit"), &json!(1), &json!(0)));
    assert_eq!((&entry["spanType"], &entry["parentSpanId"]), (&json!("Entry"), &json!(-1)));
    assert_eq!((&entry["isError"], &entry["componentId"]), (&json!(true), &json!(6002)));
    assert_eq!(entry["tags"][2], json!({"key": "http.status", "value": "502"}));
    assert_eq!(entry["refs"][0]["parentTraceSegmentId"], json!("s1"));
    drop(harness);
}
