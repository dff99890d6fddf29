//! Records requests as segments and sends them to Apache SkyWalking's OAP over HTTP.
//!
//! A trace that the client has begun (header `sw8`) is continued, and the node receives the gateway
//! as its parent. A request becomes a segment of two spans: one for the client's request and one for
//! the call to the node.
//!
//! # Example
//! ```json
//! {"sample_ratio": 0.1}
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! The OAP is set for the whole process, under `plugin_attr.skywalking` of the bootstrap file:
//! `endpoint_addr` (`http://127.0.0.1:12800` by default), `service_name` (`APISIX`),
//! `service_instance_name` (`APISIX Instance Name`; `$hostname` is the name of the machine) and
//! `report_interval` in seconds (3). Requests never wait for it. At most 8,192 spans wait; further
//! ones are dropped and counted by `tollhouse_spans_lost_total`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Category, ConfError, LogContext, Phases, Plugin, RequestContext, ResponseContext, RunPolicy,
    Scope, Step,
};
use tollhouse_stdx::LogLimit;
use tollhouse_trace::{TraceId, unix_ns};

use crate::http_client::{Call, ClientError, HttpClient, Repeat, Reply, Reuse, Target, TargetError};
use crate::logging::batch::{
    Batches, Delivery, DeliveryError, Failure, Outlet, QueueOptions, Settings,
};
use crate::logging::hostname;
use crate::logging::pending::{ENTRIES_MAX, EntryKind};
use crate::shared::confs::defaults::defaults;
use crate::shared::dial::Verification;

pub(crate) mod carrier;

use self::carrier::{Carrier, SW8};

/// Name of the called service in spans, as in APISIX.
const PEER: &str = "upstream service";

/// SkyWalking's number of APISIX among the components.
const COMPONENT: u32 = 6002;

/// Number of the span that stands for the call to the node.
const EXIT_SPAN: u32 = 1;

/// Timeout of a call, and lifetime of an idle connection.
const TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Interval of the messages by which the OAP knows that the instance is alive.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// Shortest time between two log messages about an OAP that is down.
const FAILURES_SAID_EVERY: Duration = Duration::from_secs(60);

/// Configuration of `skywalking`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Share of requests that are recorded; all by default.
    #[serde(default = "default_sample_ratio")]
    #[schemars(range(min = 0.00001, max = 1))]
    pub sample_ratio: f64,
}

defaults! {
    default_sample_ratio: f64 = 1.0;
    default_service_name: String = "APISIX".into();
    default_instance: String = "APISIX Instance Name".into();
    default_endpoint: String = "http://127.0.0.1:12800".into();
    default_interval: u64 = 3;
}

/// `plugin_attr.skywalking` of the bootstrap file.
#[derive(Debug, Deserialize)]
struct Attributes {
    #[serde(default = "default_service_name")]
    service_name: String,
    #[serde(default = "default_instance")]
    service_instance_name: String,
    #[serde(default = "default_endpoint")]
    endpoint_addr: String,
    #[serde(default = "default_interval")]
    report_interval: u64,
}

pub struct Skywalking {
    sample_ratio: f64,
    reporter: Arc<Reporter>,
}

/// Segment of a request between the phases.
#[derive(Debug, Clone)]
struct Segment {
    trace_id: String,
    segment_id: String,
    parent: Option<Carrier>,
    started_ms: u64,
    answered_ms: Option<u64>,
}

