//! Records requests as spans and sends them to an OpenTelemetry collector.
//!
//! Each request becomes a SERVER span, and each attempt at a node a CLIENT span below it. The node
//! receives the CLIENT span as its parent in `traceparent`, also if the request is not recorded.
//! A trace that the client has begun (`traceparent`, `tracestate`) is continued.
//!
//! The collector is in the plugin's metadata. Without metadata, spans go to the collector of the
//! bootstrap file (`tracing`), and without that one nothing is recorded.
//!
//! # Example
//! ```json
//! {"sampler": {"name": "parent_base", "options": {"root": {"name": "always_on"}}}}
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! The default sampler is `always_off`, as in APISIX: a conf without `sampler` records nothing.
//!
//! Metadata: `collector.address` is `host:port` for OTLP over HTTP, or a URL; port 4317 and the
//! scheme `grpc://` select gRPC. `batch_span_processor` bounds what waits. Further spans are dropped
//! in any case and counted by `tollhouse_spans_lost_total`; `drop_on_queue_full` has no effect,
//! because requests never wait for a collector. `set_ngx_var` sets the variables
//! `opentelemetry_context_traceparent`, `opentelemetry_trace_id` and `opentelemetry_span_id`, also
//! for the access log.
//!
//! Spans have the attributes that APISIX gives them. A span of the bootstrap file's tracing has only
//! the stable names; on a route with this plugin, the plugin's span takes its place.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, Scope, Step,
};
use tollhouse_trace::{
    AttributeValue, Key, Propagators, Ratio, Root, Sampler, SpanContext, SpanId, SpanNames,
    SpanSink, SpanWriter, TraceId, TraceStart, w3c,
};

use crate::shared::confs::defaults::defaults;
use crate::otlp::{Collector, CollectorTls, Compression, Protocol, ResourceValue};
use crate::spans::{QueueBounds, SpanExport};

/// Port of gRPC by convention.
const GRPC_PORT: &str = ":4317";

/// Longest queue of spans, whatever metadata says.
const QUEUE_SPANS_MAX: u64 = 1 << 20;

/// Configuration of `opentelemetry`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Rule by which requests are recorded; `always_off` by default.
    #[serde(default)]
    pub sampler: SamplerFields,
    /// Variables that become attributes of the span, such as `http_x_tenant`.
    #[schemars(inner(length(min = 1)))]
    pub additional_attributes: Option<Vec<String>>,
    /// Request headers that become attributes of the span; `*` at the end stands for any end.
    #[schemars(inner(length(min = 1)))]
    pub additional_header_prefix_attributes: Option<Vec<String>>,
}

/// Sampler.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct SamplerFields {
    /// Rule; `always_off` by default.
    #[serde(default)]
    pub name: SamplerName,
    /// Parameters of the rule.
    #[serde(default)]
    pub options: SamplerOptions,
}

/// Rule by which requests are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SamplerName {
    AlwaysOn,
    #[default]
    AlwaysOff,
    TraceIdRatio,
    ParentBase,
}

/// Parameters of a sampler.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct SamplerOptions {
    /// Share of traces that `trace_id_ratio` records, from 0 to 1; 0 by default.
    #[serde(default)]
    pub fraction: f64,
    /// Rule of `parent_base` for requests without a trace of the client.
    #[serde(default)]
    pub root: RootFields,
}

/// Sampler of requests without a trace of the client.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct RootFields {
    /// Rule; `always_off` by default.
    #[serde(default)]
    pub name: RootName,
    /// Parameters of the rule.
    #[serde(default)]
    pub options: RootOptions,
}

/// Rule for requests without a trace of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RootName {
    AlwaysOn,
    #[default]
    AlwaysOff,
    TraceIdRatio,
}

/// Parameters of the root's sampler.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
pub struct RootOptions {
    /// Share of traces that `trace_id_ratio` records, from 0 to 1; 0 by default.
    #[serde(default)]
    pub fraction: f64,
}

impl Default for SamplerFields {
    fn default() -> Self {
        Self { name: SamplerName::AlwaysOff, options: SamplerOptions::default() }
    }
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self { fraction: 0.0, root: RootFields::default() }
    }
}

