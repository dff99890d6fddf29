//! Sends an event for every exchange to Splunk's HTTP Event Collector, in batches.
//!
//! # Example
//! ```json
//! {
//!     "endpoint": {
//!         "uri": "https://127.0.0.1:8088/services/collector",
//!         "token": "BD274822-96AA-4DA6-90EC-18940FB2414C"
//!     },
//!     "ssl_verify": false
//! }
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! Requests never wait for Splunk. At most 8,192 entries (or `max_pending_entries` of the plugin's
//! metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own log
//! reports that, and `tollhouse_log_entries_lost_total` counts them.
//!
//! An event has the fields `request_url`, `request_method`, `request_headers`, `request_query`,
//! `request_size`, `response_headers`, `response_status`, `response_size`, `latency` and `upstream`,
//! or those of `log_format`. Its source is `apache-apisix-splunk-hec-logging`, as from APISIX, so
//! that searches work unchanged. A batch is one request with the events behind each other.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, ResponseContext, Scope,
};

use crate::http_client::{HttpClient, Reuse};
use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::http::{HttpServers, URI_PATTERN, accept_ok, header};
use crate::logging::queue::QueueConf;
use crate::logging::{
    BatchFields, BatchMetadata, BodyFields, Entries, EntryParts, FormatFields, Layout, hostname,
};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};

/// Source of all events, as in APISIX.
const SOURCE: &str = "apache-apisix-splunk-hec-logging";
/// Type of the source: an event is JSON.
const SOURCE_TYPE: &str = "_json";
/// Idle connections to the collector. Few are needed, because deliveries follow each other.
const CONNECTIONS_MAX: usize = 5;

/// Configuration of `splunk-hec-logging`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Event collector.
    pub endpoint: Endpoint,
    /// Whether the collector's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Format of events.
    #[serde(flatten)]
    pub format: FormatFields,
    /// Size and timing of batches.
    #[serde(flatten)]
    pub batch: BatchFields,
}

/// Splunk's HTTP Event Collector.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Endpoint {
    /// Address, `http://` or `https://`, such as `https://splunk:8088/services/collector`.
    #[schemars(regex(pattern = URI_PATTERN))]
    pub uri: String,
    /// Token of the collector.
    pub token: SecretText,
    /// Channel of the events. Unset: none, which collectors with acknowledgement refuse.
    pub channel: Option<String>,
    /// Timeout of a delivery, in seconds; 10 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Lifetime of an idle connection, in milliseconds; 60,000 by default.
    #[serde(default = "default_keepalive_timeout")]
    #[schemars(range(min = 1_000))]
    pub keepalive_timeout: u64,
}

defaults! {
    default_timeout: u64 = 10;
    default_keepalive_timeout: u64 = 60_000;
}

pub struct SplunkHecLogging {
    entries: Entries,
    batches: Arc<Batches<Collector>>,
}

impl Plugin for SplunkHecLogging {
    const NAME: &'static str = "splunk-hec-logging";
    const PRIORITY: i32 = 409;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES_WITHOUT_BODIES;
    const ENCRYPTED: &'static [&'static str] = &["endpoint.token"];
    const SENT_TO: &'static [&'static str] = &["endpoint.uri", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!(Self::NAME);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let entries = Entries::compile(BodyFields::default(), config.format, scope)?;
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let Endpoint { uri, token, channel, timeout, keepalive_timeout } = config.endpoint;
        let batches = queue.open(scope, || {
            let idle = Duration::from_millis(keepalive_timeout);
            let client = HttpClient::new(
                Duration::from_secs(timeout),
                config.ssl_verify.into(),
                Reuse::For { idle, connections_max: CONNECTIONS_MAX },
            );
            Collector { servers: HttpServers::new([uri], client), token, channel }
        });
        Ok(Self { entries, batches })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let event = event(self.entries.parts(cx));
        let entry = json!({
            "time": cx.now().unix_ms as f64 / 1_000.0,
            "host": hostname(),
            "source": SOURCE,
            "sourcetype": SOURCE_TYPE,
            "event": event,
        });
        self.batches.log(cx, entry.to_string());
    }
}

/// Arranges the fields of an entry as an event.
fn event(parts: EntryParts) -> Map<String, Value> {
    if parts.layout == Layout::Custom {
        return parts.join();
    }
    let entry = Value::Object(parts.fields);
    let (request, response) = (&entry["request"], &entry["response"]);
    let mut event = parts.extra;
    for (name, value) in [
        ("request_url", &request["url"]),
        ("request_method", &request["method"]),
        ("request_headers", &request["headers"]),
        ("request_query", &request["querystring"]),
        ("request_size", &request["size"]),
        ("response_headers", &response["headers"]),
        ("response_status", &response["status"]),
        ("response_size", &response["size"]),
        ("latency", &entry["latency"]),
        ("upstream", &entry["upstream"]),
    ] {
        if !value.is_null() {
            event.insert(name.to_owned(), value.clone());
        }
    }
    event
}

/// Event collector of a conf.
struct Collector {
    servers: HttpServers,
    token: SecretText,
    channel: Option<String>,
}

impl Delivery for Collector {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let token = format!("Splunk {}", self.token.as_str());
        let mut headers =
            vec![header("Content-Type", "application/json"), header("Authorization", token)];
        if let Some(channel) = &self.channel {
            headers.push(header("X-Splunk-Request-Channel", channel.as_str()));
        }
        let reply = self.servers.post(headers, batch.concat()).await?;
        Ok(accept_ok(&reply)?)
    }
}

#[cfg(test)]
mod tests;
