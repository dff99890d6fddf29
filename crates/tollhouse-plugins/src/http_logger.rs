//! Sends an entry for every exchange to an HTTP server, in batches.
//!
//! A batch is a JSON array, or entries line by line; with `batch_max_size` 1 it is one entry.
//!
//! # Example
//! ```json
//! {"uri": "http://127.0.0.1:9080/logs", "batch_max_size": 100, "max_retry_count": 1}
//! ```
//!
//! # Answers
//! None of its own; 413 when a chunked body that is to be logged is longer than 64 MiB.
//!
//! # Notes
//! Requests never wait for the log server. At most 8,192 entries and 64 MiB of them wait for
//! delivery, less or more where metadata says `max_pending_entries`; more are dropped, and that is
//! said in the gateway's own log, and counted by `tollhouse_log_entries_lost_total`.

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

use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;
use crate::shared::http_client::{Call, HttpClient, Repeat, Reuse, Target, TargetError};
use crate::shared::logging::batch::{Batches, Delivery, DeliveryError, Failure};
use crate::shared::logging::queue::QueueConf;
use crate::shared::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};

/// How long a connection to the log server is kept.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Connections that are kept; deliveries of one conf follow one another.
const CONNECTIONS_MAX: usize = 5;
/// An address has a scheme and a host.
const URI_PATTERN: &str = r"^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?";

/// What a route says.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Where entries are sent.
    #[schemars(regex(pattern = URI_PATTERN))]
    pub uri: String,
    /// `Authorization` of deliveries.
    pub auth_header: Option<SecretText>,
    /// Seconds that a delivery may take.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// How the entries of a batch are put together.
    #[serde(default)]
    pub concat_method: ConcatMethod,
    /// Whether the server's certificate is verified.
    #[serde(default)]
    pub ssl_verify: bool,
    /// Bodies in entries.
    #[serde(flatten)]
    pub bodies: BodyFields,
    /// The shape of entries.
    #[serde(flatten)]
    pub format: FormatFields,
    /// When batches go out.
    #[serde(flatten)]
    pub batch: BatchFields,
}

/// How the entries of a batch are put together.
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

/// The plugin.
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
