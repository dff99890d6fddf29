//! Records requests as spans and sends them to a Zipkin collector.
//!
//! The trace of a client is continued if it sends B3 headers: `b3`, or `x-b3-traceid` and others. The
//! node receives the context in the `x-b3-…` headers, also if the request is not recorded.
//!
//! # Example
//! ```json
//! {"endpoint": "http://127.0.0.1:9411/api/v2/spans", "sample_ratio": 0.1}
//! ```
//!
//! # Answers
//! 400 for a `b3` header without the ids of trace and span.
//!
//! # Notes
//! A request becomes the span `apisix.request`, with `apisix.proxy` until the head of the answer and
//! `apisix.response_span` after it; with `span_version` 1 it has the spans `apisix.rewrite`,
//! `apisix.access`, `apisix.proxy` and `apisix.body_filter`. Spans of up to 1,000 requests are sent
//! together, after 60 seconds or 5 seconds without a request at the latest. What no collector takes
//! is counted by `tollhouse_spans_lost_total`.
//!
//! `plugin_attr.zipkin.set_ngx_var` of the bootstrap file sets the variables
//! `zipkin_context_traceparent`, `zipkin_trace_id` and `zipkin_span_id`, also for the access log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schemars::{JsonSchema, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Answer, Category, ConfError, LogContext, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};
use tollhouse_trace::{SpanContext, SpanId, TraceId, b3, unix_ns, w3c};

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target, TargetError};
use crate::logging::BatchFields;
use crate::logging::batch::{Batches, Delivery, DeliveryError, Failure};
use crate::logging::pending::EntryKind;
use crate::logging::queue::QueueConf;
use crate::shared::confs::defaults::defaults;
use crate::shared::dial::Verification;

/// Lifetime of an idle connection and their number, as in APISIX.
const IDLE_MAX: Duration = Duration::from_secs(5);
const CONNECTIONS_MAX: usize = 5;

/// Timeout of a delivery, as in APISIX.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Configuration of `zipkin`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// URL to which spans are sent.
    pub endpoint: String,
    /// Share of requests that are recorded, unless the client has decided.
    #[schemars(range(min = 0.00001, max = 1))]
    pub sample_ratio: f64,
    /// Name under which Zipkin shows the gateway; `APISIX` by default.
    #[serde(default = "default_service_name")]
    pub service_name: String,
    /// IPv4 address of the gateway in spans; that of the request's connection by default.
    #[schemars(regex(pattern = "^[0-9]{1,3}.[0-9]{1,3}.[0-9]{1,3}.[0-9]{1,3}$"))]
    pub server_addr: Option<String>,
    /// Names of the spans: 1 or 2 (default).
    #[serde(default = "default_span_version")]
    #[schemars(schema_with = "versions")]
    pub span_version: u8,
}

defaults! {
    default_service_name: String = "APISIX".into();
    default_span_version: u8 = 2;
}

fn versions(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({"enum": [1, 2], "default": 2})
}

pub struct Zipkin {
    sample_ratio: f64,
    service_name: String,
    server_addr: Option<String>,
    is_version_1: bool,
    sets_variables: bool,
    batches: Arc<Batches<Server>>,
}

/// Spans of one request, as JSON texts separated by commas.
struct Spans {
    json: String,
    count: usize,
}

/// Trace of a request between the phases.
#[derive(Debug, Clone, Copy)]
struct RequestTrace {
    context: SpanContext,
    parent: Option<SpanId>,
    /// Span that the node sees as its parent.
    proxy_id: SpanId,
    started_us: u64,
    access_us: u64,
    answered_us: Option<u64>,
}

/// Context that the client sent.
#[derive(Debug, Default)]
struct Incoming {
    ids: Option<(TraceId, Option<SpanId>)>,
    is_sampled: Option<bool>,
    is_debug: bool,
}

