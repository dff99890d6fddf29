//! Sends an entry for every exchange to an HTTP server, in batches.
//!
//! A batch is a JSON array, or one entry per line. With a `batch_max_size` of 1 it is a single
//! entry.
//!
//! # Example
//! ```json
//! {"uri": "http://127.0.0.1:9080/logs", "batch_max_size": 100, "max_retry_count": 1}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for the log server. At most 8,192 entries (or `max_pending_entries` of the
//! plugin's metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own
//! log reports that, and `tollhouse_log_entries_lost_total` counts them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target, TargetError};
use crate::logging::batch::{Batches, Delivery, DeliveryError, Failure};
use crate::logging::queue::QueueConf;
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;

/// Maximum duration for which an idle connection to the log server is kept.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of connections that are kept. Few are needed, because the deliveries of one conf
/// follow each other.
const CONNECTIONS_MAX: usize = 5;
/// Pattern of a URI with scheme and host.
const URI_PATTERN: &str = r"^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?";

/// Configuration of `http-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of the log server, `http://` or `https://`.
    #[schemars(regex(pattern = URI_PATTERN))]
    pub uri: String,
    /// Value of the `Authorization` header of deliveries. Unset: no header.
    pub auth_header: Option<SecretText>,
    /// Timeout of a delivery, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Format of a batch: a JSON array (`json`, the default) or one entry per line (`new_line`).
    #[serde(default)]
    pub concat_method: ConcatMethod,
    /// Whether the server's TLS certificate is verified; off by default.
    #[serde(default)]
    pub ssl_verify: bool,
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

/// Format of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConcatMethod {
    #[default]
    Json,
    NewLine,
}

defaults! {
    default_timeout: u64 = 3;
}

pub struct HttpLogger {
    entries: Entries,
    batches: Arc<Batches<Server>>,
}

impl Plugin for HttpLogger {
    const NAME: &'static str = "http-logger";
    const PRIORITY: i32 = 410;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    const ENCRYPTED: &'static [&'static str] = &["auth_header"];
    const SENT_TO: &'static [&'static str] = &["uri", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!("http logger");
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        let (plugin, entries_max) = (Self::NAME, u64::MAX);
        let queue = QueueConf { plugin, fields: &config.batch, entries_max };
        let batches = queue.open(scope, || Server {
            target: Target::parse(&config.uri),
            client: HttpClient::new(
                Duration::from_secs(config.timeout),
                config.ssl_verify.into(),
                Reuse::For { idle: IDLE_MAX, connections_max: CONNECTIONS_MAX },
            ),
            authorization: config.auth_header,
            concat_method: config.concat_method,
            is_single: config.batch.batch_max_size == 1,
        });
        Ok(Self { entries, batches })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let entry = self.entries.entry(cx).to_string();
        self.batches.log(cx, entry);
    }
}

struct Server {
    target: Result<Target, TargetError>,
    client: HttpClient,
    authorization: Option<SecretText>,
    concat_method: ConcatMethod,
    is_single: bool,
}

impl Delivery for Server {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let target = self.target.clone().map_err(DeliveryError::from)?;
        let content_type = match self.concat_method {
            ConcatMethod::Json => "application/json",
            ConcatMethod::NewLine => "text/plain",
        };
        let mut headers = vec![("Content-Type".to_owned(), content_type.as_bytes().to_vec())];
        if let Some(text) = self.authorization.as_ref().filter(|text| !text.as_bytes().is_empty()) {
            headers.push(("Authorization".to_owned(), text.as_bytes().to_vec()));
        }
        let call = Call {
            method: b"POST".to_vec(),
            path: target.path.clone().into_bytes(),
            headers,
            body: Bytes::from(self.put_together(batch)),
            repeat: Repeat::ByMethod,
        };
        match self.client.send(&target, call).await.map_err(DeliveryError::from)?.status {
            ..400 => Ok(()),
            status => Err(DeliveryError::Status(status).into()),
        }
    }
}

impl Server {
    fn put_together(&self, batch: &[String]) -> String {
        match (self.concat_method, batch) {
            (_, [only]) if self.is_single => only.clone(),
            (ConcatMethod::Json, batch) => format!("[{}]", batch.join(",")),
            (ConcatMethod::NewLine, batch) => batch.join("\n"),
        }
    }
}

#[cfg(test)]
mod tests;
