//! Redis client for counters: connections per core, scripts, timeouts.
//!
//! `redis/conf.rs` parses the settings of servers. A request waits at most `redis_timeout`,
//! including the connection. Every failure is one [`Unavailable`], because limiters treat all
//! failures alike.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisError, RedisResult, Script};
use tokio::sync::{Mutex, OnceCell};

pub(crate) mod conf;

/// Largest number of servers with an open connection per core; more than a gateway's confs use.
/// Further ones reconnect each time.
const POOLS_MAX: usize = 64;

/// Error: Redis did not answer in time, or with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unavailable;

/// Servers of one conf; connections are opened on first use.
#[derive(Debug)]
pub(crate) struct Servers {
    /// Key of these servers in a core's pool.
    name: Arc<str>,
    kind: Kind,
    timeout: Duration,
}

/// Kind of setup, which decides how the right server is found.
enum Kind {
    Single(Client),
    Cluster(ClusterClient),
    /// The client remembers the sentinel that answered last.
    Sentinel(Mutex<SentinelClient>),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Clients contain passwords.
        out.write_str(match self {
            Kind::Single(_) => "Single",
            Kind::Cluster(_) => "Cluster",
            Kind::Sentinel(_) => "Sentinel",
        })
    }
}

/// Open connection, shared by all requests of a core.
#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// Connection, or a connection attempt that several requests wait for.
type PoolEntry = Arc<OnceCell<Connection>>;

thread_local! {
    static POOL: RefCell<HashMap<Arc<str>, PoolEntry>> = RefCell::new(HashMap::new());
}

/// Script with its keys and arguments.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    pub(crate) key: &'a [u8],
    /// Second key of the command; must be on the first key's server of a cluster.
    pub(crate) further_key: Option<&'a [u8]>,
    pub(crate) arguments: &'a [Argument<'a>],
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument<'a> {
    Whole(u64),
    Number(f64),
    Text(&'a str),
}

impl Servers {
    /// Runs a script, within the timeout of the conf.
    pub(crate) async fn call<T: FromRedisValue>(&self, call: &Call<'_>) -> Result<T, Unavailable> {
        match tokio::time::timeout(self.timeout, self.attempts(call)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                tracing::debug!(server = &*self.name, %error, "redis refused");
                Err(Unavailable)
            }
            Err(_) => {
                tracing::debug!(server = &*self.name, "redis did not answer in time");
                // The connection is dropped, so that late answers cannot delay the next request.
                self.forget(None);
                Err(Unavailable)
            }
        }
    }

    /// Runs a command, within the timeout; an error is a text for its author.
    pub(crate) async fn command(&self, parts: &[Vec<u8>]) -> Result<redis::Value, String> {
        let mut command = redis::Cmd::new();
        parts.iter().for_each(|part| {
            command.arg(part.as_slice());
        });
        let sent = async {
            let (slot, _) = self.slot();
            let mut connection = slot.get_or_try_init(|| self.connect()).await?.clone();
            match &mut connection {
                Connection::Single(connection) => command.query_async(connection).await,
                Connection::Cluster(connection) => command.query_async(connection).await,
            }
        };
        match tokio::time::timeout(self.timeout, sent).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                let error: RedisError = error;
                if is_broken(&error) {
                    self.forget(None);
                    return Err(error.to_string());
                }
                Err(error.detail().map_or_else(|| error.to_string(), str::to_owned))
            }
            Err(_) => {
                self.forget(None);
                Err("timeout".to_owned())
            }
        }
    }

    /// Runs a script, and once more over a new connection if a reused one was broken, because the
    /// server may have closed it.
    async fn attempts<T: FromRedisValue>(&self, call: &Call<'_>) -> RedisResult<T> {
        let (slot, was_open) = self.slot();
        match self.attempt(&slot, call).await {
            Err(error) if is_broken(&error) => {
                self.forget(Some(&slot));
                if !was_open {
                    return Err(error);
                }
                let (slot, _) = self.slot();
                self.attempt(&slot, call).await
            }
            result => result,
        }
    }

    async fn attempt<T: FromRedisValue>(
        &self,
        slot: &PoolEntry,
        call: &Call<'_>,
    ) -> RedisResult<T> {
        let mut connection = slot.get_or_try_init(|| self.connect()).await?.clone();
        let mut invocation = call.script.key(call.key);
        if let Some(key) = call.further_key {
            invocation.key(key);
        }
        for argument in call.arguments {
            match argument {
                Argument::Whole(number) => invocation.arg(*number),
                Argument::Number(number) => invocation.arg(*number),
                Argument::Text(text) => invocation.arg(*text),
            };
        }
        match &mut connection {
            Connection::Single(connection) => invocation.invoke_async(connection).await,
            Connection::Cluster(connection) => invocation.invoke_async(connection).await,
        }
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        match &self.kind {
            Kind::Single(client) => {
                let opened = client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Connection::Single(opened))
            }
            Kind::Cluster(client) => Ok(Connection::Cluster(client.get_async_connection().await?)),
            Kind::Sentinel(client) => {
                let mut client = client.lock().await;
                let opened = client.get_async_connection_with_config(&config).await?;
                Ok(Connection::Single(opened))
            }
        }
    }

    /// Returns this core's connection, and whether it was already open.
    fn slot(&self) -> (PoolEntry, bool) {
        POOL.with_borrow_mut(|pool| {
            if pool.len() >= POOLS_MAX && !pool.contains_key(&self.name) {
                pool.clear();
            }
            let slot = Arc::clone(pool.entry(Arc::clone(&self.name)).or_default());
            let was_open = slot.initialized();
            (slot, was_open)
        })
    }

    /// Drops the connection, unless another request has replaced `slot` since.
    fn forget(&self, slot: Option<&PoolEntry>) {
        POOL.with_borrow_mut(|pool| {
            let is_other =
                |current: &PoolEntry| slot.is_some_and(|slot| !Arc::ptr_eq(slot, current));
            if !pool.get(&self.name).is_some_and(is_other) {
                pool.remove(&self.name);
            }
        });
    }
}

fn is_broken(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error()
}

#[cfg(test)]
mod tests;
