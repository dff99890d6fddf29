//! Sends an entry for every exchange to Tencent Cloud's log service (CLS), in batches.
//!
//! # Example
//! ```json
//! {
//!     "cls_host": "ap-guangzhou.cls.tencentyun.com",
//!     "cls_topic": "9f9e9f9e-2f9e-4f9e-8f9e-9f9e9f9e9f9e",
//!     "secret_id": "AKIDxxxx", "secret_key": "secret", "sample_ratio": 0.5
//! }
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for the service. At most 8,192 entries (or `max_pending_entries` of the
//! plugin's metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own
//! log reports that, and `tollhouse_log_entries_lost_total` counts them.
//!
//! Entries are sent as structured logs (protobuf), signed by SHA-1 as the service asks for. Fields
//! that are objects become JSON texts. A text of more than 1 MiB is cut, an entry of more than 5 MiB
//! dropped, and a batch is divided into requests of at most 5 MiB. A batch that the service refuses
//! with 401, 403, 404 or 413 is dropped, because it would be refused again. The source of the entries
//! is the host name of the machine.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use self::log::Log;
use self::signature::sign;
use crate::http_client::HttpClient;
use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::http::{HttpServers, REUSE, header, refusal};
use crate::logging::queue::QueueConf;
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields, hostname};
use crate::oidc::form::escape;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};

mod log;
mod signature;

/// Path of the service that takes structured logs.
const PATH: &str = "/structuredlog";
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest content of a request in bytes that the service accepts.
const REQUEST_BYTES_MAX: usize = 5 << 20;

/// Configuration of `tencent-cloud-cls`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Host of the service, such as `ap-guangzhou.cls.tencentyun.com`, with a port if it is not that
    /// of the scheme.
    pub cls_host: String,
    /// Id of the topic that receives the entries.
    pub cls_topic: String,
    /// Scheme of the service's address; `https` by default.
    #[serde(default)]
    pub scheme: Scheme,
    /// Whether the service's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Id of the API key.
    pub secret_id: String,
    /// Secret of the API key.
    pub secret_key: SecretText,
    /// Part of the exchanges that are logged; 1, all, by default.
    #[serde(default = "default_sample_ratio")]
    #[schemars(range(min = 0.00001, max = 1))]
    pub sample_ratio: f64,
    /// Fields of all entries, which replace others of the same name.
    pub global_tag: Option<Map<String, Value>>,
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

/// Scheme of the service's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    Http,
    #[default]
    Https,
}

defaults! {
    default_sample_ratio: f64 = 1.0;
}

pub struct TencentCloudCls {
    entries: Entries,
    sample_ratio: f64,
    tags: Map<String, Value>,
    batches: Arc<Batches<Topic>>,
}

/// Mark of an exchange that is not logged.
struct Unsampled;

impl Plugin for TencentCloudCls {
    const NAME: &'static str = "tencent-cloud-cls";
    const PRIORITY: i32 = 397;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    const ENCRYPTED: &'static [&'static str] = &["secret_key"];
    const SENT_TO: &'static [&'static str] = &["cls_host", "scheme", "secret_id", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!(Self::NAME);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || Topic::new(&config));
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        let tags = config.global_tag.unwrap_or_default();
        Ok(Self { entries, sample_ratio: config.sample_ratio, tags, batches })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        // 53 bits of the number, which a float holds exactly.
        let chance = (cx.exchange().random() >> 11) as f64 / (1_u64 << 53) as f64;
        if chance >= self.sample_ratio {
            cx.remember(Unsampled);
            return Step::Continue;
        }
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if cx.recall::<Unsampled>().is_none() {
            self.entries.response(cx);
        }
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        if cx.recall::<Unsampled>().is_some() {
            return;
        }
        let mut fields = self.entries.parts(cx).join();
        fields.extend(self.tags.clone());
        let log = Log::new(cx.now().unix_ms, fields);
        let bytes = log.bytes();
        self.batches.log_sized(cx, log, bytes);
    }
}

/// Topic that receives the entries of a conf.
struct Topic {
    servers: HttpServers,
    secret_id: String,
    secret_key: SecretText,
}

impl Topic {
    fn new(config: &Config) -> Self {
        let scheme = match config.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        let (host, topic) = (&config.cls_host, escape(&config.cls_topic));
        let uri = format!("{scheme}://{host}{PATH}?topic_id={topic}");
        let client = HttpClient::new(TIMEOUT, config.ssl_verify.into(), REUSE);
        Self {
            servers: HttpServers::new([uri], client),
            secret_id: config.secret_id.clone(),
            secret_key: config.secret_key.clone(),
        }
    }

    /// Sends entries that fit into one request.
    async fn send(&self, logs: &[Log]) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let headers = vec![
            header("Content-Type", "application/x-protobuf"),
            header("Authorization", sign(&self.secret_id, &self.secret_key, PATH, now.as_secs())),
        ];
        let reply = self.servers.post(headers, log::encode(logs, hostname())).await?;
        match reply.status {
            200 => Ok(()),
            401 | 403 | 404 | 413 => {
                let (taken, lost) = (logs.len(), logs.len());
                Err(Failure { taken, lost, error: refusal(&reply) })
            }
            _ => Err(refusal(&reply).into()),
        }
    }
}

impl Delivery for Topic {
    type Entry = Log;

    async fn deliver(&self, batch: &[Log]) -> Result<(), Failure> {
        let mut taken = 0;
        while let Some(left) = batch.get(taken..).filter(|left| !left.is_empty()) {
            let mut bytes = 0;
            let fitting = left.iter().take_while(|log| {
                bytes += log.bytes();
                bytes <= REQUEST_BYTES_MAX
            });
            let count = fitting.count().max(1);
            self.send(&left[..count])
                .await
                .map_err(|failure| Failure { taken: failure.taken + taken, ..failure })?;
            taken += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
