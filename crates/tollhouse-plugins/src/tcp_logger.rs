//! Sends an entry for every exchange to a TCP server, in batches.
//!
//! Each batch is a JSON array on a connection of its own, which ends with it. With a
//! `batch_max_size` of 1 it is a single object instead of an array.
//!
//! # Example
//! ```json
//! {"host": "127.0.0.1", "port": 5140, "batch_max_size": 1, "max_retry_count": 1}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for the log server. At most 8,192 entries (or `max_pending_entries` of the
//! plugin's metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own
//! log reports that, and `tollhouse_log_entries_lost_total` counts them.
//!
//! TCP servers confirm nothing, so that a batch counts as delivered once it is written and the
//! connection is closed. With `tls`, the server's certificate is not verified, as in APISIX.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_net::connect::is_server_name;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::queue::QueueConf;
use crate::logging::socket::{LogServer, TcpServer};
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};
use crate::shared::confs::defaults::defaults;
use crate::shared::dial::Verification;

/// Configuration of `tcp-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Host name or IP address of the log server.
    pub host: String,
    /// Port of the log server.
    pub port: u16,
    /// Timeout of each step in milliseconds: connecting with the handshake, writing 64 KiB,
    /// closing. 1000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Whether batches are sent over TLS; off by default.
    #[serde(default)]
    pub tls: bool,
    /// Server name in the TLS handshake. Unset: `host`.
    pub tls_options: Option<String>,
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
    default_timeout: u64 = 1_000;
}

pub struct TcpLogger {
    entries: Entries,
    batches: Arc<Batches<Server>>,
}

impl Plugin for TcpLogger {
    const NAME: &'static str = "tcp-logger";
    const PRIORITY: i32 = 405;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!("tcp logger");
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let server_name = config.tls_options.as_deref().unwrap_or(&config.host);
        if config.tls && !is_server_name(server_name) {
            return Err(format!("invalid server name {server_name:?} for the TLS handshake").into());
        }
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || Server {
            tcp: TcpServer {
                server_name: config.tls_options.unwrap_or_else(|| config.host.clone()),
                tls: config.tls.then_some(Verification::Off),
                server: LogServer {
                    host: config.host,
                    port: config.port,
                    step_time_max: Duration::from_millis(config.timeout),
                },
            },
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

/// Log server of a conf.
struct Server {
    tcp: TcpServer,
    is_single: bool,
}

impl Delivery for Server {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let text = match batch {
            [only] if self.is_single => only.clone(),
            batch => format!("[{}]", batch.join(",")),
        };
        self.tcp.send(text.as_bytes()).await
    }
}

#[cfg(test)]
mod tests;
