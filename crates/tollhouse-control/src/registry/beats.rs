//! Exchange of heartbeat rounds between registry nodes over Redis. Each node has a stream, in which
//! the round's number is the entry id. Redis refuses a repeated round. Readers continue after the
//! last number that they have read.
//!
//! Nothing needs to be durable: streams are short and expire. Readers detect losses by gaps in the
//! numbers. While Redis is down, rounds go through the database.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::body::Bytes;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Value,
};
use tokio::sync::Mutex;
use tollhouse_config::bootstrap::RegistryStore;
use tollhouse_registry::{BeatChannel, NodeId};
use tollhouse_store::BoxFuture;

/// Interval between rounds. With it, a silent instance is detected less than a second late.
const INTERVAL: Duration = Duration::from_millis(200);

/// Timeout of connecting, and of one command.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Rounds kept in a stream: more than a minute, so that a node that was suspended for that long
/// misses none.
const ROUNDS_KEPT: u64 = 400;

/// Seconds until a stream expires after its last round.
const STREAM_KEPT_SECONDS: u64 = 120;

/// Limit of rounds per read and node; a round has up to 256 KiB.
const ROUNDS_READ_MAX: u64 = 16;

/// Channel over Redis through which registry nodes exchange heartbeats.
pub struct RedisBeats {
    kind: Kind,
    /// Prefix of the Redis keys of all streams.
    prefix: String,
    connection: Mutex<Option<Connection>>,
    /// Number of the last round read, by node.
    read: Mutex<HashMap<NodeId, u64>>,
}

enum Kind {
    Single(Client),
    Cluster(ClusterClient),
    Sentinel(Mutex<SentinelClient>),
}

#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// Entries of a Redis stream: ids and fields.
type Entries = Vec<(String, HashMap<String, Vec<u8>>)>;

impl fmt::Debug for RedisBeats {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Clients contain passwords.
        out.debug_struct("RedisBeats").finish_non_exhaustive()
    }
}

/// Returns the channel from the bootstrap file; `None` without a Redis URL. It connects on first
/// use.
///
/// # Errors
/// If a URL is invalid. The text does not repeat the URL, because it contains a password.
pub fn open(settings: &RegistryStore) -> anyhow::Result<Option<Arc<dyn BeatChannel>>> {
    let Some(urls) = &settings.redis else { return Ok(None) };
    let urls: Vec<&str> = urls.expose().split(',').map(str::trim).collect();
    let kind = kind(&urls, settings.redis_master.as_deref());
    let kind = kind.context("registry.store.redis; give redis://user:password@host:6379/0")?;
    Ok(Some(Arc::new(RedisBeats::new(kind, &settings.tables))))
}

fn kind(urls: &[&str], master: Option<&str>) -> RedisResult<Kind> {
    Ok(match (urls, master) {
        (urls, Some(master)) => {
            let (name, kind) = (master.to_owned(), SentinelServerType::Master);
            Kind::Sentinel(Mutex::new(SentinelClient::build(urls.to_vec(), name, None, kind)?))
        }
        ([url], None) => Kind::Single(Client::open(*url)?),
        (urls, None) => Kind::Cluster(ClusterClient::new(urls.to_vec())?),
    })
}

impl RedisBeats {
    fn new(kind: Kind, tables: &str) -> Self {
        let prefix = format!("{tables}beats:");
        Self { kind, prefix, connection: Mutex::default(), read: Mutex::default() }
    }

    fn stream(&self, node: NodeId) -> String {
        format!("{}{node}", self.prefix)
    }

    /// Runs a command. The connection is dropped after an error of the connection.
    async fn run<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let mut connection = self.connected().await?;
        let answered = tokio::time::timeout(TIMEOUT, async {
            match &mut connection {
                Connection::Single(connection) => command.query_async(connection).await,
                Connection::Cluster(connection) => command.query_async(connection).await,
            }
        });
        let answer = answered.await.unwrap_or_else(|_| Err(no_answer()));
        if answer.as_ref().is_err_and(is_broken) {
            *self.connection.lock().await = None;
        }
        answer
    }

    async fn connected(&self) -> RedisResult<Connection> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held {
            return Ok(connection.clone());
        }
        let opened = tokio::time::timeout(TIMEOUT, self.connect()).await;
        let opened = opened.unwrap_or_else(|_| Err(no_answer()))?;
        *held = Some(opened.clone());
        Ok(opened)
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT));
        Ok(match &self.kind {
            Kind::Single(client) => Connection::Single(
                client.get_multiplexed_async_connection_with_config(&config).await?,
            ),
            Kind::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
            Kind::Sentinel(client) => {
                let mut client = client.lock().await;
                Connection::Single(client.get_async_connection_with_config(&config).await?)
            }
        })
    }

    async fn add(&self, node: NodeId, round: &[u8]) -> RedisResult<()> {
        let stream = self.stream(node);
        let mut add = redis::cmd("XADD");
        add.arg(&stream).arg("MAXLEN").arg("~").arg(ROUNDS_KEPT);
        add.arg(format!("{}-1", number(round))).arg("round").arg(round);
        match self.run::<Value>(&add).await {
            Ok(_) => {}
            // An earlier attempt arrived, but its reply was lost.
            Err(error) if is_there_already(&error) => {}
            Err(error) => return Err(error),
        }
        let mut keep = redis::cmd("EXPIRE");
        keep.arg(&stream).arg(STREAM_KEPT_SECONDS);
        self.run(&keep).await
    }

    /// Reads the rounds of a node after the number `after`; only the newest round if `after` is
    /// `None`.
    async fn read(&self, node: NodeId, after: Option<u64>) -> RedisResult<Entries> {
        let mut read = match after {
            Some(_) => redis::cmd("XRANGE"),
            None => redis::cmd("XREVRANGE"),
        };
        read.arg(self.stream(node));
        match after {
            Some(number) => {
                read.arg(format!("({number}-1")).arg("+").arg("COUNT").arg(ROUNDS_READ_MAX)
            }
            None => read.arg("+").arg("-").arg("COUNT").arg(1),
        };
        self.run(&read).await
    }
}

