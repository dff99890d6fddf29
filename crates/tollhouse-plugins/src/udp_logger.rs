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

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::time::timeout;
use tollhouse_net::connect::addresses;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::logging::batch::{Batches, Delivery, DeliveryError, Failure};
use crate::shared::logging::queue::QueueConf;
use crate::shared::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};

/// Longest datagram over IPv4: 65,535 bytes less the headers of IP and UDP.
const DATAGRAM_BYTES_MAX: usize = 65_507;

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
        let (plugin, entries_max) = (Self::NAME, u64::MAX);
        let queue = QueueConf { plugin, fields: &config.batch, entries_max };
        let batches = queue.open(scope, || Server {
            host: config.host,
            port: config.port,
            step_time_max: Duration::from_secs(config.timeout),
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
    step_time_max: Duration,
    is_single: bool,
}

impl Delivery for Server {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let socket = self.in_time(self.connect()).await.map_err(|error| self.failed(error))?;
        let mut taken = 0;
        while let Some(left) = batch.get(taken..).filter(|left| !left.is_empty()) {
            let (count, text) = self.datagram(left);
            let sent = match text.len() {
                ..=DATAGRAM_BYTES_MAX => self.in_time(socket.send(text.as_bytes())).await,
                _ => Err(io::Error::other("the entry is longer than a datagram")),
            };
            if let Err(error) = sent {
                let lost = usize::from(text.len() > DATAGRAM_BYTES_MAX);
                return Err(Failure { taken: taken + lost, lost, error: self.failed(error) });
            }
            taken += count;
        }
        Ok(())
    }
}

impl Server {
    /// Returns the number of entries from the front that fit into one datagram, at least one, and
    /// its content.
    fn datagram(&self, entries: &[String]) -> (usize, String) {
        if let [only, ..] = entries
            && self.is_single
        {
            return (1, only.clone());
        }
        // One bracket before the entries; one byte after each, a comma or the last bracket.
        let mut bytes = 1;
        let fit = entries.iter().take_while(|entry| {
            bytes += entry.len() + 1;
            bytes <= DATAGRAM_BYTES_MAX
        });
        let count = fit.count().max(1);
        (count, format!("[{}]", entries[..count].join(",")))
    }

    async fn connect(&self) -> io::Result<UdpSocket> {
        let address = addresses(&self.host, self.port).await?.into_iter().next();
        let address = address.ok_or(io::ErrorKind::NotFound)?;
        let local = match address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(local).await?;
        socket.connect(address).await?;
        Ok(socket)
    }

    async fn in_time<T>(&self, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        timeout(self.step_time_max, step)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    fn failed(&self, error: io::Error) -> DeliveryError {
        DeliveryError::Socket { peer: format!("{}:{}", self.host, self.port), error }
    }
}

#[cfg(test)]
mod tests;
