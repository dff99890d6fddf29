//! Settings of tracing, their defaults and checks.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use tollhouse_model::{Problem, Problems};

/// Tracing of requests, and the collector that receives the spans.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracing {
    pub enabled: bool,
    /// URL of the collector; `None` is the one for the protocol on this machine.
    pub endpoint: Option<String>,
    pub protocol: SpanProtocol,
    /// Headers of every export, as texts.
    pub headers: Map<String, Value>,
    pub timeout: Duration,
    pub compression: Compression,
    pub tls: CollectorTls,
    pub sampler: SpanSampler,
    /// Share of traces that samplers by ratio record.
    pub ratio: f64,
    pub service_name: String,
    /// Further attributes of the resource: texts, numbers and booleans.
    pub resource: Map<String, Value>,
    pub propagators: Vec<Propagation>,
    /// Whether plugins get spans of their own.
    pub plugin_spans: bool,
    /// Whether error responses have the id of the request's trace.
    pub in_errors: bool,
    /// Spans that wait for export at most.
    pub queue_spans: usize,
    /// Spans at which a batch is sent at once.
    pub batch_spans: usize,
    /// Longest time for which a batch is collected.
    pub batch_time: Duration,
}

impl Default for Tracing {
    fn default() -> Self {
        Self {
            enabled: false,
            endpoint: None,
            protocol: SpanProtocol::Http,
            headers: Map::new(),
            timeout: Duration::from_secs(10),
            compression: Compression::None,
            tls: CollectorTls::default(),
            sampler: SpanSampler::ParentAlways,
            ratio: 1.0,
            service_name: "tollhouse".to_owned(),
            resource: Map::new(),
            propagators: vec![Propagation::TraceContext],
            plugin_spans: false,
            in_errors: true,
            queue_spans: 2048,
            batch_spans: 512,
            batch_time: Duration::from_secs(5),
        }
    }
}

/// TLS of the connections to a collector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectorTls {
    /// CA certificates, PEM, that replace those of the system.
    pub ca: Option<PathBuf>,
    /// Client certificate chain, PEM.
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate, PEM.
    pub key: Option<PathBuf>,
}

/// Transport of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanProtocol {
    Http,
    Grpc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
}

/// Rule by which requests are recorded. The `Parent…` rules follow the caller first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanSampler {
    Always,
    Never,
    Ratio,
    ParentAlways,
    ParentNever,
    ParentRatio,
}

/// Headers that carry a trace's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    TraceContext,
    B3Single,
    B3Multi,
}

/// Path of the signal, which is added to an endpoint of HTTP without a path.
const TRACES_PATH: &str = "/v1/traces";

impl Tracing {
    /// URL to which spans are sent.
    pub fn url(&self) -> String {
        let endpoint = match (&self.endpoint, self.protocol) {
            (Some(endpoint), _) => endpoint.as_str(),
            (None, SpanProtocol::Http) => "http://localhost:4318",
            (None, SpanProtocol::Grpc) => "http://localhost:4317",
        };
        let is_bare = authority_and_path(endpoint).is_some_and(|(_, path)| path.is_empty());
        match self.protocol {
            SpanProtocol::Http if is_bare => {
                format!("{}{TRACES_PATH}", endpoint.trim_end_matches('/'))
            }
            SpanProtocol::Http | SpanProtocol::Grpc => endpoint.to_owned(),
        }
    }
}

/// Splits a URL after its scheme; the path has no slash at its end.
fn authority_and_path(url: &str) -> Option<(&str, &str)> {
    let (_, rest) = url.split_once("://")?;
    let end = rest.find('/').unwrap_or(rest.len());
    Some((&rest[..end], rest[end..].trim_end_matches('/')))
}

