//! Sends the lines of the gateway's own log to a TCP server, SkyWalking, ClickHouse or Kafka.
//!
//! The plugin's metadata switches it on and holds its settings; no object needs to name it:
//! `{"tcp": {"host": "127.0.0.1", "port": 5140}, "level": "WARN"}`.
//!
//! # Example
//! ```json
//! {}
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! A line is sent if the gateway writes it (`log` of the bootstrap file decides which) and its level
//! is at least `level`: STDERR to ERROR mean errors, WARN warnings too, NOTICE and INFO also
//! information, DEBUG everything. TCP servers receive lines that end with a line feed, SkyWalking
//! text records at `/v3/logs`, ClickHouse rows with the column `data`, and Kafka one JSON text for
//! each line. Acknowledgements of Kafka are always asked for, also with `required_acks` 0.
//!
//! Nothing waits for these servers. At most 8,192 lines and 64 MiB wait for delivery. Further lines
//! are dropped, and `tollhouse_log_entries_lost_total` counts them. A line that a delivery itself
//! causes, such as that of a failed one, is sent as well, and such lines are limited in rate.
//!
//! In an object the plugin has no effect. The connection settings `host`, `port`, `tls` and
//! `tls_server_name` beside `tcp` are an older form. With `tls`, the TCP server's certificate is not
//! verified, as in APISIX.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_kafka::request::Acks;
use tollhouse_net::connect::is_server_name;
use tollhouse_plugin::{
    BackgroundWork, Category, ConfError, LogFollower, MetadataSpec, Phases, Plugin, SchemaOf,
    Scope, Services,
};

use crate::clickhouse_logger::Table;
use crate::http_client::HttpClient;
use crate::kafka::{Producer, Settings};
use crate::kafka_logger::{Broker, ProducerType, Tls, addresses};
use crate::logging::batch::{Batches, Delivery, Failure, Outlet, QueueOptions};
use crate::logging::http::{HttpServers, REUSE, URI_PATTERN, accept_below, header};
use crate::logging::kafka::{Form, Topic};
use crate::logging::pending::ENTRIES_MAX;
use crate::logging::socket::{LogServer, TcpServer};
use crate::logging::{BatchFields, hostname};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;
use crate::shared::dial::Verification;

/// Object that metrics name as the owner of the queue.
const OWNER: &str = "plugin_metadata/error-log-logger";

/// Largest size of a request to Kafka in bytes, the default limit of brokers, and its number of
/// records.
const KAFKA_REQUEST_BYTES_MAX: usize = 1 << 20;
const KAFKA_REQUEST_RECORDS_MAX: usize = 200;

/// Name in `service_instance_name` that stands for the host name of the machine.
const HOSTNAME: &str = "$hostname";

/// The conf has no fields.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {}

/// Plugin metadata: destination, level and batches.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// TCP server that receives lines.
    pub tcp: Option<Tcp>,
    /// SkyWalking server that receives text records.
    pub skywalking: Option<SkyWalking>,
    /// ClickHouse table that receives rows.
    pub clickhouse: Option<ClickHouse>,
    /// Kafka topic that receives texts.
    pub kafka: Option<Kafka>,
    /// Host of the TCP server. Older form of `tcp.host`.
    pub host: Option<String>,
    /// Port of the TCP server. Older form of `tcp.port`.
    pub port: Option<u16>,
    /// Whether the TCP connection uses TLS. Older form of `tcp.tls`.
    #[serde(default)]
    pub tls: bool,
    /// Server name in the TLS handshake. Older form of `tcp.tls_server_name`.
    pub tls_server_name: Option<String>,
    /// Name of the queue in log messages.
    #[serde(default = "default_name")]
    pub name: String,
    /// Lowest level of the lines that are sent; `WARN` by default.
    #[serde(default)]
    pub level: Level,
    /// Timeout of a delivery or of its steps, in seconds; 3 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Accepted for compatibility with APISIX; has no effect.
    #[serde(default = "default_keepalive")]
    #[schemars(range(min = 1))]
    pub keepalive: u64,
    /// Number of lines at which a batch is sent at once; 1000 by default.
    #[serde(default = "default_batch_max_size")]
    #[schemars(range(min = 0))]
    pub batch_max_size: u64,
    /// Number of times a failed batch is sent again before it is dropped; 0 by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub max_retry_count: u64,
    /// Seconds between retries; 1 by default.
    #[serde(default = "default_retry_delay")]
    #[schemars(range(min = 0))]
    pub retry_delay: u64,
    /// Longest time for which a batch is collected, in seconds; 60 by default.
    #[serde(default = "default_buffer_duration")]
    #[schemars(range(min = 1))]
    pub buffer_duration: u64,
    /// Seconds without a new line after which a batch is sent; 3 by default.
    #[serde(default = "default_inactive_timeout")]
    #[schemars(range(min = 1))]
    pub inactive_timeout: u64,
}

