//! Settings of Redis servers by policy: fields, schemas, and the resulting clients.

use std::sync::Arc;
use std::time::Duration;

use redis::cluster::ClusterClientBuilder;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use redis::{RedisResult, TlsMode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tollhouse_plugin::{ConfError, SchemaOf};

use super::{Kind, Servers};

use crate::shared::confs::defaults::defaults;

/// Timeout in milliseconds if `redis_timeout` is absent.
const DEFAULT_TIMEOUT_MS: u64 = 1000;

/// Fields that decide where the passwords of a conf are sent.
pub(crate) const SENT_TO: &[&str] = &[
    "policy",
    "redis_host",
    "redis_port",
    "redis_username",
    "redis_ssl",
    "redis_ssl_verify",
    "redis_cluster_nodes",
    "redis_cluster_ssl",
    "redis_cluster_ssl_verify",
    "redis_sentinels",
    "redis_master_name",
    "sentinel_username",
];

/// Fields of policy `redis`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Single {
    /// Host name or address of the server.
    #[schemars(length(min = 2))]
    redis_host: String,
    /// Port of the server; 6379 by default.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1))]
    redis_port: u16,
    /// User name. Unset: the server's default user.
    #[schemars(length(min = 1))]
    redis_username: Option<String>,
    /// Password. Unset or empty: no login.
    #[schemars(length(min = 0))]
    redis_password: Option<String>,
    /// Number of the database; 0 by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    redis_database: i64,
    /// Timeout of a request to the server, in milliseconds; 1000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    redis_timeout: u64,
    /// Whether the connection uses TLS; off by default.
    #[serde(default)]
    redis_ssl: bool,
    /// Whether the server's TLS certificate is verified; off by default.
    #[serde(default)]
    redis_ssl_verify: bool,
    /// Accepted for compatibility; has no effect, because each core keeps one connection open.
    #[serde(default = "default_keepalive_timeout")]
    #[schemars(range(min = 1000))]
    #[expect(dead_code, reason = "accepted for the schema alone")]
    redis_keepalive_timeout: u64,
    /// Accepted for compatibility; has no effect, because each core keeps one connection open.
    #[serde(default = "default_keepalive_pool")]
    #[schemars(range(min = 1))]
    #[expect(dead_code, reason = "accepted for the schema alone")]
    redis_keepalive_pool: u64,
}

/// Fields of policy `redis-cluster`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Cluster {
    /// Some nodes of the cluster, as `host:port`.
    #[schemars(length(min = 1), inner(length(min = 2, max = 100)))]
    redis_cluster_nodes: Vec<String>,
    /// Name of the cluster; required for compatibility, has no effect.
    #[expect(dead_code, reason = "accepted for the schema alone")]
    redis_cluster_name: String,
    /// User name. Unset: the server's default user.
    #[schemars(length(min = 1))]
    redis_username: Option<String>,
    /// Password. Unset or empty: no login.
    #[schemars(length(min = 0))]
    redis_password: Option<String>,
    /// Timeout of a request to a server, in milliseconds; 1000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    redis_timeout: u64,
    /// Whether connections use TLS; off by default.
    #[serde(default)]
    redis_cluster_ssl: bool,
    /// Whether the servers' TLS certificates are verified; off by default.
    #[serde(default)]
    redis_cluster_ssl_verify: bool,
    /// Accepted for compatibility; has no effect, because each core keeps one connection per server
    /// open.
    #[serde(default = "default_keepalive_timeout")]
    #[schemars(range(min = 1000))]
    #[expect(dead_code, reason = "accepted for the schema alone")]
    redis_keepalive_timeout: u64,
    /// Accepted for compatibility; has no effect, because each core keeps one connection per server
    /// open.
    #[serde(default = "default_keepalive_pool")]
    #[schemars(range(min = 1))]
    #[expect(dead_code, reason = "accepted for the schema alone")]
    redis_keepalive_pool: u64,
}

/// Fields of policy `redis-sentinel`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Sentinels {
    /// Addresses of the sentinels.
    #[schemars(length(min = 1))]
    redis_sentinels: Vec<SentinelAddress>,
    /// Name of the master at the sentinels.
    #[schemars(length(min = 1))]
    redis_master_name: String,
    /// Role of the server to use; `master` by default. Counting needs the master.
    #[serde(default)]
    redis_role: Role,
    /// Timeout of connecting, in milliseconds; 1000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    redis_connect_timeout: u64,
    /// Timeout of an answer, in milliseconds; 1000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    redis_read_timeout: u64,
    /// Accepted for compatibility; has no effect, because each core keeps one connection open.
    #[serde(default = "default_sentinel_keepalive_timeout")]
    #[schemars(range(min = 1))]
    #[expect(dead_code, reason = "accepted for the schema alone")]
    redis_keepalive_timeout: u64,
    /// Number of the database; 0 by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    redis_database: i64,
    /// User name for the server. Unset: the server's default user.
    #[schemars(length(min = 1))]
    redis_username: Option<String>,
    /// Password for the server. Unset: no login.
    #[schemars(length(min = 0))]
    redis_password: Option<String>,
    /// User name for the sentinels. Unset: their default user.
    sentinel_username: Option<String>,
    /// Password for the sentinels. Unset: no login.
    sentinel_password: Option<String>,
}

