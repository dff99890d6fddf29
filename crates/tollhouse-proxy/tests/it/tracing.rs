//! Spans of requests: what is recorded, and which context nodes receive.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tollhouse_proxy::SnapshotCell;
use tollhouse_trace::{
    AttributeValue, Propagator, Propagators, Sampler, SpanBlock, SpanContext, SpanKind, SpanSink,
    SpanStatus, SpanView, Tracer, w3c,
};

use crate::support::{Gateway, Options, PATIENCE, connect, read_head, snapshot};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

#[derive(Debug, Default)]
struct Blocks(Mutex<Vec<SpanBlock>>);

impl SpanSink for Blocks {
    fn take(&self, block: SpanBlock) {
        self.0.lock().expect("no test panicked here").push(block);
    }
}

/// A span in a form that tests compare.
#[derive(Debug, Clone)]
struct Seen {
    context: SpanContext,
    parent: Option<String>,
    kind: SpanKind,
    name: String,
    error: Option<String>,
    trace_state: String,
    attributes: Value,
    took_ns: u64,
}

impl Blocks {
    fn spans(&self) -> Vec<Seen> {
        let blocks = self.0.lock().expect("no test panicked here");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seen = |span: &SpanView<'_>| {
            let attributes = span.attributes.iter().map(|it| {
                let value = match it.value {
                    AttributeValue::Text(bytes) => json!(text(bytes)),
                    AttributeValue::Number(number) => json!(number),
                    AttributeValue::Flag(flag) => json!(flag),
                    AttributeValue::Real(real) => json!(real),
                };
                (it.name.to_owned(), value)
            });
            Seen {
                context: span.context,
                parent: span.parent.map(|parent| parent.to_hex()),
                kind: span.kind,
                name: text(span.name),
                error: match span.status {
                    SpanStatus::Unset => None,
                    SpanStatus::Error(message) => Some(message.to_owned()),
                },
                trace_state: text(span.trace_state),
                attributes: attributes.collect::<serde_json::Map<_, _>>().into(),
                took_ns: span.end_ns - span.start_ns,
            }
        };
        let mut spans = Vec::new();
        blocks.iter().for_each(|block| block.each(|span| spans.push(seen(span))));
        spans
    }
}

/// A node that answers every request with `status`, and shows the heads that it received.
fn node(status: u16) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (sender, heads) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut head = Vec::new();
                while read_head(&mut stream, &mut head).is_some() {
                    let _ = sender.send(String::from_utf8_lossy(&head).to_ascii_lowercase());
                    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, heads)
}

/// An address at which nothing listens.
fn dead() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address")
}

fn route(nodes: &[SocketAddr], plugins: Value) -> Value {
    let weight = |index: usize| 1000 - 999 * usize::from(index > 0);
    let nodes: Vec<Value> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let priority = -(index as i64);
            json!({"host": node.ip(), "port": node.port(), "weight": weight(index), "priority": priority})
        })
        .collect();
    json!({"id": "r", "uri": "/shop/*", "plugins": plugins,
        "upstream": {"type": "roundrobin", "nodes": nodes}})
}

struct Traced {
    gateway: Gateway,
    blocks: Arc<Blocks>,
}

fn traced(route: Value, sampler: Sampler, formats: &[Propagator]) -> Traced {
    let snapshots = Arc::new(SnapshotCell::new(snapshot(route)));
    let blocks = Arc::<Blocks>::default();
    let tracer = Tracer {
        sampler,
        propagators: Propagators::new(formats.iter().copied()),
        has_inner_spans: true,
        sink: Arc::<Blocks>::clone(&blocks),
    };
    let options = Options { tracer: Some(Arc::new(tracer)), ..Options::default() };
    Traced { gateway: Gateway::start_with(&snapshots, options), blocks }
}

