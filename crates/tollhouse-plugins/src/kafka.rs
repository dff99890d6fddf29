//! Kafka producer: finds the leaders of a topic's partitions and writes batches of records to them.
//!
//! One call at a time. Nothing is queued here. A failed batch is sent again once, immediately, and
//! only if outdated metadata may be the reason. Each step has a timeout and each answer a size
//! limit, so that a hostile broker costs no more than that. A batch that is sent twice because an
//! answer was lost is stored twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tollhouse_kafka::login::Mechanism;
use tollhouse_kafka::request::{self, Acks, Produce};
use tollhouse_kafka::response::{self, Broker, Metadata};
use tollhouse_kafka::{Code, Record, batch, partition};

use self::connection::Connection;
pub(crate) use self::error::KafkaError;
use crate::shared::dial::Verification;

mod connection;
mod error;

/// Largest number of open connections, one per broker. Topics for logs rarely have more leaders;
/// further brokers are connected for each batch.
const CONNECTIONS_MAX: usize = 64;

/// Largest number of brokers outside the conf that are asked for metadata, in case all configured
/// ones are down.
const OTHERS_ASKED_MAX: usize = 8;

/// Maximum length of a broker's host name in bytes, as in DNS. A longer one is invalid and would
/// fill the log.
const HOST_BYTES_MAX: usize = 255;

/// Security settings of a connection to a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Security {
    /// TLS and its verification; `None` for a plain connection.
    pub tls: Option<Verification>,
    /// Login; `None` if the broker needs none.
    pub login: Option<Arc<Login>>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub mechanism: Mechanism,
    pub user: String,
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Login({})", self.mechanism.name())
    }
}

/// Address and security of a configured broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub host: String,
    pub port: u16,
    pub security: Security,
}

impl Address {
    fn is(&self, broker: &Broker) -> bool {
        (&*self.host, self.port) == (&*broker.host, broker.port)
    }
}

#[derive(Debug)]
pub(crate) struct Settings {
    /// Brokers that are asked first for metadata.
    pub brokers: Vec<Address>,
    pub topic: String,
    pub acks: Acks,
    /// Timeout of each step: connecting and logging in, asking for metadata, writing a batch.
    pub step_time_max: Duration,
    /// Duration for which metadata is trusted.
    pub believed_for: Duration,
}

/// Sender of records to the partitions of one topic.
pub(crate) struct Producer {
    settings: Settings,
    cluster: Mutex<Cluster>,
}

/// Metadata of the cluster and open connections to its brokers.
#[derive(Default)]
struct Cluster {
    cache: Option<CachedMetadata>,
    /// Connections by broker id, oldest first.
    connections: Vec<(i32, Connection)>,
    /// Brokers outside the conf, from the last metadata.
    others: Vec<Address>,
    /// Next partition for records without a key.
    turn: usize,
}

struct CachedMetadata {
    metadata: Metadata,
    /// Security settings of the broker that sent the metadata.
    security: Security,
    since: Instant,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Producer({})", self.settings.topic)
    }
}