impl Plugin for Zipkin {
    const NAME: &'static str = "zipkin";
    const PRIORITY: i32 = 12011;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases =
        Phases::REWRITE.union(Phases::ACCESS).union(Phases::RESPONSE).union(Phases::LOG);
    type Config = Config;

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let fields = serde_json::from_value::<BatchFields>(json!({"name": "zipkin_report"}));
        let fields = fields.map_err(|error| error.to_string())?;
        let queue = QueueConf::new(Self::NAME, &fields);
        let batches = queue.open(scope, || Server {
            target: Target::parse(&config.endpoint),
            client: HttpClient::new(
                TIMEOUT,
                Verification::Off,
                Reuse::For { idle: IDLE_MAX, connections_max: CONNECTIONS_MAX },
            ),
        });
        let sets_variables = scope.services.attribute(Self::NAME, "set_ngx_var");
        Ok(Self {
            sample_ratio: config.sample_ratio,
            service_name: config.service_name,
            server_addr: config.server_addr.filter(|address| !address.is_empty()),
            is_version_1: config.span_version == 1,
            sets_variables: sets_variables.is_some_and(|it| *it == json!(true)),
            batches,
        })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let started_us = now_us();
        let incoming = match incoming(cx) {
            Ok(incoming) => incoming,
            Err(b3::InvalidB3) => return Answer::status(400).into(),
        };
        // The single header is passed on as several ones.
        cx.remove_header(b3::SINGLE);
        if incoming.is_debug {
            cx.set_header(b3::FLAGS, b"1");
        }
        let ratio = match incoming.is_sampled {
            Some(true) => 1.0,
            Some(false) => 0.0,
            None => self.sample_ratio,
        };
        let is_sampled = unit(cx.random()) < ratio;
        let (trace_id, parent) = match incoming.ids {
            Some((trace_id, span_id)) => (trace_id, span_id),
            None => (TraceId::from_random(cx.random(), cx.random()), None),
        };
        let span_id = SpanId::from_random(cx.random());
        let context = SpanContext { trace_id, span_id, is_sampled };
        if self.sets_variables {
            let traceparent = w3c::write(&context);
            for (name, text) in [
                ("zipkin_context_traceparent", &traceparent[..]),
                ("zipkin_trace_id", &traceparent[w3c::TRACE_ID_AT]),
                ("zipkin_span_id", &traceparent[w3c::SPAN_ID_AT]),
            ] {
                cx.set_variable(name, text.to_vec());
            }
        }
        let proxy_id = SpanId::from_random(cx.random());
        let access_us = now_us();
        cx.remember(RequestTrace {
            context,
            parent,
            proxy_id,
            started_us,
            access_us,
            answered_us: None,
        });
        Step::Continue
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let Some(trace) = cx.recall::<RequestTrace>() else { return Step::Continue };
        if trace.context.is_sampled && self.is_version_1 {
            trace.access_us = now_us();
        }
        let (span_id, parent) = match trace.context.is_sampled {
            true => (trace.proxy_id, Some(trace.context.span_id)),
            false => (trace.context.span_id, trace.parent),
        };
        let sampled: &[u8] = if trace.context.is_sampled { b"1" } else { b"0" };
        let trace_id = trace.context.trace_id.to_hex();
        cx.set_header(b3::TRACE_ID, trace_id.as_bytes());
        cx.set_header(b3::SPAN_ID, span_id.to_hex().as_bytes());
        match parent {
            Some(parent) => cx.set_header(b3::PARENT_SPAN_ID, parent.to_hex().as_bytes()),
            None => cx.remove_header(b3::PARENT_SPAN_ID),
        }
        cx.set_header(b3::SAMPLED, sampled);
        Step::Continue
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if let Some(trace) = cx.recall::<RequestTrace>() {
            trace.answered_us = Some(now_us());
        }
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let Some(trace) = cx.recall::<RequestTrace>().copied() else { return };
        if !trace.context.is_sampled {
            return;
        }
        let spans = self.spans(&trace, cx);
        let bytes = spans.json.len();
        self.batches.push(spans, bytes);
    }
}

fn now_us() -> u64 {
    unix_ns() / 1_000
}

/// A number from 0 to 1, exclusive.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// Context that the client sent. Invalid ids count as none, as in APISIX.
///
/// # Errors
/// If `b3` lacks the ids of trace or span.
fn incoming(cx: &RequestContext<'_>) -> Result<Incoming, b3::InvalidB3> {
    let header = |name: &str| cx.header(name).map(|value| value.into_owned());
    let is_flagged = header(b3::FLAGS).is_some_and(|flags| flags == b"1");
    let single = header(b3::SINGLE);
    let mut parts: [Option<Vec<u8>>; 4] = match &single {
        Some(value) if value == b"0" => [None, None, Some(b"0".to_vec()), None],
        Some(value) => {
            let mut parts = value.splitn(4, |byte| *byte == b'-').map(<[u8]>::to_vec);
            let ids = [parts.next(), parts.next()];
            if ids.iter().any(Option::is_none) {
                return Err(b3::InvalidB3);
            }
            let [trace, span] = ids;
            [trace, span, parts.next(), parts.next()]
        }
        None => [
            header(b3::TRACE_ID),
            header(b3::SPAN_ID),
            header(b3::SAMPLED),
            header(b3::PARENT_SPAN_ID),
        ],
    };
    let is_debug = single.is_some() && parts[2].as_deref() == Some(b"d");
    if is_debug {
        parts[2] = Some(b"1".to_vec());
    }
    let [trace, span, sampled, parent] = parts;
    let is_sampled = match sampled.as_deref() {
        Some(b"1" | b"true") => Some(true),
        Some(b"0" | b"false") => Some(false),
        _ => is_flagged.then_some(true),
    };
    let is_invalid = |text: &Option<Vec<u8>>| {
        text.as_ref().is_some_and(|text| b3::span_id(text).is_none())
    };
    let ids = match trace.as_deref().and_then(b3::trace_id) {
        Some(trace_id) if !is_invalid(&span) && !is_invalid(&parent) => {
            Some((trace_id, span.as_deref().and_then(b3::span_id)))
        }
        _ => None,
    };
    Ok(Incoming { ids, is_sampled, is_debug })
}

