//! Sends an entry for every exchange to a topic of Kafka's, in batches.
//!
//! A batch is one record, a JSON array; with `batch_max_size` 1 each entry is a record of its own.
//!
//! # Example
//! ```json
//! {"brokers": [{"host": "127.0.0.1", "port": 9092}], "kafka_topic": "access", "batch_max_size": 1}
//! ```
//!
//! # Answers
//! None of its own; 413 when a chunked body that is to be logged is longer than 64 MiB.
//!
//! # Notes
//! Requests never wait for a broker. At most 8,192 entries and 64 MiB of them wait for delivery, less or more where
//! metadata says `max_pending_entries`, and never more than `producer_max_buffering`; more are dropped. What is
//! lost is said in the gateway's own log, and counted by `tollhouse_log_entries_lost_total`.
//!
//! Brokers since Kafka 0.11 are spoken to, whatever `api_version` says, over TLS where `tls` stands in the conf, even
//! if it is empty. Records with a `key` go to the partition that Kafka's own clients choose for it, others to each
//! partition in turn. A batch that is not taken is tried again three times at least, as APISIX's producer does, or as
//! often as `max_retry_count` says, `retry_delay` apart; one whose answer got lost may so be kept twice.
//!
//! `async` and `sync` differ where `batch_max_size` is 1: `async` gathers up to `producer_batch_num` records for
//! `producer_time_linger` seconds and sends them in one request, `sync` sends each at once in a request of its own.
//! Requests have `producer_batch_size` bytes at most: a longer array is made two, and an entry that the topic
//! does not take by itself (`max.message.bytes`) is dropped.

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

use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;
use crate::shared::dial::Verification;
use crate::shared::kafka::{Address, Login, Producer, Security, Settings};
use crate::shared::logging::batch::Batches;
use crate::shared::logging::kafka::{Form, Topic};
use crate::shared::logging::queue::QueueConf;
use crate::shared::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields};

/// How often a batch is tried again at least: leaders move, and a topic that is made when it is asked for has none yet.
const TRIES_AGAIN_MIN: u64 = 3;

/// Seconds that a step may take, whatever a conf says: an hour. Brokers read them as 32 bits of milliseconds.
const STEP_S_MAX: u64 = 3_600;

/// What a route says.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Brokers to ask first: ports by hosts. `brokers` says more.
    pub broker_list: Option<BTreeMap<String, u16>>,
    /// Brokers to ask first; they tell of the others.
    #[schemars(length(min = 1))]
    pub brokers: Option<Vec<Broker>>,
    /// Where entries go.
    pub kafka_topic: Option<String>,
    /// The key of all records, by which they go to one partition; without one, partitions take turns.
    pub key: Option<String>,
    /// Seconds that a step may take: to connect and log in, to ask who leads the topic, to have records kept.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Whether records of their own (`batch_max_size` 1) are gathered for a request.
    #[serde(default)]
    pub producer_type: ProducerType,
    /// Who must have a record: its partition's leader (1), or all brokers that are in step with it (-1).
    #[serde(default = "default_acks")]
    #[schemars(extend("enum" = [1, -1]))]
    pub required_acks: i64,
    /// Records that are gathered at most, with `async`.
    #[serde(default = "default_batch_num")]
    #[schemars(range(min = 1))]
    pub producer_batch_num: u64,
    /// Bytes of records in a request.
    #[serde(default = "default_batch_size")]
    #[schemars(range(min = 0))]
    pub producer_batch_size: u64,
    /// Entries that wait for delivery at most.
    #[serde(default = "default_max_buffering")]
    #[schemars(range(min = 1))]
    pub producer_max_buffering: u64,
    /// Seconds for which records are gathered, with `async`.
    #[serde(default = "default_time_linger")]
    #[schemars(range(min = 1))]
    pub producer_time_linger: u64,
    /// Seconds after which brokers are asked anew who leads the topic.
    #[serde(default = "default_meta_refresh_interval")]
    #[schemars(range(min = 1))]
    pub meta_refresh_interval: u64,
    /// `default` for the entries of `log_format`; `origin` for the request itself as text.
    #[serde(default)]
    pub meta_format: MetaFormat,
    /// Accepted and not needed: brokers are told apart by their addresses.
    #[serde(default = "default_cluster_name")]
    #[schemars(range(min = 1))]
    pub cluster_name: u64,
    /// Accepted and not needed: all brokers since Kafka 0.11 take what is sent.
    #[serde(default = "default_api_version")]
    #[schemars(extend("enum" = [0, 1, 2]))]
    pub api_version: i64,
    /// TLS towards brokers; absent for connections in the open.
    pub tls: Option<Tls>,
    /// Bodies in entries.
    #[serde(flatten)]
    pub bodies: BodyFields,
    /// The shape of entries.
    #[serde(flatten)]
    pub format: FormatFields,
    /// When batches go out.
    #[serde(flatten)]
    pub batch: BatchFields,
}

/// A broker.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Broker {
    /// Its name or address.
    pub host: String,
    /// Its port.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// How to log in, where it asks for that.
    pub sasl_config: Option<SaslConfig>,
}

/// How to log in.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SaslConfig {
    /// How it is shown who we are.
    #[serde(default)]
    pub mechanism: SaslMechanism,
    /// Who we are.
    pub user: String,
    /// The password of that.
    pub password: SecretText,
}

/// How it is shown who we are.
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

/// Whether records are gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProducerType {
    #[default]
    Async,
    Sync,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetaFormat {
    #[default]
    Default,
    Origin,
}

/// TLS towards brokers.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Tls {
    /// Whether certificates are verified.
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

/// The plugin.
pub struct KafkaLogger {
    entries: Entries,
    shape: Shape,
    batches: Arc<Batches<Topic>>,
}

/// What is pushed for an exchange.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Entry,
    /// The request as text, by itself.
    Original,
    /// The same as an element of an array.
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
        let queue = QueueConf {
            plugin: Self::NAME,
            fields: &gathering(&config),
            entries_max: config.producer_max_buffering,
        };
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

/// When batches go out: with records of their own, that is when a request is full.
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

/// Where entries go.
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
    let tls = config.tls.as_ref().map(|tls| Verification::from(tls.verify));
    let address = |host: &str, port: u16, login: Option<Login>| {
        let security = Security { tls, login: login.map(Arc::new) };
        Address { host: host.to_owned(), port, security }
    };
    let listed = config.broker_list.iter().flatten();
    let listed = listed.map(|(host, port)| address(host, *port, None));
    let described = config.brokers.iter().flatten();
    let described = described.map(|broker| {
        let login = broker.sasl_config.as_ref().map(|sasl| Login {
            mechanism: match sasl.mechanism {
                SaslMechanism::Plain => Mechanism::Plain,
                SaslMechanism::ScramSha256 => Mechanism::Scram(Digest::Sha256),
                SaslMechanism::ScramSha512 => Mechanism::Scram(Digest::Sha512),
            },
            user: sasl.user.clone(),
            password: sasl.password.as_str().to_owned(),
        });
        address(&broker.host, broker.port, login)
    });
    listed.chain(described).collect()
}

#[cfg(test)]
mod tests;