impl Plugin for Skywalking {
    const NAME: &'static str = "skywalking";
    const PRIORITY: i32 = 12010;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Phases::REWRITE.union(Phases::RESPONSE).union(Phases::LOG);
    const RUN_POLICY: RunPolicy = RunPolicy::PreferRoute;
    type Config = Config;

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let attributes = scope.services.attributes.get(Self::NAME).cloned();
        let attributes = Attributes::deserialize(attributes.unwrap_or_else(|| json!({})));
        let attributes =
            attributes.map_err(|error| format!("invalid plugin_attr.skywalking: {error}"))?;
        let reporter = scope.keep(Self::NAME, || Reporter::new(attributes, scope));
        Ok(Self { sample_ratio: config.sample_ratio, reporter })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if unit(cx.random()) >= self.sample_ratio {
            return Step::Continue;
        }
        let parent = cx.header(SW8).and_then(|value| Carrier::parse(&value));
        let id = |cx: &RequestContext<'_>| TraceId::from_random(cx.random(), cx.random()).to_hex();
        let trace_id = parent.as_ref().map_or_else(|| id(cx), |parent| parent.trace_id.clone());
        let segment_id = id(cx);
        let own = Carrier {
            trace_id: trace_id.clone(),
            segment_id: segment_id.clone(),
            span: EXIT_SPAN,
            service: self.reporter.service.clone(),
            instance: self.reporter.instance.clone(),
            endpoint: String::from_utf8_lossy(cx.path()).into_owned(),
            peer: PEER.to_owned(),
        };
        cx.set_header(SW8, own.to_string().as_bytes());
        cx.remember(Segment { trace_id, segment_id, parent, started_ms: now_ms(), answered_ms: None });
        Step::Continue
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if let Some(segment) = cx.recall::<Segment>() {
            segment.answered_ms = Some(now_ms());
        }
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let Some(segment) = cx.recall::<Segment>().cloned() else { return };
        self.reporter.push(self.reporter.document(&segment, cx).to_string());
    }
}

fn now_ms() -> u64 {
    unix_ns() / 1_000_000
}

/// A number from 0 to 1, exclusive.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// Connection to the OAP, which all confs share.
struct Reporter {
    service: String,
    instance: String,
    batches: Batches<Oap>,
    oap: Oap,
    background: Option<Handle>,
    /// Messages that keep the instance alive; begun with the first segment.
    heartbeat: OnceLock<Heartbeat>,
}

/// Task that ends with its owner.
struct Heartbeat(tokio::task::JoinHandle<()>);

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reporter {
    fn new(attributes: Attributes, scope: &Scope<'_>) -> Self {
        let Attributes { service_name, service_instance_name, endpoint_addr, report_interval } =
            attributes;
        let interval = Duration::from_secs(report_interval.clamp(1, 3600));
        let settings = Settings {
            name: Skywalking::NAME.to_owned(),
            tries_max: 1,
            retry_delay: interval,
            age_max: interval,
            pause_max: interval,
            entries_max: ENTRIES_MAX / 4,
        };
        let oap = Oap::new(&endpoint_addr);
        let outlet = Outlet::from_services(scope.services);
        let options = QueueOptions { owner: Skywalking::NAME, pending_max: ENTRIES_MAX };
        let background = outlet.background.clone();
        let batches = Batches::with_settings(settings, oap.clone(), outlet, options);
        let instance = match service_instance_name.as_str() {
            "$hostname" => hostname().to_owned(),
            _ => service_instance_name,
        };
        let heartbeat = OnceLock::new();
        Self { service: service_name, instance, batches, oap, background, heartbeat }
    }

    fn push(&self, segment: String) {
        if let Some(background) = &self.background {
            self.heartbeat.get_or_init(|| {
                let beats = keep_alive(self.oap.clone(), self.service.clone(), self.instance.clone());
                Heartbeat(background.spawn(beats))
            });
        }
        let bytes = segment.len();
        self.batches.push(segment, bytes);
    }

    /// Segment in the format of `/v3/segments`.
    fn document(&self, segment: &Segment, cx: &LogContext<'_>) -> Value {
        let variable = |name: &str| {
            let value = cx.variables().variable(&Variable::parse(name)).unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        };
        let transfer = cx.transfer();
        let ended_ms = now_ms().max(segment.started_ms);
        let answered_ms = segment.answered_ms.unwrap_or(ended_ms).max(segment.started_ms);
        let url = format!("{}://{}{}", variable("scheme"), variable("host"), variable("request_uri"));
        let tag = |key: &str, value: String| json!({"key": key, "value": value});
        let span = |number: u32, kind: &str, end_ms: u64, status: u16| {
            json!({
                "operationName": variable("uri"),
                "startTime": segment.started_ms,
                "endTime": end_ms,
                "spanType": kind,
                "spanId": number,
                "parentSpanId": i64::from(number) - 1,
                "isError": status >= 500,
                "spanLayer": "Http",
                "componentId": COMPONENT,
                "tags": [
                    tag("http.method", variable("request_method")),
                    tag("http.params", url.clone()),
                    tag("http.status", status.to_string()),
                ],
            })
        };
        let mut exit =
            span(EXIT_SPAN, "Exit", answered_ms, transfer.upstream_status.unwrap_or(transfer.status));
        exit["peer"] = json!(PEER);
        let mut entry = span(0, "Entry", ended_ms, transfer.status);
        if let Some(parent) = &segment.parent {
            entry["refs"] = json!([{
                "refType": "CrossProcess",
                "traceId": parent.trace_id,
                "parentTraceSegmentId": parent.segment_id,
                "parentSpanId": parent.span,
                "parentService": parent.service,
                "parentServiceInstance": parent.instance,
                "parentEndpoint": parent.endpoint,
                "networkAddressUsedAtPeer": parent.peer,
            }]);
        }
        json!({
            "traceId": segment.trace_id,
            "traceSegmentId": segment.segment_id,
            "service": self.service,
            "serviceInstance": self.instance,
            "isSizeLimited": false,
            "spans": [exit, entry],
        })
    }
}

