//! Sends a log record for every exchange to an OpenTelemetry collector, in batches.
//!
//! The collector may be any backend that takes OTLP logs: Grafana Loki, Elastic, Datadog and others.
//!
//! # Example
//! ```json
//! {"endpoint": "http://127.0.0.1:4318", "resource": {"service.name": "edge"}}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! This plugin is our own; APISIX has none. As a global rule it exports the whole access log.
//!
//! A record has the start of the request as its time, `GET /orders 502` as its body, and the severity
//! `INFO`, `WARN` (4xx) or `ERROR` (5xx). If the request belongs to a trace, so does its record. The
//! attributes are those of OpenTelemetry's semantic conventions, without the query, which may hold
//! secrets. A `log_format` replaces them.
//!
//! Requests never wait for the collector. At most 8,192 records (or `max_pending_entries` of the
//! plugin's metadata) and 64 MiB wait. Further records are dropped. The gateway's own log reports
//! that, and `tollhouse_log_entries_lost_total` counts them. With `max_retry_count`, a batch that the
//! collector does not take now is tried again: after the pause that it asks for, or else after
//! pauses that grow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};
use tollhouse_trace::otlp::Origin;
use tollhouse_trace::otlp::messages::common::v1::{
    AnyValue, ArrayValue, KeyValue, KeyValueList, any_value,
};
use tollhouse_trace::otlp::messages::logs::v1::{LogRecord, SeverityNumber};
use tollhouse_trace::{SpanId, TraceId};

use crate::logging::batch::{Batches, Delivery, DeliveryError, Failure};
use crate::logging::http::URI_PATTERN;
use crate::logging::queue::QueueConf;
use crate::logging::{
    BatchFields, BatchMetadata, BodyFields, Entries, EntryParts, FormatFields, Layout, hostname,
};
use crate::otlp::{
    Client, Collector, CollectorTls, Compression, Logs, Protocol, ResourceValue,
};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};

/// Path of log records over HTTP.
const PATH: &str = "/v1/logs";

/// Configuration of `otlp-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// URL of the collector. Over HTTP, `/v1/logs` is added to a URL without a path.
    #[serde(default = "default_endpoint")]
    #[schemars(regex(pattern = URI_PATTERN))]
    pub endpoint: String,
    /// Transport; `http/protobuf` by default. Collectors listen for HTTP on port 4318, and for gRPC
    /// on port 4317.
    #[serde(default)]
    pub protocol: ProtocolName,
    /// Compression of deliveries; `none` by default.
    #[serde(default)]
    pub compression: CompressionName,
    /// Header lines of deliveries, such as credentials.
    pub headers: Option<BTreeMap<String, SecretText>>,
    /// Attributes of the resource. Without `service.name`, it is `tollhouse`.
    pub resource: Option<BTreeMap<String, String>>,
    /// Whether the collector's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Timeout of a delivery, in seconds; 10 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 600))]
    pub timeout: u64,
    /// Bodies in records.
    #[serde(flatten)]
    pub bodies: BodyFields,
    /// Format of the attributes.
    #[serde(flatten)]
    pub format: FormatFields,
    /// Size and timing of batches.
    #[serde(flatten)]
    pub batch: BatchFields,
}

/// Transport of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
pub enum ProtocolName {
    #[default]
    #[serde(rename = "http/protobuf")]
    Http,
    #[serde(rename = "grpc")]
    Grpc,
}

/// Compression of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompressionName {
    #[default]
    None,
    Gzip,
}

defaults! {
    default_endpoint: String = "http://127.0.0.1:4318".to_owned();
    default_timeout: u64 = 10;
}

pub struct OtlpLogger {
    entries: Entries,
    batches: Arc<Batches<Exporter>>,
}