impl Default for RootFields {
    fn default() -> Self {
        Self { name: RootName::AlwaysOff, options: RootOptions::default() }
    }
}

impl SamplerFields {
    fn sampler(&self) -> Sampler {
        let root = &self.options.root;
        match self.name {
            SamplerName::AlwaysOn => Sampler::Always,
            SamplerName::AlwaysOff => Sampler::Never,
            SamplerName::TraceIdRatio => Sampler::Ratio(Ratio::new(self.options.fraction)),
            SamplerName::ParentBase => Sampler::ParentBased(match root.name {
                RootName::AlwaysOn => Root::Always,
                RootName::AlwaysOff => Root::Never,
                RootName::TraceIdRatio => Root::Ratio(Ratio::new(root.options.fraction)),
            }),
        }
    }
}

/// Plugin metadata of `opentelemetry`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Source of the ids of new traces: `random` (default), or the header `X-Request-Id` if that is
    /// 32 hexadecimal digits.
    #[serde(default)]
    pub trace_id_source: TraceIdSource,
    /// Attributes of the resource, such as `service.name`.
    pub resource: Option<BTreeMap<String, PlainValue>>,
    /// Collector that receives the spans.
    #[serde(default)]
    pub collector: CollectorFields,
    /// Bounds of what waits for export.
    #[serde(default)]
    pub batch_span_processor: BatchSpanProcessor,
    /// Whether variables are set for later plugins and the access log; off by default.
    #[serde(default)]
    pub set_ngx_var: bool,
}

/// Source of the ids of new traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceIdSource {
    XRequestId,
    #[default]
    Random,
}

/// Text, number or boolean.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PlainValue {
    Flag(bool),
    Number(f64),
    Text(String),
}

/// Collector.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct CollectorFields {
    /// Address as `host:port`, or a URL; `127.0.0.1:4318` by default.
    #[serde(default = "default_address")]
    pub address: String,
    /// Timeout of an export in seconds; 3 by default.
    #[serde(default = "default_request_timeout")]
    pub request_timeout: i64,
    /// Headers of every export.
    #[serde(default)]
    pub request_headers: BTreeMap<String, PlainValue>,
}

impl Default for CollectorFields {
    fn default() -> Self {
        Self {
            address: default_address(),
            request_timeout: default_request_timeout(),
            request_headers: BTreeMap::new(),
        }
    }
}

/// Bounds of what waits for export.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
pub struct BatchSpanProcessor {
    /// Accepted for compatibility with APISIX; has no effect, because spans are always dropped.
    pub drop_on_queue_full: Option<bool>,
    /// Spans that wait at most; 2048 by default.
    pub max_queue_size: Option<i64>,
    /// Longest time for which a batch is collected, in seconds; 5 by default.
    pub batch_timeout: Option<f64>,
    /// Seconds without a new span after which a batch is sent; 2 by default.
    pub inactive_timeout: Option<f64>,
    /// Spans at which a batch is sent at once; 256 by default.
    pub max_export_batch_size: Option<i64>,
}

defaults! {
    default_address: String = "127.0.0.1:4318".into();
    default_request_timeout: i64 = 3;
}

/// Destination and rules of spans.
pub struct Opentelemetry {
    sampler: Sampler,
    trace_id_source: TraceIdSource,
    sets_variables: bool,
    /// Export of the metadata; `None` without metadata.
    export: Option<Arc<SpanExport>>,
    attributes: Vec<(String, Variable)>,
    headers: Vec<HeaderPattern>,
}

/// Name of a header, or the beginning of names.
#[derive(Debug)]
enum HeaderPattern {
    Name(String),
    Prefix(String),
}

