//! Export to receivers that decode OTLP with the messages of the `opentelemetry-proto` crate.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tollhouse_plugin::Services;
use tollhouse_trace::otlp::messages::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tollhouse_trace::otlp::messages::trace::v1::Span;
use tollhouse_trace::{SpanBlock, SpanContext, SpanHead, SpanKind, SpanSink, SpanStatus};

use super::{Collector, QueueBounds, SpanExport, Traces, open};
use crate::otlp::{CollectorTls, Compression, Protocol, ResourceValue, Signal};

/// Request that a collector received: its head and the decoded message.
struct Received {
    head: String,
    request: ExportTraceServiceRequest,
}

impl Received {
    fn spans(&self) -> Vec<Span> {
        let of_scopes = self.request.resource_spans.iter().flat_map(|it| &it.scope_spans);
        of_scopes.flat_map(|it| it.spans.clone()).collect()
    }
}

/// Starts a collector over HTTP that gives these answers in turn, then empty ones with 200.
fn collector(answers: Vec<(&'static str, Vec<u8>)>) -> (String, mpsc::UnboundedReceiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
    let (sender, received) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter();
        for mut stream in listener.incoming().flatten() {
            while let Some((head, body)) = read_request(&mut stream) {
                let body = match head.to_ascii_lowercase().contains("content-encoding: gzip") {
                    true => {
                        let mut plain = Vec::new();
                        let mut decoder = flate2::read::GzDecoder::new(&body[..]);
                        decoder.read_to_end(&mut plain).expect("gzip");
                        plain
                    }
                    false => body,
                };
                let request = ExportTraceServiceRequest::decode(&body[..]).expect("a message");
                let (status, answer) = answers.next().unwrap_or(("200 OK", Vec::new()));
                let head_out =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", answer.len());
                let written = [head_out.as_bytes(), &answer].concat();
                if stream.write_all(&written).is_err()
                    || sender.send(Received { head, request }).is_err()
                {
                    return;
                }
            }
        }
    });
    (url, received)
}

/// Reads one request with a declared length; `None` at the end of the connection.
fn read_request(stream: &mut impl Read) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn to(endpoint: String) -> Collector {
    Collector {
        endpoint,
        protocol: Protocol::Http,
        headers: vec![("api-key".into(), "secret".into())],
        timeout: Duration::from_secs(5),
        compression: Compression::None,
        tls: CollectorTls::SYSTEM,
        resource: vec![("service.name".into(), ResourceValue::Text("edge".into()))],
    }
}

const BOUNDS: QueueBounds = QueueBounds {
    name: "tracing",
    spans_max: 100,
    batch_spans: 50,
    batch_time: Duration::from_secs(3600),
    idle_time: Duration::from_secs(3600),
};

fn export(collector: &Collector) -> (Arc<SpanExport>, Arc<Services>) {
    let mut services = Services::new("tollhouse");
    services.background = Some(Handle::current());
    let services = Arc::new(services);
    (open(collector, &BOUNDS, &services), services)
}

fn block(spans: usize) -> SpanBlock {
    let mut block = SpanBlock::default();
    let mut next = 0;
    for _ in 0..spans {
        let mut random = || {
            next += 2;
            next
        };
        drop(block.add(&SpanHead {
            context: SpanContext::random(&mut random, true),
            parent: None,
            is_parent_remote: false,
            kind: SpanKind::Server,
            name: b"GET /a",
            start_ns: 1,
            end_ns: 2,
            status: SpanStatus::Unset,
            trace_state: b"",
        }));
    }
    block
}

#[tokio::test]
async fn blocks_arrive_as_one_request_with_headers_and_resource() {
    let (url, mut received) = collector(Vec::new());
    for compression in [Compression::None, Compression::Gzip] {
        let (export, services) = export(&Collector { compression, ..to(url.clone()) });
        export.take(block(2));
        export.take(block(1));
        export.flush().await;
        let seen = received.recv().await.expect("a request");
        let head = seen.head.to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        assert!(head.contains("api-key: secret\r\n"), "{head}");
        assert_eq!(seen.spans().len(), 3);
        assert_eq!(seen.spans()[0].name, "GET /a");
        let resource = seen.request.resource_spans[0].resource.clone().expect("a resource");
        assert_eq!(resource.attributes[0].key, "service.name");
        assert_eq!((services.queues.spans_exported(), services.queues.spans_lost()), (3, 0));
    }
}

#[tokio::test]
async fn a_full_batch_is_sent_without_a_flush() {
    let (url, mut received) = collector(Vec::new());
    let (export, _services) = export(&to(url));
    export.take(block(49));
    export.take(block(2));
    assert_eq!(received.recv().await.expect("a request").spans().len(), 51);
}

