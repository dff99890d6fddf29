//! Upstreams: a set of nodes, and how requests are sent to them.

use std::collections::BTreeMap;
use std::time::Duration;

use tollhouse_stdx::UnixPath;

use crate::{Id, Timeouts};

pub(crate) mod balance;
mod checks;
pub(crate) mod discovery;
mod nodes;
mod parse;
mod policy;
pub(crate) mod warm_up;

pub use discovery::{Discovery, DiscoverySource, FirstNodes};
pub(crate) use nodes::check_addresses;
pub use nodes::{AddressError, parse_address};
pub use policy::Policy;

/// A validated upstream. The fields are those of the APISIX Admin API. The order puts the fields
/// read for every request first.
#[derive(Debug, Clone, PartialEq)]
#[repr(C)]
pub struct Upstream {
    /// The `Host` header sent to nodes.
    pub pass_host: PassHost,
    /// Maximum number of attempts after the first; `None` means one less than the number of nodes.
    pub retries: Option<u32>,
    pub scheme: Scheme,
    /// HTTP version towards nodes of the schemes `http` and `https`.
    pub http_version: HttpVersion,
    /// Version of the PROXY header sent on each connection to a node; `None` sends none.
    pub proxy_protocol: Option<ProxyHeader>,
    /// Period within which retries may start; `None` is unlimited.
    pub retry_timeout: Option<Duration>,
    /// Id; `None` for an inline upstream of a route or service.
    pub id: Option<Id>,
    /// Nodes; if empty, requests are answered 503.
    pub nodes: Vec<Node>,
    /// Service discovery that provides the nodes, if they are not listed.
    pub discovery: Option<Discovery>,
    pub balance: Balance,
    /// Slow start of fresh nodes; `None` gives them their full weight at once.
    pub warm_up: Option<WarmUp>,
    /// Timeouts, unless the route configures some; `None` uses the default of 60 s each.
    pub timeout: Option<Timeouts>,
    /// Settings of a dedicated keep-alive pool; `None` uses the shared default.
    pub keepalive_pool: Option<KeepalivePool>,
    /// Client certificate for nodes over TLS.
    pub tls: Option<UpstreamTls>,
    /// Verification of the certificates of nodes over TLS.
    pub node_trust: NodeTrust,
    pub checks: Option<Checks>,
    /// Display name; not used by the gateway.
    pub name: Option<String>,
    /// Description; not used by the gateway.
    pub desc: Option<String>,
    /// Labels for people and tools; not used by the gateway.
    pub labels: BTreeMap<String, String>,
}

/// Node of an upstream: address, weight and priority.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// A name, an IPv4 address, an IPv6 address without brackets, or a Unix socket as written
    /// (`unix:/path`).
    pub host: String,
    /// Port; by default that of the scheme (80 or 443). 0 for a Unix socket.
    pub port: u16,
    /// Path of the Unix socket, if the node is one. Only objects that operators write can name a
    /// socket, because a service that registers itself must not reach sockets of this machine.
    pub socket: Option<UnixPath>,
    /// Share of the traffic; a node with 0 is never chosen.
    pub weight: u32,
    /// Priority of the node's group. Groups with higher priority are used first; a lower group only
    /// when all nodes of the higher ones have failed.
    pub priority: i32,
}

/// Slow start: the gradual rise of a fresh node's weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WarmUp {
    /// Duration until the full weight is reached.
    pub window: Duration,
    /// Initial weight, in percent of the full weight.
    pub minimum_weight_percent: u8,
    /// Shape of the curve: 1 is linear; larger values rise faster at first.
    pub aggression: f64,
    /// Interval between two steps of the weight.
    pub interval: Duration,
    /// Nodes found within this time after the start of the gateway have their full weight at once.
    pub startup_grace: Duration,
}

/// Balancing policy with its hash key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    pub policy: Policy,
    /// The hash key; `Some` exactly for policies that hash a key.
    pub hash_on: Option<HashOn>,
}

impl From<Policy> for Balance {
    /// Returns a policy without a hash key.
    fn from(policy: Policy) -> Self {
        Self { policy, hash_on: None }
    }
}

/// Hash key of a policy. An absent value is replaced by the client's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HashOn {
    /// A variable by its name, such as `remote_addr` or `arg_user`.
    Variable(String),
    /// A request header by its lower-cased name.
    Header(String),
    Cookie(String),
    /// Name of the authenticated consumer.
    Consumer,
    /// A template of several variables, such as `$request_uri$remote_addr`.
    Combination(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
    /// Plain TCP. Like the next two, only for stream routes.
    Tcp,
    Tls,
    Udp,
    /// gRPC: HTTP/2 over TCP, by prior knowledge.
    Grpc,
    Grpcs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HttpVersion {
    #[default]
    Http11,
    /// HTTP/2: by ALPN over TLS, else by prior knowledge.
    Http2,
}

impl Upstream {
    /// Whether requests are sent to nodes over HTTP/2.
    pub fn speaks_http2(&self) -> bool {
        match self.scheme {
            Scheme::Grpc | Scheme::Grpcs => true,
            Scheme::Http | Scheme::Https => self.http_version == HttpVersion::Http2,
            Scheme::Tcp | Scheme::Tls | Scheme::Udp => false,
        }
    }
}

impl Scheme {
    pub fn is_encrypted(self) -> bool {
        match self {
            Scheme::Https | Scheme::Grpcs | Scheme::Tls => true,
            Scheme::Http | Scheme::Grpc | Scheme::Tcp | Scheme::Udp => false,
        }
    }

    pub fn carries_http(self) -> bool {
        match self {
            Scheme::Http | Scheme::Https | Scheme::Grpc | Scheme::Grpcs => true,
            Scheme::Tcp | Scheme::Tls | Scheme::Udp => false,
        }
    }
}

/// Source of the `Host` header sent to nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PassHost {
    /// Header `Host` of the client, unchanged.
    Pass,
    /// The node's host, with the port unless it is the default of the scheme.
    Node,
    /// A fixed host: the value of the setting `upstream_host`.
    Rewrite(String),
}