/// TCP server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Tcp {
    /// Host name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whether connections use TLS; off by default.
    #[serde(default)]
    pub tls: bool,
    /// Server name in the TLS handshake. Unset: `host`.
    pub tls_server_name: Option<String>,
}

/// SkyWalking server.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SkyWalking {
    /// Address that takes log records.
    #[serde(default = "default_skywalking_addr")]
    pub endpoint_addr: String,
    /// Service of the records.
    #[serde(default = "default_service_name")]
    pub service_name: String,
    /// Instance of the service; `$hostname` stands for the host name of the machine.
    #[serde(default = "default_service_instance_name")]
    pub service_instance_name: String,
}

/// ClickHouse table.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ClickHouse {
    /// Address of ClickHouse's HTTP interface.
    #[schemars(regex(pattern = URI_PATTERN))]
    pub endpoint_addr: String,
    /// User name.
    pub user: String,
    /// Password.
    pub password: SecretText,
    /// Database of the table.
    pub database: String,
    /// Name of the table.
    pub logtable: String,
}

/// Kafka topic.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Kafka {
    /// Bootstrap brokers.
    #[schemars(length(min = 1))]
    pub brokers: Vec<Broker>,
    /// TLS settings for connections to brokers. Unset: plain connections.
    pub tls: Option<Tls>,
    /// Topic that receives the lines.
    pub kafka_topic: String,
    /// Accepted for compatibility with APISIX; has no effect, because batches are collected before.
    #[serde(default)]
    pub producer_type: ProducerType,
    /// Brokers that must store a record: the partition's leader (1, the default, and 0) or all
    /// in-sync replicas (-1).
    #[serde(default = "default_acks")]
    #[schemars(extend("enum" = [0, 1, -1]))]
    pub required_acks: i64,
    /// Key of all records, which therefore go to one partition. Unset: partitions take turns.
    pub key: Option<String>,
    /// Accepted for compatibility with APISIX; has no effect, because brokers are identified by
    /// address.
    #[serde(default = "default_cluster_name")]
    #[schemars(range(min = 1))]
    pub cluster_name: u64,
    /// Seconds after which the partition leaders are looked up again; 30 by default.
    #[serde(default = "default_meta_refresh_interval")]
    #[schemars(range(min = 1))]
    pub meta_refresh_interval: u64,
}

/// Level of nginx's error log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    Stderr,
    Emerg,
    Alert,
    Crit,
    Err,
    Error,
    #[default]
    Warn,
    Notice,
    Info,
    Debug,
}

defaults! {
    default_name: String = "error-log-logger".to_owned();
    default_timeout: u64 = 3;
    default_keepalive: u64 = 30;
    default_batch_max_size: u64 = 1_000;
    default_retry_delay: u64 = 1;
    default_buffer_duration: u64 = 60;
    default_inactive_timeout: u64 = 3;
    default_skywalking_addr: String = "http://127.0.0.1:12900/v3/logs".to_owned();
    default_service_name: String = "APISIX".to_owned();
    default_service_instance_name: String = "APISIX Service Instance".to_owned();
    default_acks: i64 = 1;
    default_cluster_name: u64 = 1;
    default_meta_refresh_interval: u64 = 30;
}

#[derive(Debug)]
pub struct ErrorLogLogger;

impl Plugin for ErrorLogLogger {
    const NAME: &'static str = "error-log-logger";
    const PRIORITY: i32 = 1091;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Phases::NONE;
    type Config = Config;

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec {
            schema: metadata_schema,
            encrypted: &["clickhouse.password", "kafka.brokers.sasl_config.password"],
            sent_to: &[
                "clickhouse.endpoint_addr",
                "clickhouse.user",
                "kafka.brokers.host",
                "kafka.brokers.port",
                "kafka.brokers.sasl_config.mechanism",
                "kafka.tls",
            ],
        })
    }

    fn start(
        metadata: &Value,
        services: &Arc<Services>,
    ) -> Result<Option<BackgroundWork>, ConfError> {
        let metadata: Metadata =
            serde_json::from_value(metadata.clone()).map_err(|error| error.to_string())?;
        let destination = Destination::new(&metadata)?;
        let fields = BatchFields {
            name: metadata.name,
            max_retry_count: metadata.max_retry_count,
            retry_delay: metadata.retry_delay,
            buffer_duration: metadata.buffer_duration,
            inactive_timeout: metadata.inactive_timeout,
            batch_max_size: metadata.batch_max_size,
        };
        let outlet = Outlet::from_services(services);
        let options = QueueOptions { owner: OWNER, pending_max: ENTRIES_MAX };
        let batches = Batches::new(&fields, destination, outlet, options);
        let follower: Arc<dyn LogFollower> = Arc::new(Forwarder { level: metadata.level, batches });
        services.own_log.follow(&follower);
        Ok(Some(Box::new(follower)))
    }

    fn compile(_config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self)
    }
}

fn metadata_schema() -> Value {
    let mut schema = SchemaOf::<Metadata>::value();
    schema["oneOf"] = json!([
        {"required": ["skywalking"]},
        {"required": ["tcp"]},
        {"required": ["clickhouse"]},
        {"required": ["kafka"]},
        {"required": ["host", "port"]},
    ]);
    schema
}