impl Traced {
    /// Sends requests with these header lines over one connection, and returns the statuses.
    fn send(&self, requests: &[&str]) -> Vec<u16> {
        let mut client = connect(&self.gateway);
        let statuses = requests.iter().map(|lines| {
            let request =
                format!("{lines}\r\nHost: shop.example.com:8080\r\nUser-Agent: test/1\r\n\r\n");
            client.write_all(request.as_bytes()).expect("the worker reads");
            let mut head = Vec::new();
            read_head(&mut client, &mut head).expect("an answer");
            let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |text| text.parse().expect("a length"))];
            client.read_exact(&mut body).expect("a body");
            head[9..12].parse().expect("a status")
        });
        statuses.collect()
    }

    /// Ends the worker, which hands over its last spans.
    fn spans(self) -> Vec<Seen> {
        self.gateway.stop();
        self.blocks.spans()
    }
}

fn header<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(other, _)| *other == name).map(|(_, value)| value).collect()
}

#[test]
fn a_request_is_a_server_span_and_an_attempt_below_it() {
    let (address, heads) = node(200);
    let traced = traced(route(&[address], json!({})), Sampler::Always, &[Propagator::TraceContext]);
    let parent = format!("traceparent: 00-{TRACE}-{SPAN}-00");
    let request = format!("GET /shop/a?token=x HTTP/1.1\r\n{parent}\r\ntracestate: a=b");
    assert_eq!(traced.send(&[&request]), [200]);
    let head = heads.recv_timeout(PATIENCE).expect("a request");
    let spans = traced.spans();
    let [server, client] = &spans[..] else { panic!("two spans: {spans:?}") };
    assert_eq!((server.kind, server.name.as_str()), (SpanKind::Server, "GET /shop/*"));
    assert_eq!((server.parent.as_deref(), &*server.trace_state), (Some(SPAN), "a=b"));
    assert_eq!(server.context.trace_id.to_hex(), TRACE);
    assert_eq!(server.error, None);
    assert!(server.took_ns > 0 && client.took_ns <= server.took_ns);
    for (name, value) in [
        ("http.request.method", json!("GET")),
        ("url.scheme", json!("http")),
        ("url.path", json!("/shop/a")),
        ("http.route", json!("/shop/*")),
        ("http.response.status_code", json!(200)),
        ("server.address", json!("shop.example.com")),
        ("client.address", json!("127.0.0.1")),
        ("network.peer.address", json!("127.0.0.1")),
        ("network.protocol.version", json!("1.1")),
        ("user_agent.original", json!("test/1")),
        ("tollhouse.route.id", json!("r")),
    ] {
        assert_eq!(server.attributes[name], value, "{name}");
    }
    assert!(!server.attributes.to_string().contains("token"), "queries may hold secrets");
    assert_eq!((client.kind, client.name.as_str()), (SpanKind::Client, "GET"));
    assert_eq!(client.parent, Some(server.context.span_id.to_hex()));
    for (name, value) in [
        ("server.address", json!("127.0.0.1")),
        ("server.port", json!(address.port())),
        ("http.response.status_code", json!(200)),
        ("url.full", json!("http://shop.example.com:8080/shop/a")),
    ] {
        assert_eq!(client.attributes[name], value, "{name}");
    }
    // The node's parent is the attempt.
    let [sent] = header(&head, "traceparent")[..] else { panic!("one traceparent: {head}") };
    assert_eq!(w3c::parse(sent.as_bytes()), Some(client.context));
    assert_eq!(header(&head, "tracestate"), ["a=b"]);
}