/// Version of the PROXY protocol header, which carries the client's address to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyHeader {
    /// Version 1, a line of text.
    V1,
    /// Version 2, binary.
    V2,
}

/// Bounds of a keep-alive pool. Defaults: 320 connections, 60 s, 1,000 requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeepalivePool {
    /// Maximum number of idle connections.
    pub size: u32,
    /// Duration after which an idle connection is closed.
    pub idle_timeout: Duration,
    /// Maximum number of requests on one connection.
    pub requests: u32,
}

impl Default for KeepalivePool {
    fn default() -> Self {
        Self { size: 320, idle_timeout: Duration::from_secs(60), requests: 1000 }
    }
}

/// Verification of the certificates of nodes over TLS, against the server name of the connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum NodeTrust {
    /// Certificates are not verified, because nodes are usually configured by address. This is the
    /// default of APISIX.
    #[default]
    Anybody,
    /// Certificates signed by the system's CA certificates.
    System,
    /// Certificates signed by these CA certificates, PEM.
    Authorities(String),
}

/// Client certificate for nodes that request one.
#[derive(Clone, PartialEq, Eq)]
pub enum UpstreamTls {
    /// Certificate and key given in the upstream itself.
    Pair {
        /// Certificate chain in PEM format.
        client_cert: String,
        /// Private key in PEM format.
        client_key: String,
    },
    /// The pair of an SSL object of type `client`.
    Object(Id),
}

impl std::fmt::Debug for UpstreamTls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UpstreamTls::Pair { .. } => out.write_str("Pair(***)"),
            UpstreamTls::Object(id) => out.debug_tuple("Object").field(id).finish(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checks {
    /// Checks by probes that the gateway sends.
    pub active: ActiveCheck,
    /// Checks by the responses to regular traffic.
    pub passive: Option<PassiveCheck>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckKind {
    Http,
    Https,
    Tcp,
    /// A call of `grpc.health.v1` without TLS.
    Grpc,
    /// A call of `grpc.health.v1` over TLS.
    Grpcs,
}

/// Settings of probes and of the evaluation of their results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveCheck {
    pub kind: CheckKind,
    /// Timeout of a probe; default 1 s.
    pub timeout: Duration,
    /// Maximum number of concurrent probes; default 10.
    pub concurrency: u32,
    /// Value of `Host` in probes; by default that of the node.
    pub host: Option<String>,
    /// Port that is probed; by default that of the node.
    pub port: Option<u16>,
    /// Method of HTTP probes; default `GET`.
    pub http_method: String,
    /// Path of HTTP probes; default `/`.
    pub http_path: String,
    /// Body of HTTP probes; default empty.
    pub http_request_body: String,
    /// Service that a gRPC probe checks; the default, empty, means the whole server.
    pub grpc_service: String,
    /// Whether an https probe verifies the certificate; default true.
    pub https_verify_certificate: bool,
    /// Additional header lines of HTTP probes, each `Name: value`.
    pub request_headers: Vec<String>,
    /// Interval between two probes of a healthy node; default 1 s.
    pub healthy_interval: Duration,
    /// Interval between two probes of an unhealthy node; default 1 s.
    pub unhealthy_interval: Duration,
    /// Thresholds; defaults 2 successes, 5 / 2 / 3 failures (HTTP / TCP / timeout).
    pub thresholds: Thresholds,
}

/// Passive health check: evaluation of regular traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassiveCheck {
    /// Kind of traffic evaluated; `Tcp` ignores statuses.
    pub kind: CheckKind,
    /// Thresholds; defaults 5 successes, 5 / 2 / 7 failures (HTTP / TCP / timeout).
    pub thresholds: Thresholds,
}

/// Number of consecutive results that change a node's state; 0 ignores the signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds {
    /// Statuses that count as a success.
    pub healthy_statuses: Vec<u16>,
    /// Number of consecutive successes that make a node healthy.
    pub successes: u8,
    /// Statuses that count as a failure.
    pub unhealthy_statuses: Vec<u16>,
    /// Number of consecutive failure statuses that make a node unhealthy.
    pub http_failures: u8,
    /// Number of consecutive refused or broken connections that make a node unhealthy.
    pub tcp_failures: u8,
    /// Number of consecutive timeouts that make a node unhealthy.
    pub timeouts: u8,
}

#[cfg(test)]
mod tests;
