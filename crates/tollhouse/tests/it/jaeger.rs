//! Jaeger, which `cargo x install` builds, as the backend of traces: what its query API shows is what a
//! person on call sees.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{self, Running};
use tollhouse_testkit::{Origin, RawClient, ReservedPort};

use crate::otel_collector::PATIENCE;
use crate::support::{everything_to, gateway};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A running Jaeger that keeps traces in memory.
struct Jaeger {
    _running: Running,
    otlp: ReservedPort,
    query: ReservedPort,
    _query_grpc: ReservedPort,
    _folder: tempfile::TempDir,
}

impl Jaeger {
    /// Starts it; `None` if it is not installed.
    fn start() -> Option<Self> {
        let program = program::find("jaeger")?;
        let folder = tempfile::tempdir().expect("a folder can be made");
        let [otlp, query, query_grpc] = std::array::from_fn(|_| ReservedPort::new());
        let at = |port: &ReservedPort| format!("127.0.0.1:{}", port.number());
        let configuration = json!({
            "extensions": {
                "jaeger_storage": {"backends": {"own": {"memory": {"max_traces": 1000}}}},
                "jaeger_query": {
                    "storage": {"traces": "own"},
                    "http": {"endpoint": at(&query)},
                    "grpc": {"endpoint": at(&query_grpc)},
                },
            },
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": at(&otlp)}}}},
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "own"}},
            "service": {
                "extensions": ["jaeger_storage", "jaeger_query"],
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {
                    "traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]},
                },
            },
        });
        let file = folder.path().join("jaeger.yaml");
        std::fs::write(&file, configuration.to_string()).expect("a file can be written");
        let running = Running::start(Command::new(program).arg("--config").arg(&file));
        running.output().wait_line_within(PATIENCE, "Jaeger to serve", |line| {
            line.contains("Everything is ready").then_some(())
        });
        Some(Self { _running: running, otlp, query, _query_grpc: query_grpc, _folder: folder })
    }

    /// Waits for a trace with this number of spans, as the query API shows it.
    fn wait_trace(&self, id: &str, spans: usize) -> Value {
        let query = SocketAddr::from(([127, 0, 0, 1], self.query.number()));
        wait_for("the trace", || {
            let answer = RawClient::connect(query).get(&format!("/api/traces/{id}"));
            let found: Value = serde_json::from_str(&answer.text()).ok()?;
            let trace = found["data"][0].clone();
            (trace["spans"].as_array()?.len() == spans).then_some(trace)
        })
    }
}

#[test]
fn jaeger_shows_the_attempt_below_the_request_and_the_failure_of_both() {
    let Some(jaeger) = Jaeger::start() else { return };
    let origin = Origin::answering("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
    let gateway = gateway()
        .set("tracing.enabled", "true")
        .set("tracing.endpoint", &format!("http://127.0.0.1:{}", jaeger.otlp.number()))
        .set("tracing.service_name", "edge")
        .set("tracing.batch_time", "100ms")
        .resources(&everything_to(origin.address()))
        .start();
    let request =
        format!("GET /orders HTTP/1.1\r\nHost: a\r\ntraceparent: 00-{TRACE}-{SPAN}-01\r\n\r\n");
    assert_eq!(gateway.client().ask(&request).status(), 503);
    let trace = jaeger.wait_trace(TRACE, 2);
    let spans = trace["spans"].as_array().expect("spans");
    let of = |name: &str| spans.iter().find(|span| span["operationName"] == name).expect("a span");
    let (server, client) = (of("GET /*"), of("GET"));
    assert_eq!(client["references"][0]["spanID"], server["spanID"]);
    assert_eq!(server["references"][0]["spanID"], SPAN);
    assert_eq!(
        trace["processes"][server["processID"].as_str().unwrap_or_default()]["serviceName"],
        "edge"
    );
    let tag = |span: &Value, name: &str| {
        let tags = span["tags"].as_array().expect("tags");
        tags.iter().find(|tag| tag["key"] == name).map(|tag| tag["value"].clone())
    };
    for (span, kind) in [(server, "server"), (client, "client")] {
        assert_eq!(tag(span, "span.kind"), Some(json!(kind)));
        assert_eq!(tag(span, "error"), Some(json!(true)), "{span}");
        assert_eq!(tag(span, "http.response.status_code"), Some(json!(503)));
    }
}
