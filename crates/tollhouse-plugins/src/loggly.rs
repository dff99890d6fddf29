//! Sends an entry for every exchange to Loggly: as syslog over UDP, or over HTTP in batches.
//!
//! # Example
//! ```json
//! {"customer_token": "0e6fe4bf-376e-40f4-b25f-1d55cb29f5a2", "tags": ["apisix", "shop"]}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! The plugin's metadata holds the address (`host`, `port`, by default `logs-01.loggly.com:514`) and
//! the `protocol`: `syslog`, the default, or `http` and `https` for the bulk endpoint, at the port of
//! the scheme. Over UDP, an entry is a message of RFC 5424 with facility USER, and one of more than
//! 65,507 bytes is dropped; customer token and entry are not encrypted.
//!
//! Requests never wait for Loggly. At most 8,192 entries (or `max_pending_entries` of the metadata)
//! and 64 MiB wait for delivery. Further entries are dropped. The gateway's own log reports that, and
//! `tollhouse_log_entries_lost_total` counts them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::http_client::HttpClient;
use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::http::{HeaderLines, HttpServers, REUSE, accept_ok, header};
use crate::logging::queue::QueueConf;
use crate::logging::rfc5424::{FACILITY_USER, Message, application, element};
use crate::logging::socket::{LogServer, first_datagram};
use crate::logging::{BatchFields, BodyFields, Entries, FormatFields};
use crate::oidc::form::escape;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};

/// Loggly's number in structured data, which follows the customer token.
const ENTERPRISE: &str = "41058";

/// Configuration of `loggly`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Token of the Loggly account.
    pub customer_token: SecretText,
    /// Severity of messages; `INFO` by default.
    #[serde(default)]
    pub severity: Severity,
    /// Tags of the entries.
    #[serde(default = "default_tags")]
    #[schemars(length(min = 1), inner(regex(pattern = r"^[ -~]*")))]
    pub tags: Vec<String>,
    /// Whether Loggly's TLS certificate is verified, with the protocol `https`; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Severity of messages by the status of the answer, instead of `severity`.
    pub severity_map: Option<BTreeMap<String, Severity>>,
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

/// Severity of a syslog message, from the most severe (0) to the least (7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    // The name as APISIX spells it.
    #[serde(alias = "emegr")]
    Emegr,
    #[serde(alias = "alert")]
    Alert,
    #[serde(alias = "crit")]
    Crit,
    #[serde(alias = "err")]
    Err,
    #[serde(alias = "warning")]
    Warning,
    #[serde(alias = "notice")]
    Notice,
    #[default]
    #[serde(alias = "info")]
    Info,
    #[serde(alias = "debug")]
    Debug,
}

/// Names of severities, in upper and lower case.
const SEVERITIES: [&str; 16] = [
    "EMEGR", "emegr", "ALERT", "alert", "CRIT", "crit", "ERR", "err", "WARNING", "warning",
    "NOTICE", "notice", "INFO", "info", "DEBUG", "debug",
];

/// Plugin metadata: the address, and defaults for every conf.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Host name or IP address of Loggly; over HTTP also with the scheme.
    #[serde(default = "default_host")]
    pub host: String,
    /// UDP port of Loggly.
    #[serde(default = "default_port")]
    pub port: u16,
    /// Protocol of deliveries.
    #[serde(default)]
    pub protocol: Protocol,
    /// Timeout of a step, in milliseconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Log format for confs that have none.
    pub log_format: Option<Map<String, Value>>,
    /// Additional fields for confs that have none.
    pub log_format_extra: Option<Map<String, Value>>,
    /// Largest number of entries that wait for delivery. Further entries are dropped.
    #[schemars(range(min = 1))]
    pub max_pending_entries: Option<u64>,
}

/// Protocol of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    #[default]
    Syslog,
    Http,
    Https,
}

defaults! {
    default_tags: Vec<String> = vec!["apisix".to_owned()];
    default_host: String = "logs-01.loggly.com".to_owned();
    default_port: u16 = 514;
    default_timeout: u64 = 5_000;
}

pub struct Loggly {
    entries: Entries,
    /// Frame of syslog messages; `None` over HTTP.
    frame: Option<Frame>,
    batches: Arc<Batches<Server>>,
}