/// Part of a request with a span of its own.
struct Part {
    name: &'static str,
    id: SpanId,
    parent: Option<SpanId>,
    from_us: u64,
    to_us: u64,
}

impl Zipkin {
    fn spans(&self, trace: &RequestTrace, cx: &LogContext<'_>) -> Spans {
        let ended_us = now_us();
        let request = trace.context.span_id;
        let answered_us = trace.answered_us.unwrap_or(ended_us);
        let id = || SpanId::from_random(cx.request().random());
        let part = |name, id, from_us, to_us: u64| Part {
            name,
            id,
            parent: Some(request),
            from_us,
            to_us: to_us.max(from_us),
        };
        let mut parts = Vec::new();
        if self.is_version_1 {
            let (started_us, access_us) = (trace.started_us, trace.access_us);
            parts.push(part("apisix.rewrite", id(), started_us, access_us));
            parts.push(part("apisix.access", id(), access_us, access_us));
            if trace.answered_us.is_some() {
                let filter = part("apisix.body_filter", id(), answered_us, ended_us);
                parts.push(Part { parent: Some(trace.proxy_id), ..filter });
            }
            parts.push(part("apisix.proxy", trace.proxy_id, access_us, ended_us));
        } else {
            parts.push(part("apisix.proxy", trace.proxy_id, trace.started_us, answered_us));
            if trace.answered_us.is_some() {
                parts.push(part("apisix.response_span", id(), answered_us, ended_us));
            }
        }
        let own = part("apisix.request", request, trace.started_us, ended_us);
        parts.push(Part { parent: trace.parent, ..own });
        let texts: Vec<String> =
            parts.iter().map(|part| self.document(part, trace, cx).to_string()).collect();
        Spans { json: texts.join(","), count: texts.len() }
    }

    /// Span in the format of Zipkin's API, version 2.
    fn document(&self, part: &Part, trace: &RequestTrace, cx: &LogContext<'_>) -> Value {
        let variable = |name: &str| {
            let value = cx.variables().variable(&Variable::parse(name)).unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        };
        let number = |name: &str| variable(name).parse::<u16>().unwrap_or(0);
        let is_request = part.id == trace.context.span_id;
        let address = self.server_addr.clone().unwrap_or_else(|| variable("server_addr"));
        let mut span = json!({
            "traceId": trace.context.trace_id.to_hex(),
            "name": part.name,
            "id": part.id.to_hex(),
            "timestamp": part.from_us,
            "duration": part.to_us - part.from_us,
            "localEndpoint": endpoint(&address, number("server_port"), Some(&self.service_name)),
            "tags": {},
        });
        if let Some(parent) = part.parent {
            span["parentId"] = json!(parent.to_hex());
        }
        if is_request {
            let transfer = cx.transfer();
            let source = match (transfer.is_upstream_answer, transfer.error_code) {
                (true, _) => "upstream",
                (false, Some(_)) if !transfer.upstream.is_empty() => "nginx",
                (false, _) => "apisix",
            };
            span["kind"] = json!("SERVER");
            let remote = variable("remote_addr");
            span["remoteEndpoint"] = endpoint(&remote, number("remote_port"), None);
            span["tags"] = json!({
                "component": "apisix",
                "http.method": variable("request_method"),
                "http.url": variable("request_uri"),
                "http.status_code": transfer.status.to_string(),
                "apisix.response_source": source,
            });
        }
        span
    }
}

fn endpoint(address: &str, port: u16, service: Option<&str>) -> Value {
    let mut fields = Map::new();
    if let Some(service) = service {
        fields.insert("serviceName".into(), json!(service));
    }
    let family = if address.contains(':') { "ipv6" } else { "ipv4" };
    fields.insert(family.into(), json!(address));
    fields.insert("port".into(), json!(port));
    Value::Object(fields)
}

struct Server {
    target: Result<Target, TargetError>,
    client: HttpClient,
}

impl Delivery for Server {
    type Entry = Spans;
    const KIND: EntryKind = EntryKind::Span;

    fn count(entry: &Spans) -> usize {
        entry.count
    }

    async fn deliver(&self, batch: &[Spans]) -> Result<(), Failure> {
        let target = self.target.clone().map_err(DeliveryError::from)?;
        let texts: Vec<&str> = batch.iter().map(|spans| spans.json.as_str()).collect();
        let call = Call {
            method: b"POST".to_vec(),
            path: target.path.clone().into_bytes(),
            headers: vec![("Content-Type".to_owned(), b"application/json".to_vec())],
            body: Bytes::from(format!("[{}]", texts.join(","))),
            repeat: Repeat::ByMethod,
        };
        match self.client.send(&target, call).await.map_err(DeliveryError::from)?.status {
            200..300 => Ok(()),
            status => Err(DeliveryError::Status(status).into()),
        }
    }
}

#[cfg(test)]
mod tests;