#[tokio::test]
async fn what_the_collector_refuses_or_rejects_is_lost_and_counted() {
    let partial = ExportTracePartialSuccess { rejected_spans: 2, error_message: "old".into() };
    let partial = ExportTraceServiceResponse { partial_success: Some(partial) };
    let answers = vec![("400 Bad Request", b"no".to_vec()), ("200 OK", partial.encode_to_vec())];
    let (url, mut received) = collector(answers);
    let (export, services) = export(&to(url));
    for lost in [4, 6] {
        export.take(block(4));
        export.flush().await;
        assert_eq!(received.recv().await.expect("a request").spans().len(), 4);
        assert_eq!(services.queues.spans_lost(), lost);
    }
    assert_eq!((services.queues.spans_exported(), services.queues.lost()), (2, 0));
}

#[tokio::test]
async fn a_busy_collector_gets_the_batch_again() {
    let (url, mut received) =
        collector(vec![("503 Unavailable\r\nRetry-After: 0", Vec::new()), ("200 OK", Vec::new())]);
    let (export, services) = export(&to(url));
    export.take(block(3));
    export.flush().await;
    for _ in 0..2 {
        assert_eq!(received.recv().await.expect("a request").spans().len(), 3);
    }
    assert_eq!((services.queues.spans_exported(), services.queues.spans_lost()), (3, 0));
}

#[tokio::test]
async fn a_collector_that_hangs_costs_bounded_memory_and_counted_spans() {
    // Accepts connections by the kernel's backlog, and never answers.
    let hung = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1/traces", hung.local_addr().expect("an address"));
    let (export, services) = export(&to(url));
    (0..1000).for_each(|_| export.take(block(10)));
    // The bound of 100 spans holds, and nothing above waited.
    assert_eq!(services.queues.spans_lost(), 9_900);
    assert_eq!(services.queues.lengths()[0].entries, 100);
    drop(hung);
}

/// Serves one connection of gRPC: gives each call these statuses in turn, then 0.
async fn serve_grpc(listener: tokio::net::TcpListener, sender: mpsc::UnboundedSender<Received>) {
    let mut statuses = vec!["0", "14"];
    let (stream, _) = listener.accept().await.expect("a connection");
    let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let status = statuses.pop().unwrap_or("0");
        let sender = sender.clone();
        tokio::spawn(async move {
            let head = format!("{} {:?}", request.uri().path(), request.headers());
            let mut body = request.into_body();
            let mut bytes = Vec::new();
            while let Some(Ok(piece)) = body.data().await {
                let _ = body.flow_control().release_capacity(piece.len());
                bytes.extend_from_slice(&piece);
            }
            let request = ExportTraceServiceRequest::decode(&bytes[5..]).expect("a message");
            let head_out = http::Response::builder().header("content-type", "application/grpc");
            let head_out = head_out.body(()).expect("a response");
            let mut out = respond.send_response(head_out, false).expect("an open stream");
            if status == "0" {
                out.send_data(Bytes::from_static(&[0; 5]), false).expect("an open stream");
            }
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", http::HeaderValue::from_static(status));
            trailers.insert("grpc-retry-pushback-ms", http::HeaderValue::from_static("1"));
            out.send_trailers(trailers).expect("an open stream");
            let _ = sender.send(Received { head, request });
        });
    }
}

#[tokio::test]
async fn spans_travel_over_grpc_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, mut received) = mpsc::unbounded_channel();
    tokio::spawn(serve_grpc(listener, sender));
    let (export, services) = export(&Collector { protocol: Protocol::Grpc, ..to(endpoint) });
    export.take(block(2));
    export.flush().await;
    // Unavailable at first, then accepted.
    for _ in 0..2 {
        let seen = received.recv().await.expect("a request");
        assert!(seen.head.starts_with(Traces::METHOD), "{}", seen.head);
        assert!(seen.head.contains("\"api-key\": \"secret\""), "{}", seen.head);
        assert_eq!(seen.spans().len(), 2);
    }
    assert_eq!((services.queues.spans_exported(), services.queues.spans_lost()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_hangs_for_an_hour_costs_bounded_memory_and_every_drop_is_counted() {
    // Connections wait in the backlog of the kernel, and no answer comes.
    let hung = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1/traces", hung.local_addr().expect("an address"));
    let (export, services) = export(&to(url));
    let (per_second, seconds) = (20, 3_600);
    let waiting = || services.queues.lengths().iter().map(|it| it.entries).sum::<usize>();
    let began = tokio::time::Instant::now();
    for _ in 0..seconds {
        export.take(block(per_second));
        assert!(waiting() <= BOUNDS.spans_max, "{} spans wait", waiting());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(began.elapsed() >= Duration::from_secs(3_600));
    let lost = usize::try_from(services.queues.spans_lost()).expect("a count");
    assert_eq!(lost + waiting(), per_second * seconds);
    assert_eq!(services.queues.spans_exported(), 0);
}
