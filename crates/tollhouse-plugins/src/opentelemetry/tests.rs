//! Which requests the plugin records, with which ids and attributes.

use serde_json::{Value, json};
use tollhouse_plugin::testing::{FakeExchange, Harness, configure_among};
use tollhouse_plugin::{Catalogue, PluginType, Services, Transfer};

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn harness(conf: &Value, metadata: Option<&Value>) -> Harness {
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    let catalogue = Catalogue::new([PluginType::new::<Opentelemetry>()]);
    let handler = configure_among::<Opentelemetry>(conf, &services, &catalogue, metadata);
    Harness::with(handler.expect("the conf is good"), services)
}

fn traced(harness: &mut Harness, text: &str) -> FakeExchange {
    let mut exchange = FakeExchange::parse(text, 0);
    assert!(harness.run(&mut exchange).passes());
    exchange
}

/// Names and texts of the attributes that the plugin adds.
fn attributes(exchange: &FakeExchange) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    exchange.trace.each_attribute(|attribute| {
        let text = match attribute.value {
            AttributeValue::Text(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        };
        seen.push((attribute.name.to_owned(), text));
    });
    seen
}

#[test]
fn samplers_decide_by_name_fraction_and_caller() {
    let recorded = |sampler: Value, flags: &str| {
        let mut harness = harness(&json!({"sampler": sampler}), Some(&json!({})));
        let line = match flags {
            "" => String::new(),
            flags => format!("traceparent: 00-{TRACE}-{SPAN}-{flags}\n"),
        };
        let exchange = traced(&mut harness, &format!("GET / HTTP/1.1\n{line}\n"));
        assert!(exchange.trace.is_active(), "also what is not recorded has a context");
        exchange.trace.is_recorded()
    };
    let parent = |root: &str| json!({"name": "parent_base", "options": {"root": {"name": root}}});
    for (sampler, none, on, off) in [
        (json!({}), false, false, false),
        (json!({"name": "always_on"}), true, true, true),
        (json!({"name": "always_off"}), false, false, false),
        (json!({"name": "trace_id_ratio", "options": {"fraction": 1.0}}), true, true, true),
        (json!({"name": "trace_id_ratio"}), false, false, false),
        (parent("always_on"), true, true, false),
        (parent("always_off"), false, true, false),
    ] {
        let seen = ["", "01", "00"].map(|flags| recorded(sampler.clone(), flags));
        assert_eq!(seen, [none, on, off], "{sampler}");
    }
}

#[test]
fn without_a_collector_only_a_trace_of_the_process_is_changed() {
    let conf = json!({"sampler": {"name": "always_on"}});
    let exchange = traced(&mut harness(&conf, None), "GET / HTTP/1.1\n\n");
    assert!(!exchange.trace.is_active());
}

#[test]
fn ids_come_from_the_caller_or_from_the_request_id() {
    let metadata = json!({"trace_id_source": "x-request-id"});
    let conf = json!({"sampler": {"name": "always_on"}});
    let id = |lines: &str| {
        let mut harness = harness(&conf, Some(&metadata));
        let exchange = traced(&mut harness, &format!("GET / HTTP/1.1\n{lines}\n"));
        exchange.trace.context().expect("a trace").trace_id.to_hex()
    };
    let upper = TRACE.to_ascii_uppercase();
    assert_eq!(id(&format!("X-Request-Id: {upper}\n")), TRACE);
    let other = "a".repeat(32);
    let both = format!("X-Request-Id: {other}\ntraceparent: 00-{TRACE}-{SPAN}-01\n");
    assert_eq!(id(&both), TRACE);
    for invalid in ["5f1d7a3c-8a39-4f56-9a34-0d2f8f0b6d11", &"0".repeat(32), ""] {
        assert_ne!(id(&format!("X-Request-Id: {invalid}\n")), invalid);
    }
    let twice = id(&format!("X-Request-Id: {other}\nX-Request-Id: {other}\n"));
    assert_ne!(twice, other);
    let repeated = format!("traceparent: 00-{TRACE}-{SPAN}-01\n").repeat(2);
    assert_ne!(id(&repeated), TRACE);
}

#[test]
fn variables_are_set_if_metadata_says_so() {
    let conf = json!({"sampler": {"name": "always_on"}});
    let mut harness = harness(&conf, Some(&json!({"set_ngx_var": true})));
    let line = format!("traceparent: 00-{TRACE}-{SPAN}-01\n");
    let exchange = traced(&mut harness, &format!("GET / HTTP/1.1\n{line}\n"));
    let variable = |name: &str| {
        let set = exchange.edits.variables.iter().find(|(other, _)| *other == name);
        String::from_utf8_lossy(&set.expect("it is set").1).into_owned()
    };
    let span = exchange.trace.context().expect("a trace").span_id.to_hex();
    assert_eq!(variable("opentelemetry_trace_id"), TRACE);
    assert_eq!(variable("opentelemetry_span_id"), span);
    assert_eq!(variable("opentelemetry_context_traceparent"), format!("00-{TRACE}-{span}-01"));
}

#[test]
fn variables_and_headers_become_attributes() {
    let conf = json!({
        "sampler": {"name": "always_on"},
        "additional_attributes": ["http_x_a", "arg_q", "http_none"],
        "additional_header_prefix_attributes": ["x-b-*", "x-c", "x-none"],
    });
    let mut harness = harness(&conf, Some(&json!({})));
    let text = "GET /?q=1 HTTP/1.1\nX-A: a\nX-B-One: 1\nx-b-one: 2\nX-B-Two: false\nX-C: c\n\n";
    let mut exchange = traced(&mut harness, text);
    exchange.variables.push(("route_name".into(), "front".into()));
    harness.log(&mut exchange, Transfer::default());
    let expected = [
        ("apisix.route_name", "front"),
        ("http_x_a", "a"),
        ("arg_q", "1"),
        ("x-b-one", "1, 2"),
        ("x-b-two", "false"),
        ("x-c", "c"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(attributes(&exchange), expected);
}

#[test]
fn addresses_select_transport_and_path() {
    for (address, protocol, expected) in [
        ("127.0.0.1:4318", Protocol::Http, "http://127.0.0.1:4318/v1/traces"),
        ("127.0.0.1:4317", Protocol::Grpc, "http://127.0.0.1:4317"),
        ("http://c:4318/", Protocol::Http, "http://c:4318/v1/traces"),
        ("https://c/otlp/v1/traces", Protocol::Http, "https://c/otlp/v1/traces"),
        ("https://c:4317", Protocol::Grpc, "https://c:4317"),
        ("grpc://c:9", Protocol::Grpc, "http://c:9"),
    ] {
        let (seen, url) = endpoint(address);
        assert_eq!((seen, &*url), (protocol, expected), "{address}");
    }
}