/// Returns the number of a round, from its head. The sender assigns it.
fn number(round: &[u8]) -> u64 {
    round.get(2..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn no_answer() -> RedisError {
    (ErrorKind::Io, "no answer in time").into()
}

fn is_broken(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.is_unrecoverable_error()
        // The server was demoted to a replica.
        || error.code() == Some("READONLY")
}

fn is_there_already(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("equal or smaller"))
        || error.to_string().contains("equal or smaller")
}

impl BeatChannel for RedisBeats {
    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn send<'a>(&'a self, node: NodeId, round: &'a [u8]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { self.add(node, round).await.map_err(|error| error.to_string()) })
    }

    fn receive<'a>(
        &'a self,
        nodes: &'a [NodeId],
    ) -> BoxFuture<'a, Result<Vec<(NodeId, Bytes)>, String>> {
        Box::pin(async move {
            tokio::time::sleep(INTERVAL / 2).await;
            let mut last = self.read.lock().await;
            last.retain(|node, _| nodes.contains(node));
            let mut rounds = Vec::new();
            for node in nodes {
                let after = last.get(node).copied();
                let entries = self.read(*node, after).await.map_err(|error| error.to_string())?;
                for (id, mut fields) in entries {
                    let Some(round) = fields.remove("round") else { continue };
                    if let Some(number) = id.split('-').next().and_then(|id| id.parse().ok()) {
                        last.insert(*node, number);
                    }
                    rounds.push((*node, round.into()));
                }
            }
            Ok(rounds)
        })
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_testkit::RedisServer;

    use super::*;

    /// A round in the format of the nodes.
    fn round(number: u64) -> Vec<u8> {
        let mut round = vec![1, 1];
        round.extend(number.to_le_bytes());
        round.extend(b"\x01\x00a");
        round
    }

    fn beats(servers: &[&RedisServer]) -> RedisBeats {
        let urls: Vec<_> =
            servers.iter().map(|server| format!("redis://127.0.0.1:{}", server.port)).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        RedisBeats::new(kind(&urls, None).expect("they are URLs"), "t_")
    }

    async fn received(beats: &RedisBeats, nodes: &[NodeId]) -> Vec<(u64, u64)> {
        let rounds = beats.receive(nodes).await.expect("it answers");
        rounds.iter().map(|(node, round)| (node.0, number(round))).collect()
    }

    #[tokio::test]
    async fn rounds_arrive_once_and_in_their_order() {
        let Some(server) = RedisServer::start(&[]) else { return };
        let [one, other] = [beats(&[&server]), beats(&[&server])];
        let nodes = [NodeId(1), NodeId(2)];
        one.send(NodeId(1), &round(1)).await.expect("it is taken");
        one.send(NodeId(1), &round(2)).await.expect("it is taken");
        assert_eq!(received(&other, &nodes).await, [(1, 2)], "the newest, to begin with");
        for number in [3, 3, 4] {
            one.send(NodeId(1), &round(number)).await.expect("it is taken, or there already");
        }
        other.send(NodeId(2), &round(9)).await.expect("it is taken");
        assert_eq!(received(&other, &nodes).await, [(1, 3), (1, 4), (2, 9)]);
        assert_eq!(received(&other, &nodes).await, []);
        let ttl = server.ask(&["ttl", "t_beats:0000000000000001"]);
        assert!((1..=120).contains(&ttl.trim().parse::<i32>().expect("a number")), "{ttl}");
    }

    #[tokio::test]
    async fn a_server_that_lost_everything_goes_on_with_the_next_round() {
        let Some(mut server) = RedisServer::start(&[]) else { return };
        let [one, other] = [beats(&[&server]), beats(&[&server])];
        one.send(NodeId(1), &round(1)).await.expect("it is taken");
        assert_eq!(received(&other, &[NodeId(1)]).await, [(1, 1)]);
        server.kill();
        one.send(NodeId(1), &round(2)).await.expect_err("nobody is there");
        other.receive(&[NodeId(1)]).await.expect_err("nobody is there");
        server.run();
        one.send(NodeId(1), &round(3)).await.expect("it is back");
        assert_eq!(received(&other, &[NodeId(1)]).await, [(1, 3)]);
    }

    #[tokio::test]
    async fn a_cluster_takes_rounds_too() {
        let Some(servers) = RedisServer::cluster() else { return };
        let all: Vec<_> = servers.iter().collect();
        let beats = beats(&all);
        for node in 1..6 {
            beats.send(NodeId(node), &round(node)).await.expect("it is taken");
        }
        let nodes: Vec<_> = (1..6).map(NodeId).collect();
        assert_eq!(received(&beats, &nodes).await, (1..6).map(|it| (it, it)).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_url_is_refused_without_its_password() {
        let settings = RegistryStore {
            redis: Some(tollhouse_config::bootstrap::Secret::new("http://:hush@host".to_owned())),
            ..RegistryStore::default()
        };
        let error = format!("{:#}", open(&settings).err().expect("it is none"));
        assert!(error.contains("registry.store.redis") && !error.contains("hush"), "{error}");
    }
}