impl Plugin for OtlpLogger {
    const NAME: &'static str = "otlp-logger";
    const PRIORITY: i32 = 412;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    const ENCRYPTED: &'static [&'static str] = &["headers"];
    const SENT_TO: &'static [&'static str] = &["endpoint", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let fields = &mut schema["properties"];
        fields["name"]["default"] = json!("otlp logger");
        fields["headers"]["additionalProperties"]["minLength"] = json!(1);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || Exporter::new(&config));
        Ok(Self { entries: Entries::compile(config.bodies, config.format, scope)?, batches })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let parts = self.entries.parts(cx);
        let record = record(cx, parts);
        let bytes = record.encoded_len();
        self.batches.log_sized(cx, record, bytes);
    }
}

/// Returns the record of an exchange.
fn record(cx: &LogContext<'_>, parts: EntryParts) -> LogRecord {
    let EntryParts { layout, fields, extra } = parts;
    let mut attributes = match layout {
        Layout::Default => default_attributes(cx, &fields),
        Layout::Custom => key_values(fields),
    };
    attributes.retain(|attribute| !extra.contains_key(&attribute.key));
    attributes.extend(key_values(extra));
    let transfer = cx.transfer();
    let (severity, severity_text) = severity(transfer.status);
    let variable = |name: &str| variable(cx, name);
    let summary = format!("{} {} {}", variable("request_method"), variable("uri"), transfer.status);
    let trace_id = TraceId::parse(variable("trace_id").as_bytes());
    let span_id = SpanId::parse(variable("span_id").as_bytes());
    LogRecord {
        time_unix_nano: nanoseconds(transfer.started_unix_ms),
        observed_time_unix_nano: nanoseconds(cx.now().unix_ms),
        severity_number: severity.into(),
        severity_text: severity_text.to_owned(),
        body: Some(AnyValue { value: Some(any_value::Value::StringValue(summary)) }),
        attributes,
        trace_id: trace_id.map_or_else(Vec::new, |id| id.bytes().to_vec()),
        span_id: span_id.map_or_else(Vec::new, |id| id.bytes().to_vec()),
        ..LogRecord::default()
    }
}

fn nanoseconds(unix_ms: u64) -> u64 {
    unix_ms.saturating_mul(1_000_000)
}

fn severity(status: u16) -> (SeverityNumber, &'static str) {
    match status {
        500.. => (SeverityNumber::Error, "ERROR"),
        400..500 => (SeverityNumber::Warn, "WARN"),
        _ => (SeverityNumber::Info, "INFO"),
    }
}

/// Attributes by OpenTelemetry's semantic conventions, and our own.
fn default_attributes(cx: &LogContext<'_>, fields: &Map<String, Value>) -> Vec<KeyValue> {
    let transfer = cx.transfer();
    let mut attributes = Vec::with_capacity(20);
    for (key, name) in [
        ("http.request.method", "request_method"),
        ("url.scheme", "scheme"),
        ("url.path", "uri"),
        ("server.address", "host"),
        ("client.address", "remote_addr"),
        ("user_agent.original", "http_user_agent"),
        ("http.route", "matched_uri"),
    ] {
        push_text(&mut attributes, key, variable(cx, name));
    }
    for (key, text) in [
        ("tollhouse.route.id", transfer.route_id),
        ("tollhouse.service.id", transfer.service_id),
        ("tollhouse.consumer", transfer.consumer),
        ("tollhouse.upstream.address", transfer.upstream),
        ("tollhouse.error_code", transfer.error_code.unwrap_or_default()),
    ] {
        push_text(&mut attributes, key, text.to_owned());
    }
    for (key, number) in [
        ("http.response.status_code", Some(u64::from(transfer.status))),
        ("http.request.size", Some(transfer.bytes_received)),
        ("http.response.size", Some(transfer.bytes_sent)),
        ("tollhouse.duration_ms", Some(transfer.request_ms)),
        ("tollhouse.upstream.duration_ms", transfer.upstream_ms),
    ] {
        attributes.extend(number.map(|number| key_value(key.to_owned(), json!(number))));
    }
    for (key, part) in [("http.request.body.text", "request"), ("http.response.body.text", "response")] {
        let body = fields.get(part).and_then(|part| part["body"].as_str());
        push_text(&mut attributes, key, body.unwrap_or_default().to_owned());
    }
    attributes
}