/// Reports settings that do not fit together.
pub(super) fn check(tracing: &Tracing, problems: &mut Problems) {
    if !tracing.enabled {
        return;
    }
    if tracing.tls.cert.is_some() != tracing.tls.key.is_some() {
        let hint = "set both tracing.tls.cert and tracing.tls.key, or neither";
        let reason = "a certificate and its key must be set together";
        problems.push(Problem::error("tracing.tls", reason).with_hint(hint));
    }
    let mut warn = |name: &str, reason: &str, hint: &str| {
        problems.push(Problem::warning(name, reason).with_hint(hint));
    };
    let url = tracing.url();
    let (authority, path) = authority_and_path(&url).unwrap_or_default();
    match tracing.protocol {
        SpanProtocol::Http if authority.ends_with(":4317") => {
            let reason =
                "port 4317 is by convention that of gRPC, and tracing.protocol is http/protobuf";
            warn("tracing.endpoint", reason, "use port 4318, or set tracing.protocol to grpc");
        }
        SpanProtocol::Grpc if authority.ends_with(":4318") => {
            let reason = "port 4318 is by convention that of HTTP, and tracing.protocol is grpc";
            warn(
                "tracing.endpoint",
                reason,
                "use port 4317, or set tracing.protocol to http/protobuf",
            );
        }
        SpanProtocol::Grpc if !path.is_empty() => {
            warn("tracing.endpoint", "gRPC ignores the path", "leave the path out");
        }
        SpanProtocol::Http | SpanProtocol::Grpc => {}
    }
    let tls = &tracing.tls;
    let has_tls = tls.ca.is_some() || tls.cert.is_some();
    if has_tls && url.starts_with("http://") {
        let hint = "write https:// in tracing.endpoint, or leave tracing.tls out";
        warn("tracing.tls", "the collector is asked without TLS", hint);
    }
    let is_by_ratio = matches!(tracing.sampler, SpanSampler::Ratio | SpanSampler::ParentRatio);
    if tracing.ratio < 1.0 && !is_by_ratio {
        let hint = "set tracing.sampler to parentbased_traceidratio";
        warn("tracing.ratio", "tracing.sampler does not use it", hint);
    }
    if tracing.batch_spans > tracing.queue_spans {
        let reason = "larger than tracing.queue_spans, so that no batch ever becomes so large";
        warn("tracing.batch_spans", reason, "lower it, or raise tracing.queue_spans");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_signal_is_added_over_http_only() {
        for (protocol, endpoint, expected) in [
            (SpanProtocol::Http, None, "http://localhost:4318/v1/traces"),
            (SpanProtocol::Grpc, None, "http://localhost:4317"),
            (SpanProtocol::Http, Some("http://c:1"), "http://c:1/v1/traces"),
            (SpanProtocol::Http, Some("https://c/"), "https://c/v1/traces"),
            (SpanProtocol::Http, Some("http://c:1/otlp/v1/traces"), "http://c:1/otlp/v1/traces"),
            (SpanProtocol::Grpc, Some("http://c:1"), "http://c:1"),
        ] {
            let endpoint = endpoint.map(str::to_owned);
            let tracing = Tracing { protocol, endpoint, ..Tracing::default() };
            assert_eq!(tracing.url(), expected);
        }
    }

    #[test]
    fn ports_and_protocols_that_do_not_fit_are_reported() {
        let found = |change: fn(&mut Tracing)| {
            let mut tracing = Tracing { enabled: true, ..Tracing::default() };
            change(&mut tracing);
            let mut problems = Problems::new();
            check(&tracing, &mut problems);
            problems.to_string()
        };
        assert_eq!(found(|_| {}), "");
        assert!(found(|it| it.endpoint = Some("http://c:4317".into())).contains("4317"));
        let grpc = |it: &mut Tracing| {
            it.protocol = SpanProtocol::Grpc;
            it.endpoint = Some("http://c:4318".into());
        };
        assert!(found(grpc).contains("4318"));
        assert!(found(|it| it.tls.cert = Some("c.pem".into())).contains("its key must be set"));
        assert!(found(|it| it.tls.ca = Some("ca.pem".into())).contains("without TLS"));
        let encrypted = |it: &mut Tracing| {
            it.endpoint = Some("https://c".into());
            it.tls.ca = Some("ca.pem".into());
        };
        assert_eq!(found(encrypted), "");
        assert!(found(|it| it.ratio = 0.1).contains("tracing.ratio"));
        assert!(found(|it| it.batch_spans = 4096).contains("tracing.batch_spans"));
    }
}
