//! Sends counts, latencies and sizes of every exchange to a Datadog agent, over UDP (DogStatsD).
//!
//! # Example
//! ```json
//! {"include_method": true, "constant_tags": ["team:shop"]}
//! ```
//!
//! # Answers
//! None.
//!
//! # Metrics
//! Names begin with the `namespace` of the plugin's metadata, `apisix` by default.
//! - `request.counter`: requests
//! - `request.latency`, `upstream.latency`, `apisix.latency`: histograms in milliseconds, of the
//!   whole exchange, the node's share and the rest
//! - `ingress.size`, `egress.size`: bytes from and to the client, as timers
//!
//! # Notes
//! The address of the agent is in the plugin's metadata (`host`, `port`); by default
//! `127.0.0.1:8125`. Requests never wait for it. At most 8,192 entries (or `max_pending_entries` of
//! the metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own log
//! reports that, and `tollhouse_log_entries_lost_total` counts them.
//!
//! Tags are `route_name`, `service_name`, `consumer`, `balancer_ip`, `response_status`,
//! `response_status_class` and `scheme`, before them the `constant_tags` of metadata and conf, and on
//! demand `path` and `method`. Commas, bars and control characters in values become underscores. The
//! metrics of an exchange are one datagram of up to 8,192 bytes, or else one datagram each.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, Scope, Transfer,
};

use crate::logging::BatchFields;
use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::queue::QueueConf;
use crate::logging::socket::{LogServer, first_datagram};
use crate::shared::confs::defaults::{default_true, defaults};

/// Longest datagram in bytes that agents take by default (`dogstatsd_buffer_size`).
const DATAGRAM_BYTES_MAX: usize = 8_192;

/// Time for looking up the agent's address, and for sending a datagram.
const STEP_TIME_MAX: Duration = Duration::from_secs(5);

/// Pattern of a tag: a letter, and at the end no colon.
const TAG_PATTERN: &str = r"^\p{L}([\p{L}\p{N}_.:/-]*[\p{L}\p{N}_./-])?$";

/// Configuration of `datadog`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Whether tags hold the names of route and service instead of their ids; on by default.
    #[serde(default = "default_true")]
    pub prefer_name: bool,
    /// Whether a tag holds the path of the route, as a pattern; off by default.
    #[serde(default)]
    pub include_path: bool,
    /// Whether a tag holds the method; off by default.
    #[serde(default)]
    pub include_method: bool,
    /// Tags of all metrics, beside those of the metadata.
    #[serde(default)]
    #[schemars(inner(length(min = 1, max = 200), regex(pattern = TAG_PATTERN)))]
    pub constant_tags: Vec<String>,
    /// Size and timing of batches.
    #[serde(flatten)]
    pub batch: BatchFields,
}

/// Plugin metadata: the agent, and settings of all metrics.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Host name or IP address of the agent.
    #[serde(default = "default_host")]
    pub host: String,
    /// UDP port of the agent.
    #[serde(default = "default_port")]
    pub port: u16,
    /// First part of the names of metrics.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Tags of all metrics.
    #[serde(default = "default_metadata_tags")]
    #[schemars(inner(length(min = 1, max = 200), regex(pattern = TAG_PATTERN)))]
    pub constant_tags: Vec<String>,
    /// Largest number of entries that wait for delivery. Further entries are dropped.
    #[schemars(range(min = 1))]
    pub max_pending_entries: Option<u64>,
}

defaults! {
    default_host: String = "127.0.0.1".to_owned();
    default_port: u16 = 8125;
    default_namespace: String = "apisix".to_owned();
    default_metadata_tags: Vec<String> = vec!["source:apisix".to_owned()];
}

pub struct Datadog {
    /// Names of route and service; ids if `None`.
    names: Option<[Variable; 2]>,
    /// Path of the route, if a tag holds it.
    path: Option<Variable>,
    include_method: bool,
    /// Constant tags, each followed by a comma.
    tags: String,
    /// Namespace with its dot.
    prefix: String,
    batches: Arc<Batches<Agent>>,
}