fn push_text(attributes: &mut Vec<KeyValue>, key: &str, text: String) {
    if !text.is_empty() {
        attributes.push(key_value(key.to_owned(), Value::String(text)));
    }
}

fn variable(cx: &LogContext<'_>, name: &str) -> String {
    let value = cx.variables().variable(&Variable::parse(name)).unwrap_or_default();
    String::from_utf8_lossy(&value).into_owned()
}

fn key_values(fields: Map<String, Value>) -> Vec<KeyValue> {
    fields.into_iter().map(|(name, value)| key_value(name, value)).collect()
}

fn key_value(key: String, value: Value) -> KeyValue {
    KeyValue { key, value: Some(any_value(value)), ..KeyValue::default() }
}

fn any_value(value: Value) -> AnyValue {
    let value = match value {
        Value::Null => None,
        Value::Bool(flag) => Some(any_value::Value::BoolValue(flag)),
        Value::Number(number) => Some(match number.as_i64() {
            Some(whole) => any_value::Value::IntValue(whole),
            None => any_value::Value::DoubleValue(number.as_f64().unwrap_or_default()),
        }),
        Value::String(text) => Some(any_value::Value::StringValue(text)),
        Value::Array(values) => Some(any_value::Value::ArrayValue(ArrayValue {
            values: values.into_iter().map(any_value).collect(),
        })),
        Value::Object(fields) => {
            Some(any_value::Value::KvlistValue(KeyValueList { values: key_values(fields) }))
        }
    };
    AnyValue { value }
}

/// Delivery of records as OTLP requests.
struct Exporter {
    origin: Origin,
    client: Client,
}

impl Exporter {
    fn new(config: &Config) -> Self {
        let collector = collector(config);
        Self { origin: collector.origin(), client: Client::new(&collector) }
    }
}

fn collector(config: &Config) -> Collector {
    let headers = config.headers.iter().flatten();
    let text = |name: &str, value: &str| (name.to_owned(), ResourceValue::Text(value.to_owned()));
    let configured = config.resource.iter().flatten().map(|(name, value)| text(name, value));
    let own = [
        text("service.name", "tollhouse"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("host.name", hostname()),
    ];
    Collector {
        endpoint: endpoint(config),
        protocol: match config.protocol {
            ProtocolName::Http => Protocol::Http,
            ProtocolName::Grpc => Protocol::Grpc,
        },
        headers: headers.map(|(name, value)| (name.clone(), value.as_str().to_owned())).collect(),
        timeout: Duration::from_secs(config.timeout),
        compression: match config.compression {
            CompressionName::None => Compression::None,
            CompressionName::Gzip => Compression::Gzip,
        },
        tls: if config.ssl_verify { CollectorTls::SYSTEM } else { CollectorTls::UNVERIFIED },
        resource: configured.chain(own).collect(),
    }
}

/// Returns the URL of deliveries.
fn endpoint(config: &Config) -> String {
    let bare = config.endpoint.trim_end_matches('/');
    let authority = bare.split_once("://").map_or(bare, |(_, rest)| rest);
    match config.protocol {
        ProtocolName::Http if !authority.contains('/') => format!("{bare}{PATH}"),
        ProtocolName::Http | ProtocolName::Grpc => config.endpoint.clone(),
    }
}

impl Delivery for Exporter {
    type Entry = LogRecord;

    async fn deliver(&self, batch: &[LogRecord]) -> Result<(), Failure> {
        match self.client.export::<Logs>(self.origin.logs(batch.to_vec())).await {
            Ok(answer) => {
                let partial = answer.partial_success.unwrap_or_default();
                let rejected = usize::try_from(partial.rejected_log_records).unwrap_or(0);
                if rejected == 0 {
                    return Ok(());
                }
                let (entries, reason) = (rejected.min(batch.len()), partial.error_message);
                let error = DeliveryError::PartlyRefused { entries, reason };
                Err(Failure { taken: batch.len(), lost: entries, error })
            }
            // A refused batch is lost as a whole, and holds up no other.
            Err(error @ DeliveryError::Rejected(_)) => {
                Err(Failure { taken: batch.len(), lost: batch.len(), error })
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