impl Plugin for Opentelemetry {
    const NAME: &'static str = "opentelemetry";
    const PRIORITY: i32 = 12009;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Phases::REWRITE.union(Phases::LOG);
    type Config = Config;

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let parse = |metadata: &Value| Metadata::deserialize(metadata);
        let metadata = scope.metadata.map(parse).transpose();
        let metadata = metadata.map_err(|error| format!("invalid metadata: {error}"))?;
        if metadata.is_none() && scope.services.background.is_some() {
            let owner = scope.owner;
            tracing::info!(owner, "opentelemetry has no plugin metadata: it uses the bootstrap file's tracing");
        }
        let names = config.additional_attributes.unwrap_or_default();
        let headers = config.additional_header_prefix_attributes.unwrap_or_default();
        let settings = metadata.as_ref();
        Ok(Self {
            sampler: config.sampler.sampler(),
            trace_id_source: settings.map(|it| it.trace_id_source).unwrap_or_default(),
            sets_variables: settings.is_some_and(|it| it.set_ngx_var),
            export: metadata.as_ref().map(|metadata| open(metadata, scope)),
            attributes: names.into_iter().map(|name| (name.clone(), Variable::parse(&name))).collect(),
            headers: headers.into_iter().map(HeaderPattern::parse).collect(),
        })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        // Without a collector of its own, the plugin only changes a trace that has one.
        if self.export.is_none() && cx.trace().is_none() {
            return Step::Continue;
        }
        let context = self.start(cx);
        if self.sets_variables {
            let traceparent = w3c::write(&context);
            for (name, text) in [
                ("opentelemetry_context_traceparent", &traceparent[..]),
                ("opentelemetry_trace_id", &traceparent[w3c::TRACE_ID_AT]),
                ("opentelemetry_span_id", &traceparent[w3c::SPAN_ID_AT]),
            ] {
                cx.set_variable(name, text.to_vec());
            }
        }
        Step::Continue
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let Some(trace) = cx.request().trace().filter(|trace| trace.is_recorded()) else { return };
        let variables = cx.variables();
        trace.add_attributes(|span| {
            for (key, name) in
                [(Key::ApisixRouteName, "route_name"), (Key::ApisixServiceName, "service_name")]
            {
                let value = variables.variable(&Variable::parse(name));
                span.text_if_any(key, &value.unwrap_or_default());
            }
            for (name, variable) in &self.attributes {
                if let Some(value) = variables.variable(variable) {
                    span.named(name, AttributeValue::Text(&value));
                }
            }
            self.write_headers(cx, span);
        });
    }
}

impl Opentelemetry {
    /// Begins the trace and returns the context of its span.
    fn start(&self, cx: &mut RequestContext<'_>) -> SpanContext {
        let propagators = Propagators::default();
        let sent = cx.exchange().client_header_list(w3c::TRACEPARENT.as_bytes());
        let incoming = propagators.extract(&|name| match name {
            w3c::TRACEPARENT => sent.as_deref(),
            _ => None,
        });
        let random = |cx: &RequestContext<'_>| {
            // Two numbers, because a fake request has one only.
            TraceId::from_random(cx.random(), cx.random())
        };
        let (trace_id, parent) = match incoming.parent {
            Some((trace_id, span_id)) => (trace_id, Some(span_id)),
            None => (self.own_id(cx).unwrap_or_else(|| random(cx)), None),
        };
        let is_sampled = self.sampler.records(trace_id, incoming.verdict);
        let context =
            SpanContext { trace_id, span_id: SpanId::from_random(cx.random()), is_sampled };
        let export = self.export.as_ref().filter(|_| is_sampled);
        let sink = export.map(|export| Arc::<SpanExport>::clone(export) as Arc<dyn SpanSink>);
        drop(sent);
        cx.begin_trace(TraceStart {
            context,
            parent,
            propagators,
            names: SpanNames::Apisix,
            has_inner_spans: false,
            sink,
        });
        context
    }

    /// Id of a new trace from the request's id, if metadata says so and it is one.
    fn own_id(&self, cx: &RequestContext<'_>) -> Option<TraceId> {
        if self.trace_id_source != TraceIdSource::XRequestId {
            return None;
        }
        // Repeated headers are joined to a text that is not an id.
        TraceId::parse(&cx.header("X-Request-Id")?.to_ascii_lowercase())
    }

    fn write_headers(&self, cx: &LogContext<'_>, span: &mut SpanWriter<'_>) {
        if self.headers.is_empty() {
            return;
        }
        let mut lines: Vec<(String, Vec<u8>)> = Vec::new();
        cx.each_header(&mut |name, value| {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            match lines.iter_mut().find(|(other, _)| *other == name) {
                Some((_, joined)) => joined.extend_from_slice(&[b", ", value].concat()),
                None => lines.push((name, value.to_vec())),
            }
        });
        for pattern in &self.headers {
            for (name, value) in lines.iter().filter(|(name, _)| pattern.matches(name)) {
                span.named(name, AttributeValue::Text(value));
            }
        }
    }
}