impl Level {
    /// Whether lines of a level of the gateway's own log are sent.
    fn admits(self, level: &str) -> bool {
        match self {
            Self::Stderr | Self::Emerg | Self::Alert | Self::Crit | Self::Err | Self::Error => {
                level == "ERROR"
            }
            Self::Warn => matches!(level, "ERROR" | "WARN"),
            Self::Notice | Self::Info => matches!(level, "ERROR" | "WARN" | "INFO"),
            Self::Debug => true,
        }
    }
}

/// Queue of the lines that are sent.
struct Forwarder {
    level: Level,
    batches: Batches<Destination>,
}

impl LogFollower for Forwarder {
    fn line(&self, line: &str) {
        // `2026-11-29T16:00:00.000000Z  WARN message`
        let level = line.split_ascii_whitespace().nth(1).unwrap_or_default();
        if self.level.admits(level) {
            self.batches.push(line.to_owned(), line.len());
        }
    }
}

/// Receiver of the lines.
enum Destination {
    Tcp(TcpServer),
    SkyWalking { servers: HttpServers, service: String, instance: String },
    ClickHouse(Table),
    Kafka(Topic),
}

impl Destination {
    fn new(metadata: &Metadata) -> Result<Self, ConfError> {
        let timeout = Duration::from_secs(metadata.timeout);
        let client = || HttpClient::new(timeout, Verification::System, REUSE);
        if let Some(SkyWalking { endpoint_addr, service_name, service_instance_name }) =
            &metadata.skywalking
        {
            return Ok(Self::SkyWalking {
                servers: HttpServers::new([endpoint_addr.clone()], client()),
                service: service_name.clone(),
                instance: match service_instance_name.as_str() {
                    HOSTNAME => hostname().to_owned(),
                    name => name.to_owned(),
                },
            });
        }
        if let Some(table) = &metadata.clickhouse {
            return Ok(Self::ClickHouse(Table {
                servers: HttpServers::new([table.endpoint_addr.clone()], client()),
                user: table.user.clone(),
                password: table.password.clone(),
                database: table.database.clone(),
                name: table.logtable.clone(),
            }));
        }
        if let Some(kafka) = &metadata.kafka {
            return Ok(Self::Kafka(topic(kafka, timeout)));
        }
        let older = || Tcp {
            host: metadata.host.clone().unwrap_or_default(),
            port: metadata.port.unwrap_or_default(),
            tls: metadata.tls,
            tls_server_name: metadata.tls_server_name.clone(),
        };
        let Tcp { host, port, tls, tls_server_name } = metadata.tcp.clone().unwrap_or_else(older);
        let server_name = tls_server_name.unwrap_or_else(|| host.clone());
        if tls && !is_server_name(&server_name) {
            return Err(format!("invalid server name {server_name:?} for the TLS handshake").into());
        }
        let server = LogServer { host, port, step_time_max: timeout };
        Ok(Self::Tcp(TcpServer { server, tls: tls.then_some(Verification::Off), server_name }))
    }
}

fn topic(kafka: &Kafka, step_time_max: Duration) -> Topic {
    let settings = Settings {
        brokers: addresses(&kafka.brokers, kafka.tls.as_ref()).collect(),
        topic: kafka.kafka_topic.clone(),
        acks: if kafka.required_acks == -1 { Acks::All } else { Acks::Leader },
        step_time_max,
        believed_for: Duration::from_secs(kafka.meta_refresh_interval),
    };
    Topic {
        producer: Producer::new(settings),
        key: kafka.key.clone().map(String::into_bytes),
        form: Form::Each { requested_max: KAFKA_REQUEST_RECORDS_MAX },
        request_bytes_max: KAFKA_REQUEST_BYTES_MAX,
    }
}

impl Delivery for Destination {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        match self {
            Self::Tcp(server) => {
                let lines: String = batch.iter().flat_map(|line| [line, "\n"]).collect();
                server.send(lines.as_bytes()).await
            }
            Self::SkyWalking { servers, service, instance } => {
                let records = batch.iter().map(|line| {
                    json!({
                        "service": service, "serviceInstance": instance, "endpoint": "",
                        "body": {"text": {"text": line}},
                    })
                });
                let body = Value::from_iter(records).to_string();
                let headers = vec![header("Content-Type", "application/json")];
                let reply = servers.post(headers, body).await?;
                Ok(accept_below(&reply, 400)?)
            }
            Self::ClickHouse(table) => {
                let rows = batch.iter().map(|line| json!({"data": line}).to_string());
                table.deliver(&rows.collect::<Vec<_>>()).await
            }
            Self::Kafka(topic) => {
                let texts = batch.iter().map(|line| json!(line).to_string());
                topic.deliver(&texts.collect::<Vec<_>>()).await
            }
        }
    }
}

#[cfg(test)]
mod tests;
