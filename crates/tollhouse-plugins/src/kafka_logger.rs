//! Sends an entry for every exchange to a Kafka topic, in batches.
//!
//! A batch is one record that holds a JSON array. With a `batch_max_size` of 1, each entry is a
//! separate record.
//!
//! # Example
//! ```json
//! {"brokers": [{"host": "127.0.0.1", "port": 9092}], "kafka_topic": "access", "batch_max_size": 1}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for a broker. At most 8,192 entries (or `max_pending_entries` of the
//! plugin's metadata) and 64 MiB wait for delivery, and never more than `producer_max_buffering`
//! entries. Further entries are dropped. The gateway's own log reports that, and
//! `tollhouse_log_entries_lost_total` counts them.
//!
//! Brokers must run Kafka 0.11 or later, whatever `api_version` says. Connections use TLS if `tls`
//! is set, even to an empty object. Records with a `key` go to the same partition that Kafka's own
//! clients choose; other records go to each partition in turn. A batch that a broker does not
//! accept is sent again at least three times, like APISIX's producer does, or `max_retry_count`
//! times if that is more, with `retry_delay` between the attempts. A batch whose answer was lost
//! may therefore be stored twice.
//!
//! `async` and `sync` differ only if `batch_max_size` is 1. `async` collects up to
//! `producer_batch_num` records for `producer_time_linger` seconds and sends them in one request;
//! `sync` sends each record at once in a separate request. A request has at most
//! `producer_batch_size` bytes: a longer array is split in two. A single entry that the topic does
//! not accept (`max.message.bytes`) is dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_kafka::login::{Digest, Mechanism};
use tollhouse_kafka::request::Acks;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::kafka::{Address, Login, Producer, Security, Settings};
use crate::logging::batch::Batches;
use crate::logging::kafka::{Form, Topic};
use crate::logging::queue::QueueConf;
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;
use crate::shared::dial::Verification;

/// Least number of retries. Partition leaders change, and a topic that is created on demand has no
/// leader at first.
const TRIES_AGAIN_MIN: u64 = 3;

/// Upper bound of `timeout` in seconds: one hour. Brokers read timeouts as 32-bit milliseconds.
const STEP_S_MAX: u64 = 3_600;

/// Configuration of `kafka-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Bootstrap brokers, as ports by host. Older form of `brokers`, without login.
    pub broker_list: Option<BTreeMap<String, u16>>,
    /// Bootstrap brokers, which report all other brokers of the cluster.
    #[schemars(length(min = 1))]
    pub brokers: Option<Vec<Broker>>,
    /// Topic that receives the entries.
    pub kafka_topic: Option<String>,
    /// Key of all records, which therefore go to one partition. Unset: partitions take turns.
    pub key: Option<String>,
    /// Timeout in seconds of each step: connecting and logging in, looking up the partition
    /// leaders, writing records. 3 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Sending of single records (`batch_max_size` 1): collected into one request (`async`, the
    /// default) or one by one (`sync`).
    #[serde(default)]
    pub producer_type: ProducerType,
    /// Brokers that must store a record before it counts as delivered: the partition's leader (1,
    /// the default) or all in-sync replicas (-1).
    #[serde(default = "default_acks")]
    #[schemars(extend("enum" = [1, -1]))]
    pub required_acks: i64,
    /// Largest number of records in a request, with `async`; 200 by default.
    #[serde(default = "default_batch_num")]
    #[schemars(range(min = 1))]
    pub producer_batch_num: u64,
    /// Largest size of a request in bytes; 1 MiB by default.
    #[serde(default = "default_batch_size")]
    #[schemars(range(min = 0))]
    pub producer_batch_size: u64,
    /// Largest number of entries that wait for delivery; 50,000 by default.
    #[serde(default = "default_max_buffering")]
    #[schemars(range(min = 1))]
    pub producer_max_buffering: u64,
    /// Seconds for which records are collected, with `async`; 1 by default.
    #[serde(default = "default_time_linger")]
    #[schemars(range(min = 1))]
    pub producer_time_linger: u64,
    /// Seconds after which the partition leaders are looked up again; 30 by default.
    #[serde(default = "default_meta_refresh_interval")]
    #[schemars(range(min = 1))]
    pub meta_refresh_interval: u64,
    /// Content of an entry: `default` for the fields of `log_format`, `origin` for the request
    /// itself as text.
    #[serde(default)]
    pub meta_format: MetaFormat,
    /// Accepted for compatibility; has no effect, because brokers are identified by address.
    #[serde(default = "default_cluster_name")]
    #[schemars(range(min = 1))]
    pub cluster_name: u64,
    /// Accepted for compatibility; has no effect, because all brokers since Kafka 0.11 accept the
    /// requests used here.
    #[serde(default = "default_api_version")]
    #[schemars(extend("enum" = [0, 1, 2]))]
    pub api_version: i64,
    /// TLS settings for connections to brokers. Unset: plain connections.
    pub tls: Option<Tls>,
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

/// Kafka broker.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Broker {
    /// Host name or address.
    pub host: String,
    /// Port.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// SASL login. Unset: no login.
    pub sasl_config: Option<SaslConfig>,
}

/// SASL login of a broker.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SaslConfig {
    /// SASL mechanism; `PLAIN` by default.
    #[serde(default)]
    pub mechanism: SaslMechanism,
    /// User name.
    pub user: String,
    /// Password.
    pub password: SecretText,
}

/// SASL mechanism.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
pub enum SaslMechanism {
    #[default]
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

/// Treatment of single records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProducerType {
    #[default]
    Async,
    Sync,
}

