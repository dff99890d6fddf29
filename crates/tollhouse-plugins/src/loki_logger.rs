//! Sends an entry for every exchange to Grafana Loki, in batches.
//!
//! Entries with equal labels form a stream. The time of an entry is the start of its request.
//!
//! # Example
//! ```json
//! {"endpoint_addrs": ["http://127.0.0.1:3100"], "log_labels": {"job": "apisix", "host": "$host"}}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for Loki. At most 8,192 entries (or `max_pending_entries` of the plugin's
//! metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own log
//! reports that, and `tollhouse_log_entries_lost_total` counts them.
//!
//! Several addresses take turns. Requests that no route matched have the `route_id` `no-matched`.
//! Loki stores few label sets well and many badly: a label should not hold a path or an address of
//! a client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::http_client::{HttpClient, Reuse};
use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::http::{HeaderLines, HttpServers, URI_PATTERN, accept_below, header};
use crate::logging::queue::QueueConf;
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};
use crate::shared::confs::text::Text;

/// Configuration of `loki-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Addresses of Loki, `http://` or `https://`, without the path. Several take turns.
    #[schemars(length(min = 1), inner(regex(pattern = URI_PATTERN)))]
    pub endpoint_addrs: Vec<String>,
    /// Path at which Loki takes entries.
    #[serde(default = "default_endpoint_uri")]
    #[schemars(length(min = 1))]
    pub endpoint_uri: String,
    /// Tenant of the entries, in the header `X-Scope-OrgID`; `fake` by default, as in Loki without
    /// tenants.
    #[serde(default = "default_tenant_id")]
    pub tenant_id: String,
    /// Further header lines of deliveries, such as `Authorization`.
    pub headers: Option<BTreeMap<String, SecretText>>,
    /// Labels of the streams. Values may contain variables such as `$host`.
    #[serde(default = "default_log_labels")]
    pub log_labels: BTreeMap<String, String>,
    /// Whether the server's TLS certificate is verified; off by default.
    #[serde(default)]
    pub ssl_verify: bool,
    /// Timeout of a delivery, in milliseconds; 3000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 60_000))]
    pub timeout: u64,
    /// Whether connections are kept between deliveries; on by default.
    #[serde(default = "default_true")]
    pub keepalive: bool,
    /// Lifetime of an idle connection, in milliseconds; 60,000 by default.
    #[serde(default = "default_keepalive_timeout")]
    #[schemars(range(min = 1_000))]
    pub keepalive_timeout: u64,
    /// Number of idle connections that are kept; 5 by default.
    #[serde(default = "default_keepalive_pool")]
    #[schemars(range(min = 1))]
    pub keepalive_pool: u64,
    /// Bodies in entries.
    #[serde(flatten)]
    pub bodies: BodyFields,
    /// Format of entries.
    #[serde(flatten)]
    pub format: FormatFields,
    /// Size and timing of batches.
    #[serde(flatten)]
    pub batch: BatchFields,
}

defaults! {
    default_endpoint_uri: String = "/loki/api/v1/push".to_owned();
    default_tenant_id: String = "fake".to_owned();
    default_log_labels: BTreeMap<String, String> =
        BTreeMap::from([("job".to_owned(), "apisix".to_owned())]);
    default_timeout: u64 = 3_000;
    default_keepalive_timeout: u64 = 60_000;
    default_keepalive_pool: u64 = 5;
}

pub struct LokiLogger {
    entries: Entries,
    labels: Vec<Label>,
    batches: Arc<Batches<Loki>>,
}

/// Label of the streams.
struct Label {
    name: String,
    /// Value as written, for requests in which no variable of it has a value.
    written: String,
    value: Text,
}

