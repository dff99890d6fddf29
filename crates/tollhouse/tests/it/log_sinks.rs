//! Log entries at foreign receivers, rsyslog and OpenTelemetry's collector, the gateway's own log at a
//! TCP server, and the names of plugins that refuse requests in the access log.

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{ClosedPort, ReservedPort};

use crate::cases::Bench;
use crate::otel_collector::Collector;
use crate::shenyu::{nodes, objects, pair};
use crate::support::{gateway, upstream};

/// rsyslog on a port for TCP and UDP, which writes a JSON line for each message.
struct Rsyslog {
    port: u16,
    _reserved: ReservedPort,
    folder: tempfile::TempDir,
    child: Child,
}

impl Rsyslog {
    /// Starts it. Returns `None`, with a message, if it is not installed.
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let reserved = ReservedPort::new();
        let port = reserved.number();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let configuration = format!(
            r#"
            global(workDirectory="{work}" maxMessageSize="64k")
            module(load="imudp")
            module(load="imtcp")
            input(type="imudp" address="127.0.0.1" port="{port}")
            input(type="imtcp" address="127.0.0.1" port="{port}")
            template(name="line" type="list" option.jsonf="on") {{
                property(outname="pri" name="pri" format="jsonf")
                property(outname="time" name="timereported" dateFormat="rfc3339" format="jsonf")
                property(outname="host" name="hostname" format="jsonf")
                property(outname="application" name="app-name" format="jsonf")
                property(outname="structured" name="structured-data" format="jsonf")
                property(outname="text" name="msg" format="jsonf")
            }}
            action(type="omfile" file="{lines}" template="line")
            "#,
            work = folder.path().display(),
            lines = path("lines"),
        );
        std::fs::write(path("rsyslog.conf"), configuration).expect("a file");
        let mut command = Command::new("rsyslogd");
        command.args(["-n", "-f", &path("rsyslog.conf"), "-i", &path("pid")]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = child else {
            eprintln!("skipped: rsyslogd is not installed");
            return None;
        };
        let server = Self { port, _reserved: reserved, folder, child };
        wait_for("rsyslog", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(server)
    }

    /// Waits for a message whose text, an entry as JSON, has this route.
    fn message(&self, route: &str) -> (Value, Value) {
        wait_for(route, || {
            let lines = std::fs::read_to_string(self.lines()).unwrap_or_default();
            lines.lines().find_map(|line| {
                let message: Value = serde_json::from_str(line).ok()?;
                let entry: Value = serde_json::from_str(message["text"].as_str()?.trim()).ok()?;
                (entry["route_id"] == route).then_some((message, entry))
            })
        })
    }

    fn lines(&self) -> impl AsRef<Path> {
        self.folder.path().join("lines")
    }
}

impl Drop for Rsyslog {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn rsyslog_reads_the_messages_of_every_syslog_sink() {
    let Some(rsyslog) = Rsyslog::start() else { return };
    let bench = Bench::start();
    let conf = |more: Value| {
        let format = json!({"host": "$host", "agent": "$http_user_agent"});
        let mut conf = json!({"batch_max_size": 1, "log_format": format});
        conf.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        conf
    };
    let (host, port) = ("127.0.0.1", rsyslog.port);
    let tcp = conf(json!({"host": host, "port": port}));
    let udp = conf(json!({"host": host, "port": port, "sock_type": "udp"}));
    let loggly = conf(json!({"customer_token": "abc", "tags": ["web"], "severity": "NOTICE"}));
    let format = json!({"log_format": {"from": "metadata"}, "host": host, "port": port});
    bench.put("/plugin_metadata/loggly", format);
    bench.put("/routes/tcp", bench.route("tcp.test", json!({"syslog": tcp})));
    bench.put("/routes/udp", bench.route("udp.test", json!({"syslog": udp})));
    bench.put("/routes/loggly", bench.route("loggly.test", json!({"loggly": loggly})));
    bench.wait_until_served();
    for (route, pri, structured) in
        [("tcp", "46", "-"), ("udp", "46", "-"), ("loggly", "13", r#"[abc@41058 tag="web"]"#)]
    {
        let request =
            format!("GET / HTTP/1.1\r\nHost: {route}.test\r\nUser-Agent: two \"words\"\r\n\r\n");
        assert_eq!(bench.gateway.client().ask(request).status(), 200, "{route}");
        let (message, entry) = rsyslog.message(route);
        assert_eq!(entry["agent"], "two \"words\"");
        assert_eq!(message["pri"], pri, "{message}");
        assert_eq!(message["host"], format!("{route}.test"), "{message}");
        assert_eq!(message["application"], "apisix", "{message}");
        assert_eq!(message["structured"], structured, "{message}");
        let time = message["time"].as_str().unwrap_or_default();
        assert!(time.starts_with("20") && time.contains('T'), "{message}");
    }
}

#[test]
fn opentelemetrys_collector_reads_what_every_sink_sends() {
    let Some(collector) = Collector::start() else { return };
    let bench = Bench::start();
    let conf = |more: Value| {
        let format = json!({"host": "$host"});
        let mut conf = json!({"host": "127.0.0.1", "batch_max_size": 1, "log_format": format});
        conf.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        conf
    };
    let (lines, syslog) = (collector.lines(), collector.syslog());
    let metadata = json!({"host": "127.0.0.1", "port": collector.statsd(), "namespace": "shop"});
    bench.put("/plugin_metadata/datadog", metadata);
    for (route, plugins) in [
        ("tcp", json!({"tcp-logger": conf(json!({"port": lines}))})),
        ("udp", json!({"udp-logger": conf(json!({"port": lines}))})),
        ("rfc", json!({"syslog": conf(json!({"port": syslog}))})),
        ("rfcudp", json!({"syslog": conf(json!({"port": syslog, "sock_type": "udp"}))})),
        ("dog", json!({"datadog": {"batch_max_size": 1}})),
    ] {
        let route_object = bench.route(&format!("{route}.test"), plugins);
        bench.put(&format!("/routes/{route}"), route_object);
    }
    bench.wait_until_served();
    let get = |host: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}.test\r\n\r\n");
        assert_eq!(bench.gateway.client().ask(request).status(), 200, "{host}");
    };
    for route in ["tcp", "udp"] {
        get(route);
        let entry = format!(r#"{{"host":"{route}.test","route_id":"{route}"}}"#);
        collector.wait(&format!("Body: Str({entry})"));
    }
    for route in ["rfc", "rfcudp"] {
        get(route);
        collector.wait("-> appname: Str(apisix)");
        let entry = format!(r#"{{"host":"{route}.test","route_id":"{route}"}}"#);
        collector.wait(&format!("-> message: Str({entry})"));
    }
    get("dog");
    collector.wait("-> Name: shop.request.counter");
    collector.wait("-> route_name: Str(dog)");
}

#[test]
fn opentelemetrys_collector_takes_log_records_with_the_ids_of_their_trace() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let Some(collector) = Collector::start() else { return };
    let http = format!("http://127.0.0.1:{}", collector.http());
    let grpc = format!("http://127.0.0.1:{}", collector.grpc());
    let closed = ClosedPort::new();
    let settings = gateway().set("tracing.enabled", "true").set("tracing.endpoint", &http);
    let bench = Bench::with_gateway(settings);
    for (route, endpoint, protocol, compression) in
        [("h", &http, "http/protobuf", "none"), ("g", &grpc, "grpc", "gzip")]
    {
        let logger = json!({
            "endpoint": endpoint, "protocol": protocol, "compression": compression,
            "batch_max_size": 1, "resource": {"service.name": format!("logs-by-{route}")},
        });
        let mut object = bench.route(&format!("{route}.test"), json!({"otlp-logger": logger}));
        object["upstream"] = upstream([closed.address()]);
        bench.put(&format!("/routes/{route}"), object);
    }
    bench.wait_until_served();
    for route in ["h", "g"] {
        let request = format!(
            "GET /orders?secret=1 HTTP/1.1\r\nHost: {route}.test\r\n\
             traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n\r\n"
        );
        assert_eq!(bench.gateway.client().ask(request).status(), 502, "{route}");
        collector.wait(&format!("service.name: Str(logs-by-{route})"));
        collector.wait("SeverityNumber: Error(17)");
        collector.wait("Body: Str(GET /orders 502)");
        collector.wait(&format!("-> server.address: Str({route}.test)"));
        collector.wait("-> tollhouse.error_code: Str(upstream_connect_failed)");
        collector.wait(&format!("Trace ID: {TRACE}"));
    }
}

#[test]
fn the_gateways_own_log_is_sent_while_metadata_ask_for_it() {
    let (bench, closed) = (Bench::start(), ClosedPort::new());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("a bound socket").port();
    let tcp = json!({"host": "127.0.0.1", "port": port});
    let metadata = json!({"tcp": tcp, "level": "WARN", "batch_max_size": 1});
    bench.put("/plugin_metadata/error-log-logger", metadata);
    let upstream = upstream([closed.address()]);
    bench.put("/routes/dead", json!({"host": "dead.test", "uri": "/*", "upstream": upstream}));
    bench.wait_until_served();
    let request = "GET / HTTP/1.1\r\nHost: dead.test\r\n\r\n";
    assert_eq!(bench.gateway.client().ask(request).status(), 502);
    let line = listener.incoming().find_map(|stream| {
        let mut text = String::new();
        stream.ok()?.read_to_string(&mut text).ok()?;
        text.contains("upstream_connect_failed").then_some(text)
    });
    let line = line.expect("a line");
    assert!(line.contains(" WARN ") && line.ends_with('\n'), "{line}");
}

#[test]
fn secrets_of_metadata_are_stored_encrypted() {
    let bench = Bench::start();
    let clickhouse = json!({
        "endpoint_addr": "http://127.0.0.1:1/", "user": "u", "password": "open-sesame",
        "database": "d", "logtable": "t",
    });
    bench.put("/plugin_metadata/error-log-logger", json!({"clickhouse": clickhouse}));
    let folder = bench.gateway.folder();
    let found = std::fs::read_dir(folder).expect("a folder").flatten().any(|file| {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        bytes.windows(11).any(|window| window == b"open-sesame")
    });
    assert!(!found, "the password is in a file of {}", folder.display());
}

#[test]
fn the_access_log_names_the_plugin_that_refused() {
    let bench = Bench::with_gateway(
        gateway().log_requests().set("access_log.fields", "request_uri,error_code,error_plugin"),
    );
    bench.put("/routes/k", bench.route("k.test", json!({"key-auth": {}})));
    bench.put("/routes/open", bench.route("open.test", json!({})));
    bench.wait_until_served();
    for (host, path, status, code, plugin) in [
        ("k.test", "/1", 401, json!("auth_missing"), json!("key-auth")),
        ("open.test", "/2", 200, json!(null), json!(null)),
        ("none.test", "/3", 404, json!("route_not_found"), json!(null)),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(bench.gateway.client().ask(request).status(), status);
        let line = bench.gateway.log_line(path);
        assert_eq!((&line["error_code"], &line["error_plugin"]), (&code, &plugin), "{line}");
    }
}

#[test]
fn refusals_of_shenyus_plugins_have_codes_whatever_their_status() {
    let closed = ClosedPort::new();
    let pairs = [
        pair("divide", "/order/", nodes([closed.address().port()]), json!({})),
        pair("waf", "/waf", Value::Null, json!({"permission": "reject", "statusCode": "403"})),
        pair("sign", "/signed", Value::Null, json!({})),
        pair("basicAuth", "/basic", Value::Null, json!({"authorization": "jack:secret"})),
    ];
    for (compatible, statuses) in [("false", [403, 401, 401, 404]), ("true", [403, 200, 200, 200])]
    {
        let gateway = gateway()
            .log_requests()
            .resources(&objects(&pairs))
            .set("access_log.fields", "request_uri,error_code,error_plugin")
            .set("shenyu.compatible_statuses", compatible)
            .start();
        let cases = [
            ("/waf", json!("denied_by_rule"), json!("waf")),
            ("/signed", json!("auth_invalid"), json!("sign")),
            ("/basic", json!("auth_missing"), json!("basicAuth")),
            ("/other", json!("route_not_found"), json!(null)),
        ];
        for ((path, code, plugin), status) in cases.into_iter().zip(statuses) {
            assert_eq!(gateway.client().get(path).status(), status, "{path}");
            let line = gateway.log_line(path);
            assert_eq!((&line["error_code"], &line["error_plugin"]), (&code, &plugin), "{line}");
        }
        let name = "tollhouse_requests_refused_total{plugin=\"sign\",code=\"auth_invalid\"}";
        wait_for(name, || (gateway.metric(name) > 0.0).then_some(()));
    }
}
