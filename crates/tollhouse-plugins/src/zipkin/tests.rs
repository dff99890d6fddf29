//! What the plugin reads from B3 headers, sends to nodes, and reports.

use tollhouse_plugin::testing::{FakeExchange, Harness};

use super::*;
use crate::logging::test_logger::TestLogger;
use crate::shared::test_server::{TestServer, body, header};

const TRACE: &str = "80f198ee56343ba864fe8b2a57d3eff7";
const SPAN: &str = "e457b5a2e4d86bd1";
const PARENT: &str = "05e3ac9a4f6e3b90";

fn harness(ratio: f64) -> Harness {
    Harness::new::<Zipkin>(&json!({"endpoint": "http://127.0.0.1:1/", "sample_ratio": ratio}))
}

/// Headers that a node receives, or the status of the refusal.
fn sent(ratio: f64, lines: &str) -> Vec<(String, String)> {
    let mut exchange = FakeExchange::parse(&format!("GET / HTTP/1.1\n{lines}\n"), 0);
    let mut harness = harness(ratio);
    assert!(harness.run(&mut exchange).passes(), "{lines}");
    let mut seen = Vec::new();
    tollhouse_plugin::each_header(&exchange, &mut |name, value| {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        if name.contains("b3") {
            seen.push((name, String::from_utf8_lossy(value).into_owned()));
        }
    });
    seen.sort();
    seen
}

fn value<'s>(sent: &'s [(String, String)], name: &str) -> Option<&'s str> {
    sent.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

#[test]
fn both_kinds_of_headers_continue_a_trace() {
    let several = format!(
        "x-b3-traceid: {TRACE}\nx-b3-spanid: {SPAN}\nx-b3-parentspanid: {PARENT}\nx-b3-sampled: 0\n"
    );
    for (lines, sampled) in [
        (format!("b3: {TRACE}-{SPAN}-1-{PARENT}\n"), "1"),
        (format!("b3: {TRACE}-{SPAN}-0\n"), "0"),
        (several, "0"),
    ] {
        let seen = sent(1.0, &lines);
        assert_eq!(value(&seen, "b3"), None, "{lines}");
        assert_eq!(value(&seen, "x-b3-traceid"), Some(TRACE), "{lines}");
        assert_eq!(value(&seen, "x-b3-sampled"), Some(sampled), "{lines}");
        assert_ne!(value(&seen, "x-b3-spanid"), Some(SPAN), "{lines}");
        if sampled == "0" {
            assert_eq!(value(&seen, "x-b3-parentspanid"), Some(SPAN), "{lines}");
        }
    }
    let debug = sent(0.00001, &format!("b3: {TRACE}-{SPAN}-d\n"));
    assert_eq!((value(&debug, "x-b3-flags"), value(&debug, "x-b3-sampled")), (Some("1"), Some("1")));
    let off = sent(1.0, "b3: 0\n");
    assert_eq!(value(&off, "x-b3-sampled"), Some("0"));
    let flagged = sent(0.00001, "x-b3-flags: 1\n");
    assert_eq!(value(&flagged, "x-b3-sampled"), Some("1"));
}

#[test]
fn a_broken_header_is_refused_and_invalid_ids_begin_a_new_trace() {
    for lines in ["b3: abc\n", "b3: d\n", "b3:\n"] {
        let refused = harness(1.0).request(&format!("GET / HTTP/1.1\n{lines}\n"));
        assert_eq!(refused.status(), 400, "{lines}");
    }
    for lines in [format!("b3: abc-{SPAN}\n"), format!("x-b3-traceid: {TRACE}\nx-b3-spanid: x\n")] {
        let seen = sent(1.0, &lines);
        assert_ne!(value(&seen, "x-b3-traceid"), Some(TRACE), "{lines}");
        assert_eq!(value(&seen, "x-b3-traceid").map(str::len), Some(32), "{lines}");
    }
}

#[test]
fn a_request_is_reported_with_its_parts() {
    for (version, expected) in [
        (2, &["apisix.proxy", "apisix.response_span", "apisix.request"][..]),
        (
            1,
            &[
                "apisix.rewrite",
                "apisix.access",
                "apisix.body_filter",
                "apisix.proxy",
                "apisix.request",
            ],
        ),
    ] {
        let server = TestServer::ok();
        let conf = json!({"endpoint": server.url("/api/v2/spans"), "sample_ratio": 1,
            "span_version": version, "server_addr": "10.0.0.1", "service_name": "edge"});
        let mut logger = TestLogger::new::<Zipkin>(&conf, None);
        logger.log(&format!("GET /a?b=c HTTP/1.1\nb3: {TRACE}-{SPAN}-1\n\n"));
        let runtime = logger.end();
        let request = server.next_request();
        drop(runtime);
        assert!(request.starts_with("POST /api/v2/spans HTTP/1.1\r\n"), "{request}");
        assert_eq!(header(&request, "content-type"), Some("application/json"));
        let spans: Vec<Value> = serde_json::from_str(body(&request)).expect("JSON");
        let names: Vec<&str> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
        assert_eq!(names, expected);
        let own = spans.last().expect("the request's span");
        assert_eq!((&own["traceId"], &own["parentId"]), (&json!(TRACE), &json!(SPAN)));
        assert_eq!((&own["kind"], &own["tags"]["http.url"]), (&json!("SERVER"), &json!("/a?b=c")));
        assert_eq!(own["tags"]["http.status_code"], json!("200"));
        let local = json!({"serviceName": "edge", "ipv4": "10.0.0.1", "port": 9080});
        assert_eq!(own["localEndpoint"], local);
        for span in &spans[..spans.len() - 1] {
            assert!(span["parentId"].is_string() && span["duration"].is_u64(), "{span}");
        }
    }
}