impl HeaderPattern {
    fn parse(text: String) -> Self {
        match text.strip_suffix('*').filter(|prefix| !prefix.is_empty()) {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Name(text),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}

/// Opens the export of the metadata, or returns the one that other confs use.
fn open(metadata: &Metadata, scope: &Scope<'_>) -> Arc<SpanExport> {
    let batch = &metadata.batch_span_processor;
    let collector = collector(metadata);
    let count = |given: Option<i64>, default: u64| {
        let given = given.and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
        usize::try_from(given.unwrap_or(default).min(QUEUE_SPANS_MAX)).unwrap_or(usize::MAX)
    };
    let seconds = |given: Option<f64>, default: f64| {
        let given = given.filter(|seconds| *seconds >= 0.0).unwrap_or(default);
        Duration::try_from_secs_f64(given).unwrap_or(Duration::MAX).min(LONGEST)
    };
    let bounds = QueueBounds {
        name: Opentelemetry::NAME,
        spans_max: count(batch.max_queue_size, 2048),
        batch_spans: count(batch.max_export_batch_size, 256),
        batch_time: seconds(batch.batch_timeout, 5.0),
        idle_time: seconds(batch.inactive_timeout, 2.0),
    };
    let key = format!("{collector:?} {bounds:?}");
    scope.keep(&key, || SpanExport::new(&collector, &bounds, scope.services))
}

/// Longest time of a batch: one day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

fn collector(metadata: &Metadata) -> Collector {
    let CollectorFields { address, request_timeout, request_headers } = &metadata.collector;
    let (protocol, endpoint) = endpoint(address);
    let text = |value: &PlainValue| match value {
        PlainValue::Flag(flag) => flag.to_string(),
        PlainValue::Number(number) => number.to_string(),
        PlainValue::Text(text) => text.clone(),
    };
    let seconds = u64::try_from(*request_timeout).unwrap_or(0).max(1);
    let hostname = crate::logging::hostname();
    let mut resource = vec![("hostname".to_owned(), ResourceValue::Text(hostname.to_owned()))];
    for (name, value) in metadata.resource.iter().flatten() {
        resource.push((name.clone(), match value {
            PlainValue::Flag(flag) => ResourceValue::Flag(*flag),
            PlainValue::Number(number) => ResourceValue::Real(*number),
            PlainValue::Text(text) => ResourceValue::Text(text.clone()),
        }));
    }
    for (name, value) in [
        ("service.name", "APISIX"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.name", "tollhouse"),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ] {
        resource.push((name.to_owned(), ResourceValue::Text(value.to_owned())));
    }
    Collector {
        endpoint: endpoint.into_owned(),
        protocol,
        headers: request_headers.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        timeout: Duration::from_secs(seconds),
        compression: Compression::None,
        tls: CollectorTls::SYSTEM,
        resource,
    }
}

/// Transport and URL of an address.
fn endpoint(address: &str) -> (Protocol, Cow<'_, str>) {
    if let Some(authority) = address.strip_prefix("grpc://") {
        return (Protocol::Grpc, format!("http://{authority}").into());
    }
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.ends_with(GRPC_PORT) {
        return (Protocol::Grpc, format!("{scheme}://{authority}").into());
    }
    let path = path.trim_end_matches('/');
    let path = if path.is_empty() { "/v1/traces" } else { path };
    (Protocol::Http, format!("{scheme}://{authority}{path}").into())
}

#[cfg(test)]
mod tests;
