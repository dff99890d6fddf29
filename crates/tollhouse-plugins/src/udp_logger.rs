//! Sends an entry for every exchange to a UDP server, in batches.
//!
//! A batch is a JSON array in one datagram, or in several if it is too long for one. With a
//! `batch_max_size` of 1, each entry is a single object in a datagram.
//!
//! # Example
//! ```json
//! {"host": "127.0.0.1", "port": 5140, "batch_max_size": 1}
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
//! A datagram has at most 65,507 bytes. An entry that is longer is dropped. Datagrams that the
//! network loses are not noticed.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::queue::QueueConf;
use crate::logging::socket::{Datagram, LogServer, array_datagram};
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};

/// Configuration of `udp-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Host name or IP address of the log server.
    pub host: String,
    /// Port of the log server.
    pub port: u16,
    /// Timeout in seconds of each step: looking up the host, sending a datagram. 3 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
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

pub struct UdpLogger {
    entries: Entries,
    batches: Arc<Batches<Server>>,
}

impl Plugin for UdpLogger {
    const NAME: &'static str = "udp-logger";
    const PRIORITY: i32 = 400;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!("udp logger");
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || Server {
            udp: LogServer {
                host: config.host,
                port: config.port,
                step_time_max: Duration::from_secs(config.timeout),
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
    udp: LogServer,
    is_single: bool,
}

impl Delivery for Server {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        self.udp.send_datagrams(batch, |left| self.datagram(left)).await
    }
}

impl Server {
    fn datagram(&self, entries: &[String]) -> Datagram {
        match entries {
            [only, ..] if self.is_single => Datagram { entries: 1, text: only.clone() },
            _ => array_datagram(entries),
        }
    }
}

#[cfg(test)]
mod tests;