/// Tells the OAP about this instance, then that it is alive, until the task is aborted.
async fn keep_alive(oap: Oap, service: String, instance: String) {
    let properties = [json!({"language": "Rust"}), json!({"Process No.": std::process::id().to_string()})];
    let known = json!({"service": service, "serviceInstance": instance, "properties": properties});
    let alive = json!({"service": service, "serviceInstance": instance});
    let mut failures = LogLimit::new(FAILURES_SAID_EVERY);
    let mut is_known = false;
    loop {
        let (path, message) = match is_known {
            true => ("/v3/management/keepAlive", &alive),
            false => ("/v3/management/reportProperties", &known),
        };
        match oap.post(path, message.to_string()).await {
            Ok(reply) if reply.status < 300 => is_known = true,
            Ok(reply) => note_failure(&mut failures, &format!("status {}", reply.status)),
            Err(error) => note_failure(&mut failures, &error.to_string()),
        }
        tokio::time::sleep(KEEP_ALIVE_INTERVAL).await;
    }
}

fn note_failure(failures: &mut LogLimit, error: &str) {
    if failures.admit(std::time::Instant::now()).is_some() {
        tracing::warn!(error, "SkyWalking's OAP does not take reports about this instance");
    }
}

/// SkyWalking's server.
#[derive(Clone)]
struct Oap {
    target: Result<Target, TargetError>,
    client: HttpClient,
}

impl Oap {
    fn new(address: &str) -> Self {
        let reuse = Reuse::For { idle: IDLE_MAX, connections_max: 1 };
        let client = HttpClient::new(TIMEOUT, Verification::Off, reuse);
        Self { target: Target::parse(address), client }
    }

    async fn post(&self, path: &str, body: String) -> Result<Reply, ClientError> {
        let refused = |error: &TargetError| ClientError::Request(error.to_string());
        let target = self.target.as_ref().map_err(refused)?;
        let base = target.path.trim_end_matches('/');
        let call = Call {
            method: b"POST".to_vec(),
            path: format!("{base}{path}").into_bytes(),
            headers: vec![("Content-Type".to_owned(), b"application/json".to_vec())],
            body: Bytes::from(body),
            repeat: Repeat::ByMethod,
        };
        self.client.send(target, call).await
    }
}

impl Delivery for Oap {
    type Entry = String;
    const KIND: EntryKind = EntryKind::Span;

    /// Number of spans of a segment.
    fn count(_: &String) -> usize {
        2
    }

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let body = format!("[{}]", batch.join(","));
        match self.post("/v3/segments", body).await.map_err(DeliveryError::from)?.status {
            ..300 => Ok(()),
            status => Err(DeliveryError::Status(status).into()),
        }
    }
}

#[cfg(test)]
mod tests;