impl Plugin for LokiLogger {
    const NAME: &'static str = "loki-logger";
    const PRIORITY: i32 = 414;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    const ENCRYPTED: &'static [&'static str] = &["headers"];
    const SENT_TO: &'static [&'static str] = &["endpoint_addrs", "endpoint_uri", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let fields = &mut schema["properties"];
        fields["name"]["default"] = json!("loki logger");
        fields["headers"]["additionalProperties"]["minLength"] = json!(1);
        fields["log_labels"]["additionalProperties"]["minLength"] = json!(1);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || Loki::new(&config));
        let labels = config.log_labels.into_iter();
        let labels =
            labels.map(|(name, written)| Label { name, value: Text::parse(&written), written });
        let labels = labels.collect();
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        Ok(Self { entries, labels, batches })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let mut entry = self.entries.entry(cx);
        if entry.get("route_id").is_none() {
            entry["route_id"] = json!("no-matched");
        }
        let labels = self.labels.iter().map(|label| label.pair(cx)).collect();
        let line = Line { labels, unix_ms: cx.transfer().started_unix_ms, text: entry.to_string() };
        let bytes = line.bytes();
        self.batches.log_sized(cx, line, bytes);
    }
}

impl Label {
    /// Returns name and value for an exchange.
    fn pair(&self, cx: &LogContext<'_>) -> (String, String) {
        let value = self.value.for_request(cx.variables());
        let value = if value.is_empty() { self.written.as_bytes() } else { &value };
        (self.name.clone(), String::from_utf8_lossy(value).into_owned())
    }
}

/// Entry with the stream that it belongs to.
struct Line {
    labels: Vec<(String, String)>,
    unix_ms: u64,
    text: String,
}

impl Line {
    fn bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        labels + self.text.len()
    }
}

/// Loki servers of a conf.
struct Loki {
    servers: HttpServers,
    headers: HeaderLines,
}

impl Loki {
    fn new(config: &Config) -> Self {
        let idle = Duration::from_millis(config.keepalive_timeout);
        let connections_max = usize::try_from(config.keepalive_pool).unwrap_or(usize::MAX);
        let reuse = match config.keepalive {
            true => Reuse::For { idle, connections_max },
            false => Reuse::Never,
        };
        let timeout = Duration::from_millis(config.timeout);
        let client = HttpClient::new(timeout, config.ssl_verify.into(), reuse);
        let uris = config.endpoint_addrs.iter();
        let uris = uris.map(|address| format!("{address}{}", config.endpoint_uri));
        // A line of the conf replaces none of these, which Loki needs.
        let is_own = |name: &str| {
            name.eq_ignore_ascii_case("X-Scope-OrgID") || name.eq_ignore_ascii_case("Content-Type")
        };
        let lines = config.headers.iter().flatten().filter(|(name, _)| !is_own(name));
        let mut headers: HeaderLines =
            lines.map(|(name, value)| header(name, value.as_bytes())).collect();
        headers.push(header("X-Scope-OrgID", config.tenant_id.as_str()));
        headers.push(header("Content-Type", "application/json"));
        Self { servers: HttpServers::new(uris, client), headers }
    }
}

impl Delivery for Loki {
    type Entry = Line;

    async fn deliver(&self, batch: &[Line]) -> Result<(), Failure> {
        let reply = self.servers.post(self.headers.clone(), push(batch)).await?;
        Ok(accept_below(&reply, 300)?)
    }
}

/// Returns the body of a request: one stream for each set of labels, in the order of their first
/// entries.
fn push(batch: &[Line]) -> String {
    let mut streams: Vec<(&[(String, String)], Vec<Value>)> = Vec::new();
    let mut places: BTreeMap<&[(String, String)], usize> = BTreeMap::new();
    for line in batch {
        let place = *places.entry(&line.labels).or_insert_with(|| {
            streams.push((&line.labels, Vec::new()));
            streams.len() - 1
        });
        // Nanoseconds, with the precision of the clock.
        streams[place].1.push(json!([format!("{}000000", line.unix_ms), line.text]));
    }
    let streams = streams.into_iter().map(|(labels, values)| {
        let labels: BTreeMap<&String, &String> =
            labels.iter().map(|(name, value)| (name, value)).collect();
        json!({"stream": labels, "values": values})
    });
    json!({"streams": streams.collect::<Vec<_>>()}).to_string()
}

#[cfg(test)]
mod tests;