/// Parts of a syslog message that the conf decides.
struct Frame {
    application: &'static str,
    structured: String,
    severity: Severity,
    by_status: BTreeMap<String, Severity>,
}

impl Plugin for Loggly {
    const NAME: &'static str = "loggly";
    const PRIORITY: i32 = 411;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    const ENCRYPTED: &'static [&'static str] = &["customer_token"];
    const SENT_TO: &'static [&'static str] = &["ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let fields = &mut schema["properties"];
        fields["name"]["default"] = json!(Self::NAME);
        let severities = json!({"type": "string", "enum": SEVERITIES});
        for (name, value) in severities.as_object().into_iter().flatten() {
            fields["severity"][name] = value.clone();
        }
        fields["severity_map"]["patternProperties"] = json!({"^[1-5][0-9]{2}$": severities});
        fields["severity_map"]["additionalProperties"] = json!(false);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        if let Some(tag) = config.tags.iter().find(|tag| tag.starts_with("tag=")) {
            return Err(format!("tag {tag:?} must not begin with \"tag=\"").into());
        }
        let metadata = scope.metadata.cloned().unwrap_or_else(|| Map::new().into());
        let metadata: Metadata =
            serde_json::from_value(metadata).map_err(|error| error.to_string())?;
        let Metadata { host, port, protocol, timeout, .. } = &metadata;
        let destination = format!("{protocol:?} {host}:{port} {timeout}");
        let queue = QueueConf::new(Self::NAME, &config.batch).sent_to(destination);
        let batches = queue.open(scope, || Server::new(&config, &metadata));
        let token = &config.customer_token;
        let tags: Vec<(&str, &str)> = config.tags.iter().map(|tag| ("tag", tag.as_str())).collect();
        let frame = (*protocol == Protocol::Syslog).then(|| Frame {
            application: application(scope.services.brand),
            structured: element(&format!("{}@{ENTERPRISE}", token.as_str()), &tags),
            severity: config.severity,
            by_status: config.severity_map.unwrap_or_default(),
        });
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        Ok(Self { entries, frame, batches })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let entry = self.entries.entry(cx).to_string();
        let entry = match &self.frame {
            Some(frame) => frame.message(cx, &entry),
            None => entry,
        };
        self.batches.log(cx, entry);
    }
}

impl Frame {
    fn message(&self, cx: &LogContext<'_>, entry: &str) -> String {
        let status = cx.transfer().status.to_string();
        let severity = self.by_status.get(&status).copied().unwrap_or(self.severity);
        let message = Message {
            facility: FACILITY_USER,
            severity: severity as u8,
            unix_ms: cx.now().unix_ms,
            host: &cx.variables().variable(&Variable::Host).unwrap_or_default(),
            application: self.application,
            structured: &self.structured,
            text: entry,
        };
        message.to_string()
    }
}

/// Loggly, as metadata and conf describe it.
enum Server {
    Syslog(LogServer),
    Bulk { servers: HttpServers, headers: HeaderLines },
}

impl Server {
    fn new(config: &Config, metadata: &Metadata) -> Self {
        let timeout = Duration::from_millis(metadata.timeout);
        let scheme = match metadata.protocol {
            Protocol::Syslog => {
                let (host, port) = (metadata.host.clone(), metadata.port);
                return Self::Syslog(LogServer { host, port, step_time_max: timeout });
            }
            Protocol::Http => "http://",
            Protocol::Https => "https://",
        };
        let host = metadata.host.trim_end_matches('/');
        let scheme = if host.starts_with("http") { "" } else { scheme };
        let token = escape(config.customer_token.as_str());
        let uri = format!("{scheme}{host}/bulk/{token}/tag/bulk");
        let client = HttpClient::new(timeout, config.ssl_verify.into(), REUSE);
        let tags = config.tags.iter().map(|tag| header("X-LOGGLY-TAG", tag.as_str()));
        let headers = [header("Content-Type", "application/json")].into_iter().chain(tags);
        Self::Bulk { servers: HttpServers::new([uri], client), headers: headers.collect() }
    }
}

impl Delivery for Server {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        match self {
            Self::Syslog(server) => server.send_datagrams(batch, first_datagram).await,
            Self::Bulk { servers, headers } => {
                let reply = servers.post(headers.clone(), batch.join("\n")).await?;
                Ok(accept_ok(&reply)?)
            }
        }
    }
}

#[cfg(test)]
mod tests;