impl Producer {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, cluster: Mutex::default() }
    }

    /// Writes records to one partition: that of `key`, or the next in turn.
    ///
    /// # Errors
    /// If the records are not stored, or their acknowledgement is missing.
    pub(crate) async fn send(
        &self,
        records: &[Record<'_>],
        key: Option<&[u8]>,
        unix_ms: i64,
    ) -> Result<(), KafkaError> {
        if !request::is_topic(&self.settings.topic) {
            return Err(KafkaError::Name(self.settings.topic.clone()));
        }
        let batch = batch::encode(records, unix_ms);
        let mut cluster = self.cluster.lock().await;
        let was_known = cluster.cache.is_some() || !cluster.connections.is_empty();
        match self.attempt(&mut cluster, &batch, key).await {
            // Leaders change, and brokers close idle connections, so everything is looked up again.
            Err(error) if error.may_be_out_of_date() => {
                cluster.forget();
                if !was_known {
                    return Err(error);
                }
                tracing::debug!(topic = self.settings.topic, %error, "brokers are asked anew");
                self.attempt(&mut cluster, &batch, key).await
            }
            sent => sent,
        }
    }

    async fn attempt(
        &self,
        cluster: &mut Cluster,
        batch: &[u8],
        key: Option<&[u8]>,
    ) -> Result<(), KafkaError> {
        self.learn(cluster).await?;
        let (partition, leader) = self.choose(cluster, key)?;
        let mut connection = match cluster.take_connection(leader.id) {
            Some(connection) => connection,
            None => {
                let address = self.address(cluster, &leader);
                Connection::open(&address, self.settings.step_time_max).await?
            }
        };
        let topic = &*self.settings.topic;
        let produce = |id| {
            let timeout_ms = i32::try_from(self.settings.step_time_max.as_millis());
            let timeout_ms = timeout_ms.unwrap_or(i32::MAX);
            let acks = self.settings.acks;
            request::produce(id, &Produce { topic, partition, acks, timeout_ms, batch })
        };
        // A connection with an error is dropped, so that a late answer is not taken for that of a
        // later request.
        let (id, frame) = connection.ask(produce).await?;
        let code = response::read_produce_code(&frame, id, topic, partition)?;
        cluster.keep_connection(leader.id, connection);
        if code.is_success() { Ok(()) } else { Err(self.refused(code)) }
    }

    fn refused(&self, code: Code) -> KafkaError {
        KafkaError::Refused { topic: self.settings.topic.clone(), code }
    }

    /// Loads metadata, unless the stored one is still trusted.
    async fn learn(&self, cluster: &mut Cluster) -> Result<(), KafkaError> {
        if let Some(cache) = &cluster.cache
            && cache.since.elapsed() < self.settings.believed_for
        {
            return Ok(());
        }
        let mut failure = KafkaError::NoBrokers;
        let others = std::mem::take(&mut cluster.others);
        for address in self.settings.brokers.iter().chain(&others) {
            match self.ask_leaders(cluster, address).await {
                Ok(()) => return Ok(()),
                // Every broker would answer the same.
                Err(error @ KafkaError::Refused { .. }) => {
                    cluster.others = others;
                    return Err(error);
                }
                Err(error) => {
                    failure = KafkaError::NobodyAnswers {
                        host: address.host.clone(),
                        port: address.port,
                        error: Box::new(error),
                    };
                }
            }
        }
        cluster.others = others;
        match &mut cluster.cache {
            // Without an answer, the old metadata is used further. A former leader would refuse the
            // records.
            Some(cache) => {
                cache.since = Instant::now();
                Ok(())
            }
            None => Err(failure),
        }
    }

    async fn ask_leaders(
        &self,
        cluster: &mut Cluster,
        address: &Address,
    ) -> Result<(), KafkaError> {
        let topic = &*self.settings.topic;
        let mut connection = Connection::open(address, self.settings.step_time_max).await?;
        let (id, frame) = connection.ask(|id| request::metadata(id, topic)).await?;
        let metadata = Metadata::read(&frame, id, topic)?;
        if !metadata.code.is_success() {
            return Err(self.refused(metadata.code));
        }
        if metadata.brokers.iter().any(|broker| broker.host.len() > HOST_BYTES_MAX) {
            return Err(KafkaError::Host);
        }
        let mut brokers = metadata.brokers.iter();
        if let Some(broker) = brokers.find(|broker| address.is(broker)) {
            cluster.keep_connection(broker.id, connection);
        }
        let security = address.security.clone();
        let others = metadata.brokers.iter();
        let others = others.filter(|broker| !self.settings.brokers.iter().any(|it| it.is(broker)));
        let others = others.take(OTHERS_ASKED_MAX).map(|broker| Address {
            host: broker.host.clone(),
            port: broker.port,
            security: security.clone(),
        });
        cluster.others = others.collect();
        cluster.cache = Some(CachedMetadata { metadata, security, since: Instant::now() });
        Ok(())
    }

    /// Returns the partition for records and its leader.
    fn choose(
        &self,
        cluster: &mut Cluster,
        key: Option<&[u8]>,
    ) -> Result<(i32, Broker), KafkaError> {
        let leaderless = || KafkaError::NoLeader { topic: self.settings.topic.clone() };
        let metadata = &cluster.cache.as_ref().ok_or_else(leaderless)?.metadata;
        let partitions = &metadata.partitions;
        let chosen = match key {
            Some(key) => {
                let count = u32::try_from(partitions.len()).ok().filter(|count| *count > 0);
                let place = partition::for_key(key, count.ok_or_else(leaderless)?);
                partitions.get(usize::try_from(place).unwrap_or_default()).copied()
            }
            None => {
                let turn = cluster.turn;
                cluster.turn = turn.wrapping_add(1);
                let led = partitions.iter().filter(|partition| partition.leader.is_some());
                let count = led.clone().count().max(1);
                led.copied().nth(turn % count)
            }
        };
        let chosen = chosen.ok_or_else(leaderless)?;
        let leader = chosen.leader.ok_or_else(leaderless)?;
        let broker = metadata.brokers.iter().find(|broker| broker.id == leader);
        Ok((chosen.index, broker.ok_or_else(leaderless)?.clone()))
    }

    /// Returns the address and security settings of a broker: those in the conf, or else the
    /// settings of the broker that sent the metadata.
    fn address(&self, cluster: &Cluster, broker: &Broker) -> Address {
        let named = self.settings.brokers.iter().find(|address| address.is(broker));
        let told = cluster.cache.as_ref().map(|cache| cache.security.clone());
        named.cloned().unwrap_or_else(|| Address {
            host: broker.host.clone(),
            port: broker.port,
            security: told.unwrap_or_default(),
        })
    }
}

impl Cluster {
    fn forget(&mut self) {
        self.cache = None;
        self.connections.clear();
    }

    fn take_connection(&mut self, broker: i32) -> Option<Connection> {
        let place = self.connections.iter().position(|(id, _)| *id == broker)?;
        Some(self.connections.remove(place).1)
    }

    fn keep_connection(&mut self, broker: i32, connection: Connection) {
        self.connections.retain(|(id, _)| *id != broker);
        if self.connections.len() >= CONNECTIONS_MAX {
            self.connections.remove(0);
        }
        self.connections.push((broker, connection));
    }
}

#[cfg(test)]
pub(crate) mod tests;