/// Address of a sentinel.
#[derive(Debug, Deserialize, JsonSchema)]
struct SentinelAddress {
    /// Host name or address.
    #[schemars(length(min = 2))]
    host: String,
    /// Port.
    #[schemars(range(min = 1))]
    port: u16,
}

/// Role of a server that sentinels watch.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Role {
    /// Accepts writes.
    #[default]
    Master,
    /// Replicates the master.
    Slave,
}

defaults! {
    default_port: u16 = 6379;
    default_timeout: u64 = DEFAULT_TIMEOUT_MS;
    default_keepalive_timeout: u64 = 10_000;
    default_sentinel_keepalive_timeout: u64 = 60_000;
    default_keepalive_pool: u64 = 100;
}

/// Place of a limiter's counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// This process, shared by all its cores.
    #[default]
    Local,
    /// Single Redis server.
    Redis,
    /// Redis cluster.
    RedisCluster,
    /// Redis server that sentinels report.
    RedisSentinel,
}

/// Place of a limiter's counts, without sentinels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlainPolicy {
    /// Single Redis server.
    Redis,
    /// Redis cluster.
    RedisCluster,
    /// This process, shared by all its cores.
    #[default]
    Local,
}

impl From<PlainPolicy> for Policy {
    fn from(policy: PlainPolicy) -> Self {
        match policy {
            PlainPolicy::Local => Policy::Local,
            PlainPolicy::Redis => Policy::Redis,
            PlainPolicy::RedisCluster => Policy::RedisCluster,
        }
    }
}

/// Completes a limiter's schema: each of `policies` adds its fields, and `extra`.
pub(crate) fn adjust_schema(schema: &mut Value, policies: &[Policy], extra: &Value) {
    let mut rest: Option<Value> = None;
    for policy in policies.iter().rev() {
        let Some((name, mut fields)) = policy_fields(*policy) else { continue };
        if let (Some(known), Some(extra)) =
            (fields["properties"].as_object_mut(), extra.as_object())
        {
            known.extend(extra.clone());
        }
        let mut branch = json!({
            "if": {"properties": {"policy": {"enum": [name]}}, "required": ["policy"]},
            "then": {"properties": fields["properties"], "required": fields["required"]},
        });
        if let Some(rest) = rest.take() {
            branch["else"] = rest;
        }
        rest = Some(branch);
    }
    if let (Some(schema), Some(Value::Object(branches))) = (schema.as_object_mut(), rest) {
        schema.extend(branches);
    }
}

fn policy_fields(policy: Policy) -> Option<(&'static str, Value)> {
    match policy {
        Policy::Local => None,
        Policy::Redis => Some(("redis", SchemaOf::<Single>::value())),
        Policy::RedisCluster => Some(("redis-cluster", SchemaOf::<Cluster>::value())),
        Policy::RedisSentinel => Some(("redis-sentinel", SchemaOf::<Sentinels>::value())),
    }
}

impl Servers {
    /// Builds the client for a conf; `None` if it counts locally.
    ///
    /// # Errors
    /// If a field is invalid in a way that the schema cannot express.
    pub(crate) fn parse(policy: Policy, conf: &Value) -> Result<Option<Self>, ConfError> {
        let name = format!("{policy:?} {}", named_fields(conf));
        let (kind, timeout_ms) = match policy {
            Policy::Local => return Ok(None),
            Policy::Redis => single(&read(conf)?),
            Policy::RedisCluster => cluster(&read(conf)?),
            Policy::RedisSentinel => sentinels(&read(conf)?),
        }
        .map_err(|error| error.to_string())?;
        let timeout = Duration::from_millis(timeout_ms);
        Ok(Some(Self { name: Arc::from(name), kind, timeout }))
    }
}

/// Address and login of one server.
#[derive(Debug)]
pub(crate) struct Address<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    pub(crate) username: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    pub(crate) database: i64,
    pub(crate) timeout: Duration,
}