impl Plugin for Datadog {
    const NAME: &'static str = "datadog";
    const PRIORITY: i32 = 495;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Phases::LOG;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!(Self::NAME);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let metadata = scope.metadata.cloned().unwrap_or_else(|| Map::new().into());
        let metadata: Metadata =
            serde_json::from_value(metadata).map_err(|error| error.to_string())?;
        let Metadata { host, port, namespace, .. } = metadata;
        let queue = QueueConf::new(Self::NAME, &config.batch).sent_to(format!("{host}:{port}"));
        let step_time_max = STEP_TIME_MAX;
        let batches = queue.open(scope, || Agent(LogServer { host, port, step_time_max }));
        let named = |name: &str| Variable::Named(name.to_owned());
        let tags = metadata.constant_tags.iter().chain(&config.constant_tags);
        Ok(Self {
            names: config.prefer_name.then(|| [named("route_name"), named("service_name")]),
            path: config.include_path.then(|| named("matched_uri")),
            include_method: config.include_method,
            tags: tags.map(|tag| format!("{tag},")).collect(),
            prefix: if namespace.is_empty() { namespace } else { format!("{namespace}.") },
            batches,
        })
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let lines = self.lines(cx);
        let whole = lines.join("\n");
        if whole.len() <= DATAGRAM_BYTES_MAX {
            return self.batches.log(cx, whole);
        }
        lines.into_iter().for_each(|line| self.batches.log(cx, line));
    }
}

impl Datadog {
    /// Returns a line for each metric of an exchange.
    fn lines(&self, cx: &LogContext<'_>) -> Vec<String> {
        let transfer = cx.transfer();
        let tags = self.tags(cx);
        let own_ms = transfer.request_ms.saturating_sub(transfer.upstream_ms.unwrap_or(0));
        let metrics = [
            ("request.counter", Some(1), "c"),
            ("request.latency", Some(transfer.request_ms), "h"),
            ("upstream.latency", transfer.upstream_ms, "h"),
            ("apisix.latency", Some(own_ms), "h"),
            ("ingress.size", Some(transfer.bytes_received), "ms"),
            ("egress.size", Some(transfer.bytes_sent), "ms"),
        ];
        let line = |(name, value, kind): (&str, Option<u64>, &str)| {
            value.map(|value| format!("{}{name}:{value}|{kind}|#{tags}", self.prefix))
        };
        metrics.into_iter().filter_map(line).collect()
    }

    fn tags(&self, cx: &LogContext<'_>) -> String {
        let Transfer { route_id, service_id, consumer, upstream, status, .. } = *cx.transfer();
        let value = |variable: &Variable| {
            let value = cx.variables().variable(variable)?;
            Some(String::from_utf8_lossy(&value).into_owned()).filter(|value| !value.is_empty())
        };
        let names = self.names.as_ref().map(|names| names.each_ref().map(value));
        let [route_name, service_name] = names.unwrap_or_default();
        let host = || value(&Variable::Host).unwrap_or_default();
        // As in APISIX, requests without a route have the requested host as service.
        let service = service_name.unwrap_or_else(|| match route_id {
            "" => host(),
            _ => service_id.to_owned(),
        });
        let mut tags = self.tags.clone();
        let mut add = |name: &str, value: &str| {
            if !value.is_empty() {
                tags.extend([name, ":", &tag_value(value), ","]);
            }
        };
        add("route_name", &route_name.unwrap_or_else(|| route_id.to_owned()));
        add("path", &self.path.as_ref().and_then(value).unwrap_or_default());
        if self.include_method {
            add("method", &String::from_utf8_lossy(cx.request().method()));
        }
        add("service_name", &service);
        add("consumer", consumer);
        add("balancer_ip", address_of(upstream));
        add("response_status", &status.to_string());
        add("response_status_class", &format!("{}xx", status / 100));
        add("scheme", &value(&Variable::Scheme).unwrap_or_default());
        tags.pop();
        tags
    }
}

/// Replaces the characters that end a tag or a metric.
fn tag_value(value: &str) -> String {
    let safe = |letter: char| match letter {
        ',' | '|' => '_',
        letter if letter.is_control() => '_',
        letter => letter,
    };
    value.chars().map(safe).collect()
}

/// Returns the host of a node's address.
fn address_of(upstream: &str) -> &str {
    upstream.rsplit_once(':').map_or(upstream, |(host, _)| host)
}

/// Datadog agent.
struct Agent(LogServer);

impl Delivery for Agent {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        self.0.send_datagrams(batch, first_datagram).await
    }
}

#[cfg(test)]
mod tests;