#[test]
fn each_attempt_has_a_span_and_the_failed_one_its_reason() {
    let (address, heads) = node(200);
    let nodes = [dead(), address];
    let traced = traced(route(&nodes, json!({})), Sampler::Always, &[Propagator::TraceContext]);
    assert_eq!(traced.send(&["GET /shop/a HTTP/1.1"]), [200]);
    let head = heads.recv_timeout(PATIENCE).expect("a request");
    let spans = traced.spans();
    let [server, failed, answered] = &spans[..] else { panic!("three spans: {spans:?}") };
    assert_eq!((server.parent.as_deref(), server.error.as_deref()), (None, None));
    assert_eq!(failed.error.as_deref(), Some("upstream_connect_failed"));
    assert_eq!(failed.attributes["error.type"], json!("upstream_connect_failed"));
    assert_eq!(failed.attributes["http.request.resend_count"], Value::Null);
    assert_eq!(failed.attributes["server.port"], json!(nodes[0].port()));
    assert_eq!(answered.attributes["http.request.resend_count"], json!(1));
    assert_eq!(
        (answered.error.as_deref(), &answered.attributes["error.type"]),
        (None, &Value::Null)
    );
    let sent = header(&head, "traceparent")[0];
    assert_eq!(w3c::parse(sent.as_bytes()), Some(answered.context));
}

#[test]
fn failures_have_the_status_of_the_convention() {
    let (broken, _heads) = node(503);
    let (missing, _others) = node(404);
    for (address, status, server_error, client_error) in [
        (broken, 503, Some(""), Some("")),
        (missing, 404, None, Some("")),
        (dead(), 502, Some("upstream_connect_failed"), Some("upstream_connect_failed")),
    ] {
        let traced =
            traced(route(&[address], json!({})), Sampler::Always, &[Propagator::TraceContext]);
        assert_eq!(traced.send(&["GET /shop/a HTTP/1.1"]), [status]);
        let spans = traced.spans();
        assert_eq!(spans[0].error.as_deref(), server_error, "{status}");
        assert_eq!(spans[1].error.as_deref(), client_error, "{status}");
        assert_eq!(spans[0].attributes["http.response.status_code"], json!(status));
    }
}

#[test]
fn requests_without_a_route_or_a_known_method_have_bounded_names() {
    let (address, _heads) = node(200);
    let traced = traced(route(&[address], json!({})), Sampler::Always, &[Propagator::TraceContext]);
    assert_eq!(traced.send(&["GET /none HTTP/1.1", "BREW /shop/tea HTTP/1.1"]), [404, 200]);
    let spans = traced.spans();
    assert_eq!((spans[0].name.as_str(), &spans[0].attributes["http.route"]), ("GET", &Value::Null));
    assert_eq!(spans[0].attributes["tollhouse.error_code"], json!("route_not_found"));
    assert_eq!(spans[1].name, "HTTP /shop/*");
    assert_eq!(spans[1].attributes["http.request.method"], json!("_OTHER"));
    assert_eq!(spans[1].attributes["http.request.method_original"], json!("BREW"));
    assert_ne!(spans[0].context.trace_id, spans[1].context.trace_id);
}

#[test]
fn what_is_not_recorded_still_has_a_context_at_the_node() {
    let (address, heads) = node(200);
    let never = Sampler::Never;
    let traced = traced(route(&[address], json!({})), never, &[Propagator::TraceContext]);
    let repeated = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n").repeat(2);
    let requests = [
        format!("GET /shop/a HTTP/1.1\r\ntraceparent: 00-{TRACE}-{SPAN}-01\r\ntracestate: a=b"),
        "GET /shop/b HTTP/1.1\r\ntraceparent: 00-broken\r\ntracestate: a=b".to_owned(),
        format!("GET /shop/c HTTP/1.1\r\n{}", repeated.trim_end()),
        "GET /shop/d HTTP/1.1".to_owned(),
    ];
    let requests = requests.each_ref().map(String::as_str);
    assert_eq!(traced.send(&requests), [200; 4]);
    let seen: Vec<(bool, bool, usize)> = (0..4)
        .map(|_| {
            let head = heads.recv_timeout(PATIENCE).expect("a request");
            let [sent] = header(&head, "traceparent")[..] else { panic!("one: {head}") };
            let context = w3c::parse(sent.as_bytes()).expect("a context");
            let is_same = context.trace_id.to_hex() == TRACE;
            (is_same, context.is_sampled, header(&head, "tracestate").len())
        })
        .collect();
    // The state goes with the context that it belongs to.
    let new = (false, false, 0);
    assert_eq!(seen, [(true, false, 1), new, new, new]);
    assert_eq!(traced.spans().len(), 0);
}

