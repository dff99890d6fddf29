//! Inserts an entry for every exchange into a table of ClickHouse, in batches.
//!
//! # Example
//! ```json
//! {
//!     "endpoint_addrs": ["http://127.0.0.1:8123"], "user": "default", "password": "",
//!     "database": "default", "logtable": "access",
//!     "log_format": {"host": "$host", "at": "$time_iso8601", "status": "$status"}
//! }
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for ClickHouse. At most 8,192 entries (or `max_pending_entries` of the
//! plugin's metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own
//! log reports that, and `tollhouse_log_entries_lost_total` counts them.
//!
//! A batch is one `INSERT` in the format `JSONEachRow`, over ClickHouse's HTTP interface. The table
//! needs a column for each field of the entry, unless the address says
//! `?input_format_skip_unknown_fields=1`.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::http_client::HttpClient;
use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::http::{HttpServers, REUSE, URI_PATTERN, accept_below, header};
use crate::logging::queue::QueueConf;
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};

/// Configuration of `clickhouse-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of ClickHouse. Older form of `endpoint_addrs`.
    #[schemars(regex(pattern = URI_PATTERN))]
    pub endpoint_addr: Option<String>,
    /// Addresses of ClickHouse's HTTP interface, `http://` or `https://`. Several take turns.
    #[schemars(length(min = 1), inner(regex(pattern = URI_PATTERN)))]
    pub endpoint_addrs: Option<Vec<String>>,
    /// User name.
    #[serde(default)]
    pub user: String,
    /// Password.
    #[serde(default)]
    pub password: SecretText,
    /// Database of the table.
    #[serde(default)]
    pub database: String,
    /// Name of the table.
    #[serde(default)]
    pub logtable: String,
    /// Timeout of a delivery, in seconds; 3 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Whether the server's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
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

defaults! {
    default_timeout: u64 = 3;
}

pub struct ClickhouseLogger {
    entries: Entries,
    batches: Arc<Batches<Table>>,
}

impl Plugin for ClickhouseLogger {
    const NAME: &'static str = "clickhouse-logger";
    const PRIORITY: i32 = 398;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    const ENCRYPTED: &'static [&'static str] = &["password"];
    const SENT_TO: &'static [&'static str] =
        &["endpoint_addr", "endpoint_addrs", "user", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!(Self::NAME);
        let place = ["user", "password", "database", "logtable"];
        let with = |address: &str| {
            let fields: Vec<&str> = [address].into_iter().chain(place).collect();
            json!({"required": fields})
        };
        schema["oneOf"] = json!([with("endpoint_addr"), with("endpoint_addrs")]);
        // Each alternative requires these, so that a default would hide that one is missing.
        for name in place {
            if let Some(field) = schema["properties"][name].as_object_mut() {
                field.shift_remove("default");
            }
        }
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || {
            let addresses = config.endpoint_addr.iter();
            let addresses = addresses.chain(config.endpoint_addrs.iter().flatten()).cloned();
            let timeout = Duration::from_secs(config.timeout);
            let client = HttpClient::new(timeout, config.ssl_verify.into(), REUSE);
            Table {
                servers: HttpServers::new(addresses, client),
                user: config.user.clone(),
                password: config.password.clone(),
                database: config.database.clone(),
                name: config.logtable.clone(),
            }
        });
        let entries = Entries::compile(config.bodies, config.format, scope)?;
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

/// Table of a ClickHouse database that receives JSON objects as rows.
pub(crate) struct Table {
    pub(crate) servers: HttpServers,
    pub(crate) user: String,
    pub(crate) password: SecretText,
    pub(crate) database: String,
    pub(crate) name: String,
}

impl Delivery for Table {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let headers = vec![
            header("Content-Type", "application/json"),
            header("X-ClickHouse-User", self.user.as_str()),
            header("X-ClickHouse-Key", self.password.as_bytes()),
            header("X-ClickHouse-Database", self.database.as_str()),
        ];
        let rows = batch.join(" ");
        let body = format!("INSERT INTO {} FORMAT JSONEachRow {rows}", self.name);
        let reply = self.servers.post(headers, body).await?;
        Ok(accept_below(&reply, 400)?)
    }
}

#[cfg(test)]
mod tests;
