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

use std::io;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, copy, sink};
use tokio::time::timeout;
use tollhouse_net::Stream;
use tollhouse_net::connect::is_server_name;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::dial::{Verification, dial_as};
use crate::shared::logging::batch::{Batches, Delivery, DeliveryError, Failure};
use crate::shared::logging::queue::QueueConf;
use crate::shared::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};

/// Bytes for which the server has one `timeout`, so that a long batch may take longer.
const PART_BYTES: usize = 64 << 10;

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
        let (plugin, entries_max) = (Self::NAME, u64::MAX);
        let queue = QueueConf { plugin, fields: &config.batch, entries_max };
        let batches = queue.open(scope, || Server {
            server_name: config.tls_options.unwrap_or_else(|| config.host.clone()),
            host: config.host,
            port: config.port,
            tls: config.tls.then_some(Verification::Off),
            step_time_max: Duration::from_millis(config.timeout),
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
    host: String,
    port: u16,
    tls: Option<Verification>,
    server_name: String,
    step_time_max: Duration,
    is_single: bool,
}

impl Delivery for Server {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let text = match batch {
            [only] if self.is_single => only.clone(),
            batch => format!("[{}]", batch.join(",")),
        };
        let failed = |error| {
            let peer = format!("{}:{}", self.host, self.port);
            DeliveryError::Socket { peer, error }.into()
        };
        self.send(text.as_bytes()).await.map_err(failed)
    }
}

impl Server {
    async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let dialled = dial_as(&self.host, self.port, self.tls, &self.server_name);
        let mut stream = self.in_time(dialled).await?;
        for part in bytes.chunks(PART_BYTES) {
            self.in_time(stream.write_all(part)).await?;
            self.in_time(stream.flush()).await?;
        }
        self.in_time(stream.shutdown()).await?;
        if self.tls.is_some() {
            self.read_to_end(stream).await;
        }
        Ok(())
    }

    /// Waits until the server closes. Session tickets arrive unasked, and a connection that is
    /// dropped with unread bytes is reset, so that the server may lose what it has not read yet.
    async fn read_to_end(&self, mut stream: Stream) {
        let mut ignored = sink();
        // A server that never closes delays the next batch by one timeout.
        let _ = timeout(self.step_time_max, copy(&mut stream, &mut ignored)).await;
    }

    async fn in_time<T>(&self, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        timeout(self.step_time_max, step)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests;
