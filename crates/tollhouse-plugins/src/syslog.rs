//! Sends an entry for every exchange to a syslog server, over TCP, TLS or UDP.
//!
//! An entry is a message of RFC 5424 with severity INFO of facility SYSLOG:
//! `<46>1 2026-11-29T16:00:00.000Z example.com tollhouse 4711 - - {…}`. Its host is that of the
//! request, its application `tollhouse` (`apisix` with `imitate_apisix`), its process that of the
//! gateway, and its text the entry as JSON.
//!
//! # Example
//! ```json
//! {"host": "127.0.0.1", "port": 514, "sock_type": "udp"}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for the syslog server. At most 8,192 entries (or `max_pending_entries` of
//! the plugin's metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's
//! own log reports that, and `tollhouse_log_entries_lost_total` counts them.
//!
//! Over TCP, the messages of a batch follow each other, each ended by a line feed (RFC 6587, section
//! 3.4.2), on a connection that ends with the batch. Over UDP, each message is a datagram of its own
//! (RFC 5426); one with more than 65,507 bytes is dropped. With `tls`, the server's certificate is
//! not verified, as in APISIX.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_net::connect::is_server_name;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::dial::Verification;
use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::queue::QueueConf;
use crate::logging::rfc5424::{FACILITY_SYSLOG, Message, SEVERITY_INFO, application};
use crate::logging::socket::{LogServer, TcpServer, first_datagram};
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};

/// Configuration of `syslog`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Host name or IP address of the syslog server.
    pub host: String,
    /// Port of the syslog server.
    pub port: u16,
    /// Accepted for compatibility with APISIX; has no effect, because a batch is sent as a whole.
    #[serde(default = "default_flush_limit")]
    #[schemars(range(min = 1))]
    pub flush_limit: u64,
    /// Accepted for compatibility with APISIX; has no effect. The bound of waiting entries is
    /// `max_pending_entries`.
    #[serde(default = "default_drop_limit")]
    pub drop_limit: i64,
    /// Timeout of each step in milliseconds: connecting with the handshake, writing 64 KiB or a
    /// datagram, closing. 3000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Transport protocol; `tcp` by default.
    #[serde(default)]
    pub sock_type: SocketType,
    /// Accepted for compatibility with APISIX; has no effect, because connections end with their
    /// batch.
    #[serde(default = "default_pool_size")]
    #[schemars(range(min = 5))]
    pub pool_size: u64,
    /// Whether TCP connections use TLS; off by default.
    #[serde(default)]
    pub tls: bool,
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

/// Transport protocol to the syslog server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SocketType {
    #[default]
    Tcp,
    Udp,
}

defaults! {
    default_flush_limit: u64 = 4_096;
    default_drop_limit: i64 = 1 << 20;
    default_timeout: u64 = 3_000;
    default_pool_size: u64 = 5;
}

pub struct Syslog {
    entries: Entries,
    batches: Arc<Batches<Server>>,
    application: &'static str,
}

impl Plugin for Syslog {
    const NAME: &'static str = "syslog";
    const PRIORITY: i32 = 401;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!("sys logger");
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let has_tls = config.tls && config.sock_type == SocketType::Tcp;
        if has_tls && !is_server_name(&config.host) {
            return Err(format!("invalid server name {:?} for TLS", config.host).into());
        }
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let server_name = config.host.clone();
        let server = LogServer {
            host: config.host,
            port: config.port,
            step_time_max: Duration::from_millis(config.timeout),
        };
        let tls = has_tls.then_some(Verification::Off);
        let batches = queue.open(scope, || match config.sock_type {
            SocketType::Tcp => Server::Tcp(TcpServer { server, tls, server_name }),
            SocketType::Udp => Server::Udp(server),
        });
        Ok(Self { entries, batches, application: application(scope.services.brand) })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let entry = self.entries.entry(cx).to_string();
        let message = Message {
            facility: FACILITY_SYSLOG,
            severity: SEVERITY_INFO,
            unix_ms: cx.now().unix_ms,
            host: &cx.variables().variable(&Variable::Host).unwrap_or_default(),
            application: self.application,
            structured: "-",
            text: &entry,
        };
        let message = format!("{message}\n");
        self.batches.log(cx, message);
    }
}

/// Syslog server of a conf.
enum Server {
    Tcp(TcpServer),
    Udp(LogServer),
}

impl Delivery for Server {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        match self {
            Self::Tcp(server) => server.send(batch.concat().as_bytes()).await,
            Self::Udp(server) => server.send_datagrams(batch, first_datagram).await,
        }
    }
}

#[cfg(test)]
mod tests;
