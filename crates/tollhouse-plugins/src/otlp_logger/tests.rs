//! Records as collectors decode them. The integration tests send some to OpenTelemetry's collector.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};

use tollhouse_plugin::testing::Harness;
use tollhouse_trace::otlp::messages::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};

use super::*;
use crate::logging::test_logger::TestLogger;

/// Starts a collector that gives this answer to every delivery; returns its URL and what it receives.
fn collector(answer: Vec<u8>) -> (String, Receiver<ExportLogsServiceRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            while let Some((head, body)) = read_request(&mut stream) {
                assert!(head.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{head}");
                let request = ExportLogsServiceRequest::decode(&body[..]).expect("a message");
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
                let written = [head.as_bytes(), &answer].concat();
                if stream.write_all(&written).is_err() || sender.send(request).is_err() {
                    return;
                }
            }
        }
    });
    (url, received)
}

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

fn records(request: &ExportLogsServiceRequest) -> &[LogRecord] {
    &request.resource_logs[0].scope_logs[0].log_records
}

fn attribute(record: &LogRecord, name: &str) -> Option<any_value::Value> {
    record.attributes.iter().find(|it| it.key == name)?.value.clone()?.value
}

fn text(value: &str) -> Option<any_value::Value> {
    Some(any_value::Value::StringValue(value.to_owned()))
}

#[test]
fn a_record_has_the_attributes_of_the_conventions() {
    let (url, received) = collector(Vec::new());
    let conf = json!({"endpoint": url, "batch_max_size": 1, "resource": {"service.name": "edge"},
        "log_format_extra": {"tenant": "$arg_tenant"}});
    let mut logger = TestLogger::new::<OtlpLogger>(&conf, None);
    logger.log("GET /a?tenant=t1 HTTP/1.1\nHost: shop.test\nUser-Agent: curl\n\n");
    let request = received.recv().expect("a delivery");
    let resource = request.resource_logs[0].resource.as_ref().expect("a resource");
    let names: Vec<&str> = resource.attributes.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(names, ["service.name", "service.version", "host.name"]);
    let [record] = records(&request) else { panic!("one record") };
    assert_eq!(record.time_unix_nano, 1_700_000_000_000_000_000);
    assert_eq!((record.severity_number(), record.severity_text.as_str()), severity(200));
    let body = record.body.clone().and_then(|body| body.value);
    assert_eq!(body, text("GET /a 200"));
    for (name, value) in [
        ("http.request.method", text("GET")),
        ("url.path", text("/a")),
        ("server.address", text("shop.test")),
        ("user_agent.original", text("curl")),
        ("http.response.status_code", Some(any_value::Value::IntValue(200))),
        ("tollhouse.route.id", text("r1")),
        ("tenant", text("t1")),
        ("tollhouse.error_code", None),
    ] {
        assert_eq!(attribute(record, name), value, "{name}");
    }
}

#[test]
fn a_format_replaces_the_attributes_and_keeps_its_shape() {
    let (url, received) = collector(Vec::new());
    let format = json!({"who": {"host": "$host"}, "fixed": [1, 2.5, true]});
    let conf = json!({"endpoint": url, "batch_max_size": 1, "log_format": format});
    let mut logger = TestLogger::new::<OtlpLogger>(&conf, None);
    logger.log("GET /a HTTP/1.1\nHost: shop.test\n\n");
    let request = received.recv().expect("a delivery");
    let record = &records(&request)[0];
    let Some(any_value::Value::KvlistValue(list)) = attribute(record, "who") else {
        panic!("a list: {record:?}")
    };
    assert_eq!(list.values[0].value.clone().and_then(|it| it.value), text("shop.test"));
    assert_eq!(attribute(record, "url.path"), None);
    assert!(attribute(record, "fixed").is_some());
}

#[test]
fn rejected_records_are_counted_as_lost() {
    let partial = ExportLogsPartialSuccess { rejected_log_records: 1, error_message: "no".into() };
    let answer = ExportLogsServiceResponse { partial_success: Some(partial) };
    let (url, received) = collector(answer.encode_to_vec());
    let conf = json!({"endpoint": url, "batch_max_size": 2});
    let mut logger = TestLogger::new::<OtlpLogger>(&conf, None);
    (0..2).for_each(|_| logger.log("GET /a HTTP/1.1\nHost: a\n\n"));
    assert_eq!(records(&received.recv().expect("a delivery")).len(), 2);
    let services = Arc::clone(&logger.services);
    while services.queues.lost() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(services.queues.lost(), 1);
}

#[test]
fn the_path_is_added_over_http_only() {
    for (conf, expected) in [
        (json!({}), "http://127.0.0.1:4318/v1/logs"),
        (json!({"endpoint": "http://c:1/"}), "http://c:1/v1/logs"),
        (json!({"endpoint": "http://c:1/otlp"}), "http://c:1/otlp"),
        (json!({"endpoint": "http://c:4317", "protocol": "grpc"}), "http://c:4317"),
    ] {
        let config: Config = serde_json::from_value(conf).expect("a conf");
        assert_eq!(endpoint(&config), expected);
    }
    let refusal = Harness::refusal::<OtlpLogger>(&json!({"endpoint": "collector:4318"}));
    assert!(refusal.contains("collector:4318"), "{refusal}");
}
