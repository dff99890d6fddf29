//! Sends an entry for every exchange to Alibaba Cloud's log service (SLS), as syslog over TLS.
//!
//! # Example
//! ```json
//! {
//!     "host": "100.100.99.135", "port": 10009, "project": "shop", "logstore": "access",
//!     "access_key_id": "LTAI4xxxx", "access_key_secret": "secret"
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
//! An entry is a message of RFC 5424 with severity INFO of facility SYSLOG, whose structured data
//! (`logservice`) names project, log store and access key. A batch has a TLS connection of its own,
//! which ends with it.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_net::connect::is_server_name;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::queue::QueueConf;
use crate::logging::rfc5424::{FACILITY_SYSLOG, Message, SEVERITY_INFO, application, element};
use crate::logging::socket::{LogServer, TcpServer};
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};

/// Configuration of `sls-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Host name or IP address of the service.
    pub host: String,
    /// TLS port of the service's syslog endpoint, mostly 10009.
    pub port: u16,
    /// Project of the log service.
    pub project: String,
    /// Log store of the project.
    pub logstore: String,
    /// Id of the access key.
    pub access_key_id: String,
    /// Secret of the access key.
    pub access_key_secret: SecretText,
    /// Timeout of each step in milliseconds: connecting with the handshake, writing 64 KiB,
    /// closing. 5000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Whether the service's TLS certificate is verified; on by default.
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
    default_timeout: u64 = 5_000;
}

pub struct SlsLogger {
    entries: Entries,
    application: &'static str,
    structured: String,
    batches: Arc<Batches<Service>>,
}

impl Plugin for SlsLogger {
    const NAME: &'static str = "sls-logger";
    const PRIORITY: i32 = 406;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    const ENCRYPTED: &'static [&'static str] = &["access_key_secret"];
    const SENT_TO: &'static [&'static str] = &["host", "port", "access_key_id", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!(Self::NAME);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        if !is_server_name(&config.host) {
            return Err(format!("invalid server name {:?} for TLS", config.host).into());
        }
        let structured = element(
            "logservice",
            &[
                ("project", &config.project),
                ("logstore", &config.logstore),
                ("access-key-id", &config.access_key_id),
                ("access-key-secret", config.access_key_secret.as_str()),
            ],
        );
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || {
            let server = LogServer {
                host: config.host.clone(),
                port: config.port,
                step_time_max: Duration::from_millis(config.timeout),
            };
            let tls = Some(config.ssl_verify.into());
            Service(TcpServer { server, tls, server_name: config.host })
        });
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        let application = application(scope.services.brand);
        Ok(Self { entries, application, structured, batches })
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
            structured: &self.structured,
            text: &entry,
        };
        let message = format!("{message}\n");
        self.batches.log(cx, message);
    }
}

/// Log service of a conf.
struct Service(TcpServer);

impl Delivery for Service {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        self.0.send(batch.concat().as_bytes()).await
    }
}

#[cfg(test)]
mod tests;
