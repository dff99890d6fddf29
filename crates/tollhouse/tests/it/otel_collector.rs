//! OpenTelemetry's own collector, which `cargo x install` builds, as the receiver of spans, log records and
//! metrics. It prints what it receives.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::ReservedPort;
use tollhouse_testkit::program::{self, Running};

/// A program in Go starts within a second, and later where others compile: this bounds a hang and
/// measures nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running collector with all its receivers.
pub(crate) struct Collector {
    running: Running,
    grpc: ReservedPort,
    http: ReservedPort,
    zipkin: ReservedPort,
    statsd: ReservedPort,
    syslog: ReservedPort,
    lines: ReservedPort,
    _folder: tempfile::TempDir,
}

impl Collector {
    /// Starts it without TLS; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&Value::Null)
    }

    /// Starts it with these settings of TLS for OTLP.
    pub(crate) fn start_with(tls: &Value) -> Option<Self> {
        let program = program::find("otel-collector")?;
        let folder = tempfile::tempdir().expect("a folder can be made");
        let [grpc, http, zipkin, statsd, syslog, lines] =
            std::array::from_fn(|_| ReservedPort::new());
        let at = |port: &ReservedPort| format!("127.0.0.1:{}", port.number());
        let otlp = |port: &ReservedPort| {
            let mut server = json!({"endpoint": at(port)});
            if !tls.is_null() {
                server["tls"] = tls.clone();
            }
            server
        };
        let configuration = json!({
            "receivers": {
                "otlp": {"protocols": {"grpc": otlp(&grpc), "http": otlp(&http)}},
                "zipkin": {"endpoint": at(&zipkin)},
                "statsd": {"endpoint": at(&statsd), "aggregation_interval": "1s"},
                "syslog/tcp": {"tcp": {"listen_address": at(&syslog)}, "protocol": "rfc5424"},
                "syslog/udp": {"udp": {"listen_address": at(&syslog)}, "protocol": "rfc5424"},
                "tcp_log": {"listen_address": at(&lines)},
                "udp_log": {"listen_address": at(&lines)},
            },
            "exporters": {"debug": {"verbosity": "detailed"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {
                    "traces": {"receivers": ["otlp", "zipkin"], "exporters": ["debug"]},
                    "logs": {
                        "receivers": ["otlp", "syslog/tcp", "syslog/udp", "tcp_log", "udp_log"],
                        "exporters": ["debug"],
                    },
                    "metrics": {"receivers": ["statsd"], "exporters": ["debug"]},
                },
            },
        });
        let file = folder.path().join("collector.yaml");
        std::fs::write(&file, configuration.to_string()).expect("a file can be written");
        let running = Running::start(Command::new(program).arg("--config").arg(&file));
        running.output().wait_line_within(PATIENCE, "the collector to serve", |line| {
            line.contains("Everything is ready").then_some(())
        });
        Some(Self { running, grpc, http, zipkin, statsd, syslog, lines, _folder: folder })
    }

    pub(crate) fn grpc(&self) -> u16 {
        self.grpc.number()
    }

    pub(crate) fn http(&self) -> u16 {
        self.http.number()
    }

    pub(crate) fn zipkin(&self) -> u16 {
        self.zipkin.number()
    }

    /// Port of DogStatsD over UDP.
    pub(crate) fn statsd(&self) -> u16 {
        self.statsd.number()
    }

    /// Port of RFC 5424 over TCP and UDP.
    pub(crate) fn syslog(&self) -> u16 {
        self.syslog.number()
    }

    /// Port of plain lines over TCP, and of datagrams.
    pub(crate) fn lines(&self) -> u16 {
        self.lines.number()
    }

    /// Waits for a line that contains `text`, such as `Name : GET /*`; blanks count as one.
    pub(crate) fn wait(&self, text: &str) {
        let is_meant = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ").contains(text).then_some(())
        };
        self.running.output().wait_line_within(PATIENCE, text, is_meant);
    }
}
