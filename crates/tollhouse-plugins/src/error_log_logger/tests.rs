//! Lines of the gateway's own log at servers in the test. Kafka is covered by the tests of its
//! producer.

use std::io::Read;
use std::net::TcpListener;

use tokio::runtime::{Builder, Runtime};
use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;
use tollhouse_testkit::patience::wait_for;

use super::*;
use crate::shared::test_server::{TestServer, body, header};

const ERROR: &str = "2026-11-29T16:00:00.000000Z ERROR a file is missing";
const WARN: &str = "2026-11-29T16:00:01.000000Z  WARN a node \"n\" fails";
const INFO: &str = "2026-11-29T16:00:02.000000Z  INFO started";
const DEBUG: &str = "2026-11-29T16:00:03.000000Z DEBUG a connection";

/// Plugin that was started by its metadata.
struct Started {
    services: Arc<Services>,
    work: Option<BackgroundWork>,
    _runtime: Runtime,
}

impl Started {
    fn new(metadata: &Value) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let mut services = Services::new("APISIX/3.18.0");
        services.background = Some(runtime.handle().clone());
        let services = Arc::new(services);
        let kind = PluginType::new::<ErrorLogLogger>();
        kind.check_metadata(metadata).expect("the metadata are good");
        let work = (kind.start)(metadata, &services).expect("the metadata are good");
        Self { services, work, _runtime: runtime }
    }

    /// Writes lines to the gateway's log.
    fn write(&self, lines: &[&str]) {
        lines.iter().for_each(|line| self.services.own_log.pass(line));
    }
}

#[test]
fn a_tcp_server_receives_lines_of_the_level() {
    for (level, expected) in [
        ("ERR", vec![ERROR]),
        ("EMERG", vec![ERROR]),
        ("WARN", vec![ERROR, WARN]),
        ("NOTICE", vec![ERROR, WARN, INFO]),
        ("DEBUG", vec![ERROR, WARN, INFO, DEBUG]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound socket").port();
        let started = Started::new(&json!({
            "tcp": {"host": "127.0.0.1", "port": port}, "level": level,
            "batch_max_size": expected.len(), "inactive_timeout": 3600,
        }));
        started.write(&[ERROR, WARN, INFO, DEBUG]);
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an orderly end");
        assert_eq!(text, format!("{}\n", expected.join("\n")), "{level}");
    }
}

#[test]
fn skywalking_receives_text_records() {
    let server = TestServer::ok();
    let started = Started::new(&json!({
        "skywalking": {
            "endpoint_addr": server.url("/v3/logs"), "service_name": "gateway",
            "service_instance_name": "$hostname",
        },
        "batch_max_size": 2,
    }));
    started.write(&[ERROR, INFO, WARN]);
    let request = server.next_request();
    assert!(request.starts_with("POST /v3/logs HTTP/1.1\r\n"), "{request}");
    assert_eq!(header(&request, "content-type"), Some("application/json"));
    let record = |line| {
        json!({
            "service": "gateway", "serviceInstance": hostname(), "endpoint": "",
            "body": {"text": {"text": line}},
        })
    };
    let sent: Value = serde_json::from_str(body(&request)).expect("JSON");
    assert_eq!(sent, json!([record(ERROR), record(WARN)]));
}

#[test]
fn clickhouse_receives_rows_with_one_column() {
    let server = TestServer::ok();
    let started = Started::new(&json!({
        "clickhouse": {
            "endpoint_addr": server.url("/"), "user": "web", "password": "secret",
            "database": "logs", "logtable": "own",
        },
        "batch_max_size": 2,
    }));
    started.write(&[ERROR, WARN]);
    let request = server.next_request();
    assert_eq!(header(&request, "x-clickhouse-key"), Some("secret"));
    let rows = [ERROR, WARN].map(|line| json!({"data": line}).to_string()).join(" ");
    assert_eq!(body(&request), format!("INSERT INTO own FORMAT JSONEachRow {rows}"));
}

#[test]
fn nothing_is_sent_once_the_metadata_are_gone() {
    let server = TestServer::ok();
    let mut started = Started::new(&json!({
        "skywalking": {"endpoint_addr": server.url("/v3/logs")}, "batch_max_size": 1,
    }));
    started.write(&[ERROR]);
    server.next_request();
    started.work = None;
    started.write(&[WARN]);
    wait_for("the end", || started.services.queues.lengths().is_empty().then_some(()));
}

#[test]
fn bad_metadata_are_refused() {
    let kind = PluginType::new::<ErrorLogLogger>();
    let tcp = json!({"host": "a", "port": 1});
    for metadata in [
        json!({}),
        json!({"tcp": {"host": "a"}}),
        json!({"tcp": tcp, "skywalking": {}}),
        json!({"tcp": tcp, "level": "LOUD"}),
        json!({"kafka": {"brokers": [], "kafka_topic": "a"}}),
        json!({"clickhouse": {"endpoint_addr": "http://a"}}),
    ] {
        assert!(kind.check_metadata(&metadata).is_err(), "{metadata}");
    }
    for metadata in [
        json!({"host": "a", "port": 1}),
        json!({"tcp": tcp, "level": "ERROR"}),
        json!({"kafka": {"brokers": [{"host": "a", "port": 1}], "kafka_topic": "a"}}),
    ] {
        assert!(kind.check_metadata(&metadata).is_ok(), "{metadata}");
    }
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    let metadata = json!({"tcp": {"host": "a b", "port": 1, "tls": true}});
    let refusal = (kind.start)(&metadata, &services).map(drop).unwrap_err();
    assert_eq!(refusal.text(), r#"invalid server name "a b" for the TLS handshake"#);
    assert_eq!(Harness::refusal::<ErrorLogLogger>(&json!({})), "");
}