impl Servers {
    /// Returns the client for one server. Its connection is shared with all clients of the same
    /// address and login on the core.
    ///
    /// # Errors
    /// If the address is invalid.
    pub(crate) fn at(address: &Address<'_>) -> Result<Self, String> {
        let Address { host, port, tls, username, password, database, timeout } = *address;
        let name = format!("at {host} {port} {tls} {username:?} {password:?} {database}");
        let host = host.to_owned();
        let place = if tls {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        let opened = info(place).and_then(|info| {
            Client::open(info.set_redis_settings(login(username, password, database)))
        });
        let client = opened.map_err(|error| error.to_string())?;
        Ok(Self { name: Arc::from(name), kind: Kind::Single(client), timeout })
    }
}

/// Returns the fields that identify the servers of a conf.
fn named_fields(conf: &Value) -> Value {
    let fields = conf.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| name.starts_with("redis_") || name.starts_with("sentinel_"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn read<T: DeserializeOwned>(conf: &Value) -> Result<T, ConfError> {
    serde_json::from_value(conf.clone()).map_err(|error| error.to_string().into())
}

/// Disables Nagle's algorithm, because requests are small and each waits for its answer.
fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn login(username: Option<&str>, password: Option<&str>, database: i64) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default().set_db(database).set_skip_set_lib_name();
    if let Some(password) = password.filter(|password| !password.is_empty()) {
        login = login.set_password(password);
        if let Some(username) = username {
            login = login.set_username(username);
        }
    }
    login
}

fn single(conf: &Single) -> RedisResult<(Kind, u64)> {
    let (host, port) = (conf.redis_host.clone(), conf.redis_port);
    let address = if conf.redis_ssl {
        ConnectionAddr::TcpTls { host, port, insecure: !conf.redis_ssl_verify, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    };
    let login =
        login(conf.redis_username.as_deref(), conf.redis_password.as_deref(), conf.redis_database);
    let info = info(address)?.set_redis_settings(login);
    Ok((Kind::Single(Client::open(info)?), conf.redis_timeout))
}

fn info(address: ConnectionAddr) -> RedisResult<ConnectionInfo> {
    Ok(address.into_connection_info()?.set_tcp_settings(tcp_settings()))
}

fn cluster(conf: &Cluster) -> RedisResult<(Kind, u64)> {
    let nodes = conf.redis_cluster_nodes.iter().map(|node| {
        let (host, port) = node.rsplit_once(':').unwrap_or((node, ""));
        // The library expects `[::1]:6379` without brackets.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = port.parse().unwrap_or(default_port());
        match tls_mode(conf) {
            None => info(ConnectionAddr::Tcp(host, port)),
            Some(mode) => {
                let insecure = matches!(mode, TlsMode::Insecure);
                info(ConnectionAddr::TcpTls { host, port, insecure, tls_params: None })
            }
        }
    });
    let timeout = Duration::from_millis(conf.redis_timeout);
    let mut builder = ClusterClientBuilder::new(nodes.collect::<RedisResult<Vec<_>>>()?)
        .connection_timeout(timeout)
        .response_timeout(timeout)
        .tcp_settings(tcp_settings());
    if let Some(password) = conf.redis_password.as_deref().filter(|text| !text.is_empty()) {
        builder = builder.password(password);
        if let Some(username) = &conf.redis_username {
            builder = builder.username(username);
        }
    }
    if let Some(mode) = tls_mode(conf) {
        builder = builder.tls(mode);
    }
    Ok((Kind::Cluster(builder.build()?), conf.redis_timeout))
}

fn tls_mode(conf: &Cluster) -> Option<TlsMode> {
    match (conf.redis_cluster_ssl, conf.redis_cluster_ssl_verify) {
        (false, _) => None,
        (true, true) => Some(TlsMode::Secure),
        (true, false) => Some(TlsMode::Insecure),
    }
}

fn sentinels(conf: &Sentinels) -> RedisResult<(Kind, u64)> {
    let addresses = conf.redis_sentinels.iter();
    let addresses = addresses.map(|at| ConnectionAddr::Tcp(at.host.clone(), at.port));
    let role = match conf.redis_role {
        Role::Master => SentinelServerType::Master,
        Role::Slave => SentinelServerType::Replica,
    };
    let mut builder = SentinelClientBuilder::new(addresses, &conf.redis_master_name, role)?
        .set_client_to_redis_db(conf.redis_database)
        .set_client_to_redis_tcp_settings(tcp_settings())
        .set_client_to_sentinel_tcp_settings(tcp_settings());
    if let Some(username) = &conf.redis_username {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = &conf.redis_password {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(username) = &conf.sentinel_username {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = &conf.sentinel_password {
        builder = builder.set_client_to_sentinel_password(password);
    }
    // One timeout for the whole exchange, which may include finding the master and connecting.
    let timeout_ms = conf.redis_connect_timeout.saturating_add(conf.redis_read_timeout);
    Ok((Kind::Sentinel(Mutex::new(builder.build()?)), timeout_ms))
}