#[test]
fn b3_headers_are_read_and_written() {
    let (address, heads) = node(200);
    let formats = [Propagator::B3Multi, Propagator::B3Single];
    let sampler = Sampler::Never.after_parent();
    let traced = traced(route(&[address], json!({})), sampler, &formats);
    let b3 = format!("GET /shop/a HTTP/1.1\r\nb3: {TRACE}-{SPAN}-1\r\nx-b3-flags: 0");
    assert_eq!(traced.send(&[&b3]), [200]);
    let head = heads.recv_timeout(PATIENCE).expect("a request");
    let spans = traced.spans();
    let span = spans[1].context.span_id.to_hex();
    assert_eq!(header(&head, "x-b3-traceid"), [TRACE]);
    assert_eq!(header(&head, "x-b3-spanid"), [span.as_str()]);
    assert_eq!(header(&head, "x-b3-parentspanid"), [spans[0].context.span_id.to_hex()]);
    assert_eq!(header(&head, "x-b3-sampled"), ["1"]);
    assert_eq!(header(&head, "b3"), [format!("{TRACE}-{span}-1")]);
    assert_eq!(header(&head, "x-b3-flags"), [""; 0]);
    assert_eq!(header(&head, "traceparent"), [""; 0]);
}

#[test]
fn a_plugin_takes_the_place_of_the_trace_of_the_process() {
    let (address, heads) = node(200);
    let plugins = json!({"opentelemetry": {"sampler": {"name": "always_on"},
        "additional_attributes": ["http_user_agent"]}});
    let traced = traced(route(&[address], plugins), Sampler::Never, &[Propagator::TraceContext]);
    assert_eq!(traced.send(&["GET /shop/a?q=1 HTTP/1.1"]), [200]);
    let head = heads.recv_timeout(PATIENCE).expect("a request");
    let spans = traced.spans();
    let [server, client] = &spans[..] else { panic!("two spans: {spans:?}") };
    assert_eq!((server.name.as_str(), client.name.as_str()), ("GET /shop/*", "apisix.upstream"));
    for (name, value) in [
        ("http.method", json!("GET")),
        ("http.target", json!("/shop/a?q=1")),
        ("net.host.name", json!("shop.example.com")),
        ("http.status_code", json!(200)),
        ("apisix.route_id", json!("r")),
        ("apisix.response_source", json!("upstream")),
        ("http_user_agent", json!("test/1")),
    ] {
        assert_eq!(server.attributes[name], value, "{name}");
    }
    let [sent] = header(&head, "traceparent")[..] else { panic!("one traceparent: {head}") };
    assert_eq!(w3c::parse(sent.as_bytes()), Some(client.context));
}

#[test]
fn plugins_have_spans_of_their_own_if_asked_for() {
    let (address, _heads) = node(200);
    let plugins = json!({"request-id": {}, "proxy-rewrite": {"headers": {"set": {"X-A": "1"}}}});
    let traced = traced(route(&[address], plugins), Sampler::Always, &[Propagator::TraceContext]);
    assert_eq!(traced.send(&["GET /shop/a HTTP/1.1"]), [200]);
    let spans = traced.spans();
    let own = spans[0].context.span_id.to_hex();
    let inner: Vec<&str> = spans[2..].iter().map(|span| span.name.as_str()).collect();
    assert_eq!(inner, ["rewrite request-id", "rewrite proxy-rewrite", "response request-id"]);
    for span in &spans[2..] {
        assert_eq!((span.kind, span.parent.as_deref()), (SpanKind::Internal, Some(own.as_str())));
    }
    assert_eq!(spans[2].attributes["tollhouse.plugin"], json!("request-id"));
}
