//! Traces as collectors receive them: one inside of the test that decodes OTLP with the messages of
//! the `opentelemetry-proto` crate, and OpenTelemetry's own, which `cargo x install` builds.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use prost::Message as _;
use serde_json::json;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program;
use tollhouse_testkit::{ClosedPort, Origin};
use tollhouse_trace::otlp::messages::collector::trace::v1::ExportTraceServiceRequest;
use tollhouse_trace::otlp::messages::common::v1::any_value;

use crate::metrics_objects::open_metrics;
use crate::on_call;
use crate::otel_collector::Collector;
use crate::support::{everything_to, gateway, upstream};
use crate::tls_support::Authority;

/// A collector in Go starts within a second, and later where others compile: this bounds a hang and
/// measures nothing.
const PATIENCE: Duration = Duration::from_secs(60);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A span as the test sees it: name, kind, ids, and attributes as text.
#[derive(Debug)]
struct Span {
    name: String,
    kind: i32,
    trace_id: String,
    id: String,
    parent: String,
    service: String,
    attributes: Vec<(String, String)>,
}

impl Span {
    fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(other, _)| other == name);
        found.map_or("", |(_, value)| value)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(value: Option<&any_value::Value>) -> String {
    match value {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn spans(request: &ExportTraceServiceRequest) -> Vec<Span> {
    let mut seen = Vec::new();
    for of_resource in &request.resource_spans {
        let resource = of_resource.resource.as_ref().expect("a resource");
        let name = resource.attributes.iter().find(|it| it.key == "service.name");
        let service = text(name.and_then(|it| it.value.as_ref()?.value.as_ref()));
        for span in of_resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
            let attributes = span.attributes.iter().map(|it| {
                let value = it.value.as_ref().and_then(|value| value.value.as_ref());
                (it.key.clone(), text(value))
            });
            seen.push(Span {
                name: span.name.clone(),
                kind: span.kind,
                trace_id: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                service: service.clone(),
                attributes: attributes.collect(),
            });
        }
    }
    seen
}

/// Starts a collector that answers every export with 200; returns its address and the spans.
fn collector() -> (String, Receiver<Vec<Span>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                while let Some(body) = read_body(&mut stream) {
                    let request = ExportTraceServiceRequest::decode(&body[..]).expect("OTLP");
                    let _ = sender.send(spans(&request));
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, received)
}

fn read_body(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

#[test]
fn traces_reach_the_collector_with_the_ids_of_the_log_and_of_nodes() {
    let origin = Origin::named("a");
    let (address, received) = collector();
    let gateway = gateway()
        .set("tracing.enabled", "true")
        .set("tracing.endpoint", &address)
        .set("tracing.service_name", "edge")
        .set("access_log.format", "seen $trace_id $span_id")
        .set("access_log.file", "-")
        .resources(&everything_to(origin.address()));
    let mut gateway = gateway.start();
    let request =
        format!("GET /x HTTP/1.1\r\nHost: a\r\ntraceparent: 00-{TRACE}-{SPAN}-01\r\n\r\n");
    gateway.client().ask(&request);
    let line =
        gateway.output().wait_line("a line", |line| line.strip_prefix("seen ").map(str::to_owned));
    // The end of the process exports what is left.
    gateway.terminate();
    assert_eq!(gateway.wait_exit().code(), Some(0));
    let spans = received.recv_timeout(PATIENCE).expect("spans");
    let [server, client] = &spans[..] else { panic!("two spans: {spans:?}") };
    assert_eq!((server.trace_id.as_str(), server.parent.as_str()), (TRACE, SPAN));
    assert_eq!(line, format!("{TRACE} {}", server.id));
    assert_eq!((server.name.as_str(), server.kind, server.service.as_str()), ("GET /*", 2, "edge"));
    assert_eq!(server.attribute("http.response.status_code"), "200");
    assert_eq!((client.kind, client.parent.as_str()), (3, server.id.as_str()));
    let sent = origin.requests();
    let sent = sent[0].field("traceparent").expect("a context").to_owned();
    assert_eq!(sent, format!("00-{TRACE}-{}-01", client.id));
}

#[test]
fn a_failed_request_shows_its_trace_beside_its_cause() {
    let (address, _received) = collector();
    let closed = ClosedPort::new();
    let gateway = gateway()
        .set("tracing.enabled", "true")
        .set("tracing.endpoint", &address)
        .without_resources()
        .start();
    let route = json!({"uri": "/*", "upstream": upstream([closed.address()])});
    assert!(gateway.admin("PUT", "/routes/r1", &route).status() < 300);
    let request =
        format!("GET /x HTTP/1.1\r\nHost: a\r\ntraceparent: 00-{TRACE}-{SPAN}-01\r\n\r\n");
    let mut client = gateway.client();
    let answer = wait_for("the route", || {
        let answer = client.ask(&request);
        (answer.status() == 502).then_some(answer)
    });
    // Clients can quote the trace.
    assert_eq!(answer.field("x-trace-id"), Some(TRACE));
    assert!(
        answer.text().contains(&format!("<center>trace {TRACE}</center>")),
        "{}",
        answer.text()
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(["requests", TRACE]).env_remove("TOLLHOUSE_ADMIN_KEY");
    command.arg("--set").arg(format!("data_dir={}", gateway.folder().display()));
    command.args(["--admin", &format!("http://{}", gateway.admin_address())]);
    let output = program::run_well(&mut command);
    assert!(output.contains(&format!(" trace_id={TRACE} ")), "{output}");
    assert!(output.contains("code=upstream_connect_failed"), "{output}");
}

#[test]
fn a_collector_that_hangs_costs_spans_and_no_requests() {
    let origin = Origin::named("a");
    // Connections wait in the backlog of the kernel, and no answer comes.
    let hung = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", hung.local_addr().expect("an address"));
    let gateway = gateway()
        .set("tracing.enabled", "true")
        .set("tracing.endpoint", &address)
        .set("tracing.queue_spans", "200")
        .set("tracing.batch_spans", "50")
        .resources(&everything_to(origin.address()))
        .start();
    let before = gateway.memory_before();
    let mut client = gateway.client();
    for _ in 0..2_000 {
        assert_eq!(client.get("/x").status(), 200);
    }
    wait_for("the spans that found no room to be counted", || {
        (gateway.metric("tollhouse_spans_lost_total") >= 3_000.0).then_some(())
    });
    assert!(gateway.metric("tollhouse_spans_exported_total").abs() < 0.5);
    assert!(gateway.memory_bytes_grown(before) < 16 << 20);
    drop(hung);
}

#[test]
fn opentelemetrys_collector_takes_spans_over_both_transports() {
    let Some(collector) = Collector::start() else { return };
    let origin = Origin::named("a");
    let http = format!("http://127.0.0.1:{}", collector.http());
    let grpc = format!("http://127.0.0.1:{}", collector.grpc());
    for (protocol, compression, endpoint) in [
        ("http/protobuf", "none", &http),
        ("http/protobuf", "gzip", &http),
        ("grpc", "none", &grpc),
        ("grpc", "gzip", &grpc),
    ] {
        let service = format!("edge-{}-{compression}", protocol.replace('/', "-"));
        let mut gateway = gateway()
            .set("tracing.enabled", "true")
            .set("tracing.protocol", protocol)
            .set("tracing.compression", compression)
            .set("tracing.endpoint", endpoint)
            .set("tracing.service_name", &service)
            .resources(&everything_to(origin.address()))
            .start();
        assert_eq!(gateway.client().get("/x").status(), 200);
        gateway.terminate();
        assert_eq!(gateway.wait_exit().code(), Some(0));
        collector.wait(&format!("service.name: Str({service})"));
        collector.wait("Name : GET /*");
        collector.wait("Kind : Server");
        collector.wait("http.response.status_code: Int(200)");
        collector.wait("Kind : Client");
    }
}

#[test]
fn opentelemetrys_collector_takes_the_spans_of_both_plugins() {
    let Some(collector) = Collector::start() else { return };
    let origin = Origin::named("a");
    let zipkin = format!("http://127.0.0.1:{}/api/v2/spans", collector.zipkin());
    let resources = json!({
        "routes": [
            {"id": "z", "uri": "/zipkin", "upstream": upstream([origin.address()]),
                "plugins": {"zipkin": {"endpoint": zipkin, "sample_ratio": 1, "service_name": "by-zipkin"}}},
            {"id": "o", "uri": "/otel", "upstream": upstream([origin.address()]),
                "plugins": {"opentelemetry": {"sampler": {"name": "always_on"}}}},
        ],
        "plugin_metadata": [{
            "id": "opentelemetry",
            "collector": {"address": format!("127.0.0.1:{}", collector.http())},
            "batch_span_processor": {"inactive_timeout": 0.1},
            "resource": {"service.name": "by-plugin"},
        }],
    });
    let gateway = gateway().resources(&resources).start();
    let mut client = gateway.client();
    for path in ["/otel", "/zipkin"] {
        assert_eq!(client.get(path).status(), 200, "{path}");
    }
    collector.wait("service.name: Str(by-plugin)");
    collector.wait("apisix.route_id: Str(o)");
    // Without a reload, a batch of zipkin waits for five seconds.
    collector.wait("service.name: Str(by-zipkin)");
    collector.wait("Name : apisix.request");
}

#[test]
fn opentelemetrys_collector_is_reached_over_tls_with_a_client_certificate() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path.display().to_string()
    };
    let (server, own) = (servers.server(&["localhost"]), clients.client("edge"));
    let ca = file("ca.pem", &servers.pem);
    let tls = json!({
        "cert_file": file("server.pem", &server.chain), "key_file": file("server.key", &server.key),
        "client_ca_file": file("clients.pem", &clients.pem),
    });
    let Some(collector) = Collector::start_with(&tls) else { return };
    let origin = Origin::named("a");
    let (cert, key) = (file("own.pem", &own.chain), file("own.key", &own.key));
    for (protocol, port) in [("http/protobuf", collector.http()), ("grpc", collector.grpc())] {
        let service = format!("encrypted-{}", protocol.replace('/', "-"));
        let settings = || {
            gateway()
                .set("tracing.enabled", "true")
                .set("tracing.protocol", protocol)
                .set("tracing.endpoint", &format!("https://localhost:{port}"))
                .set("tracing.service_name", &service)
                .set("tracing.batch_time", "100ms")
                .set("tracing.tls.ca", &ca)
                .resources(&everything_to(origin.address()))
        };
        let gateway =
            settings().set("tracing.tls.cert", &cert).set("tracing.tls.key", &key).start();
        assert_eq!(gateway.client().get("/x").status(), 200);
        collector.wait(&format!("service.name: Str({service})"));
        wait_for("the export", || {
            (gateway.metric("tollhouse_spans_exported_total") >= 2.0).then_some(())
        });
        // Without its certificate the gateway is refused.
        let stranger = settings().start();
        assert_eq!(stranger.client().get("/x").status(), 200);
        stranger.output().wait_line("the refusal", |line| {
            line.contains("a batch of log entries was not delivered").then_some(())
        });
        assert!(stranger.metric("tollhouse_spans_exported_total").abs() < 0.5);
    }
}

#[test]
fn a_trace_that_the_gateway_began_is_an_exemplar_and_an_error_names_it() {
    let closed = ClosedPort::new();
    let (address, _received) = collector();
    let gateway = gateway()
        .set("tracing.enabled", "true")
        .set("tracing.endpoint", &address)
        .resources(&everything_to(closed.address()))
        .start();
    let answer = gateway.client().get("/x");
    let trace = answer.field("x-trace-id").expect("an id").to_owned();
    assert_eq!((answer.status(), trace.len()), (502, 32));
    let page = wait_for("an exemplar", || {
        let page = open_metrics(&gateway).text();
        page.contains(&trace).then_some(page)
    });
    let line = page.lines().find(|line| line.contains(&trace)).expect("a line");
    assert!(line.starts_with("tollhouse_route_request_duration_seconds_bucket"), "{line}");
}

#[test]
fn a_trace_that_is_not_recorded_is_found_by_the_id_that_the_client_saw() {
    let closed = ClosedPort::new();
    let gateway = gateway()
        .set("tracing.enabled", "true")
        .set("tracing.endpoint", &format!("http://{}", closed.address()))
        .set("tracing.sampler", "always_off")
        .without_resources()
        .start();
    let route = json!({"uri": "/*", "upstream": upstream([closed.address()])});
    assert!(gateway.admin("PUT", "/routes/r1", &route).status() < 300);
    let trace = wait_for("the route", || {
        let answer = gateway.client().get("/x");
        (answer.status() == 502).then(|| answer.field("x-trace-id").map(str::to_owned))?
    });
    let words = ["requests", &trace];
    let output = program::run_well(&mut on_call::command(&gateway, &words));
    assert!(output.contains(&format!(" unrecorded_trace_id={trace} ")), "{output}");
    // Nothing is shown if the operator does not want it.
    let silent = crate::support::gateway()
        .set("tracing.enabled", "true")
        .set("tracing.endpoint", &format!("http://{}", closed.address()))
        .set("tracing.in_errors", "false")
        .resources(&everything_to(closed.address()))
        .start();
    let answer = silent.client().get("/x");
    assert_eq!(answer.status(), 502);
    assert!(answer.field("x-trace-id").is_none() && !answer.text().contains("trace"));
}