/// Content of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetaFormat {
    #[default]
    Default,
    Origin,
}

/// TLS settings for connections to brokers.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Tls {
    /// Whether certificates are verified; off by default.
    #[serde(default)]
    pub verify: bool,
}

defaults! {
    default_timeout: u64 = 3;
    default_acks: i64 = 1;
    default_batch_num: u64 = 200;
    default_batch_size: u64 = 1 << 20;
    default_max_buffering: u64 = 50_000;
    default_time_linger: u64 = 1;
    default_meta_refresh_interval: u64 = 30;
    default_cluster_name: u64 = 1;
    default_api_version: i64 = 1;
}

pub struct KafkaLogger {
    entries: Entries,
    shape: Shape,
    batches: Arc<Batches<Topic>>,
}

/// Form of the entry for one exchange.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Entry,
    /// The request as plain text (`origin`).
    Original,
    /// Request as a JSON string, for use in an array.
    QuotedOriginal,
}

impl Plugin for KafkaLogger {
    const NAME: &'static str = "kafka-logger";
    const PRIORITY: i32 = 403;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    const ENCRYPTED: &'static [&'static str] = &["brokers.sasl_config.password"];
    const SENT_TO: &'static [&'static str] =
        &["brokers.host", "brokers.port", "brokers.sasl_config.mechanism", "tls"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!("kafka logger");
        schema["properties"]["broker_list"]["additionalProperties"]["minimum"] = json!(1);
        schema["oneOf"] = json!([
            {"required": ["broker_list", "kafka_topic"]},
            {"required": ["brokers", "kafka_topic"]},
        ]);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let is_single = config.batch.batch_max_size == 1;
        let shape = match (config.meta_format, is_single) {
            (MetaFormat::Default, _) => Shape::Entry,
            (MetaFormat::Origin, true) => Shape::Original,
            (MetaFormat::Origin, false) => Shape::QuotedOriginal,
        };
        let fields = gathering(&config);
        let queue = QueueConf::new(Self::NAME, &fields).limited_to(config.producer_max_buffering);
        let batches = queue.open(scope, || topic(&config));
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        Ok(Self { entries, shape, batches })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let entry = match self.shape {
            Shape::Entry => self.entries.entry(cx).to_string(),
            Shape::Original => self.entries.original(cx),
            Shape::QuotedOriginal => Value::from(self.entries.original(cx)).to_string(),
        };
        self.batches.log(cx, entry);
    }
}

/// Returns the batching settings. With `async` and single records, a batch is the content of one
/// request.
fn gathering(config: &Config) -> BatchFields {
    let mut fields = config.batch.clone();
    fields.max_retry_count = fields.max_retry_count.max(TRIES_AGAIN_MIN);
    if fields.batch_max_size == 1 && config.producer_type == ProducerType::Async {
        fields.batch_max_size = config.producer_batch_num;
        fields.buffer_duration = config.producer_time_linger;
        fields.inactive_timeout = config.producer_time_linger;
    }
    fields
}

/// Builds the Kafka topic and producer of a conf.
fn topic(config: &Config) -> Topic {
    let step_time_max = Duration::from_secs(config.timeout.min(STEP_S_MAX));
    let settings = Settings {
        brokers: brokers(config),
        topic: config.kafka_topic.clone().unwrap_or_default(),
        acks: if config.required_acks == 1 { Acks::Leader } else { Acks::All },
        step_time_max,
        believed_for: Duration::from_secs(config.meta_refresh_interval),
    };
    let requested_max = match config.producer_type {
        ProducerType::Async => usize::try_from(config.producer_batch_num).unwrap_or(usize::MAX),
        ProducerType::Sync => 1,
    };
    Topic {
        producer: Producer::new(settings),
        key: config.key.clone().map(String::into_bytes),
        form: match config.batch.batch_max_size {
            1 => Form::Each { requested_max },
            _ => Form::Array,
        },
        request_bytes_max: usize::try_from(config.producer_batch_size).unwrap_or(usize::MAX),
    }
}

fn brokers(config: &Config) -> Vec<Address> {
    let listed = config.broker_list.iter().flatten();
    let listed = listed.map(|(host, port)| address(host, *port, None, config.tls.as_ref()));
    listed
        .chain(addresses(config.brokers.as_deref().unwrap_or_default(), config.tls.as_ref()))
        .collect()
}

/// Returns the addresses of brokers, with their logins.
pub(crate) fn addresses<'c>(
    brokers: &'c [Broker],
    tls: Option<&'c Tls>,
) -> impl Iterator<Item = Address> + use<'c> {
    brokers.iter().map(move |broker| {
        let login = broker.sasl_config.as_ref().map(|sasl| Login {
            mechanism: match sasl.mechanism {
                SaslMechanism::Plain => Mechanism::Plain,
                SaslMechanism::ScramSha256 => Mechanism::Scram(Digest::Sha256),
                SaslMechanism::ScramSha512 => Mechanism::Scram(Digest::Sha512),
            },
            user: sasl.user.clone(),
            password: sasl.password.as_str().to_owned(),
        });
        address(&broker.host, broker.port, login, tls)
    })
}

fn address(host: &str, port: u16, login: Option<Login>, tls: Option<&Tls>) -> Address {
    let tls = tls.map(|tls| Verification::from(tls.verify));
    let security = Security { tls, login: login.map(Arc::new) };
    Address { host: host.to_owned(), port, security }
}

#[cfg(test)]
mod tests;
