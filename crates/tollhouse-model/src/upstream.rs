//! Upstreams: a set of nodes and how to use them.

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

pub(crate) use nodes::check_addresses;
pub use nodes::{AddressError, parse_address};
pub use policy::Policy;

/// An upstream, validated. Source of the fields: the APISIX Admin API's upstream schema. What the data plane
/// reads for every request comes first.
#[derive(Debug, Clone, PartialEq)]
#[repr(C)]
pub struct Upstream {
    /// Which `Host` the node gets.
    pub pass_host: PassHost,
    /// Further attempts after the first; `None` is one less than there are nodes.
    pub retries: Option<u32>,
    /// What is spoken to the nodes.
    pub scheme: Scheme,
    /// The version of HTTP that nodes of `http` and `https` are spoken to in.
    pub http_version: HttpVersion,
    /// The PROXY header that each connection to a node begins with; `None` is none.
    pub proxy_protocol: Option<ProxyHeader>,
    /// How long further attempts may start; `None` is without limit.
    pub retry_timeout: Option<Duration>,
    /// Its id; `None` when it stands inline in a route or service.
    pub id: Option<Id>,
    /// Its nodes; may be empty, which answers 503 at request time.
    pub nodes: Vec<Node>,
    /// Where nodes come from when not listed.
    pub discovery: Option<Discovery>,
    /// How a node is chosen.
    pub balance: Balance,
    /// How the weight of fresh nodes rises; `None` is at once.
    pub warm_up: Option<WarmUp>,
    /// Time-outs, unless the route gives its own; `None` is the default of 60 s each.
    pub timeout: Option<Timeouts>,
    /// A keep-alive pool of its own; `None` is the shared default.
    pub keepalive_pool: Option<KeepalivePool>,
    /// Client certificate and key (PEM) for https nodes.
    pub tls: Option<UpstreamTls>,
    /// Whose certificates nodes over TLS must show.
    pub node_trust: NodeTrust,
    /// Health checks.
    pub checks: Option<Checks>,
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub desc: Option<String>,
    /// For people and tools.
    pub labels: BTreeMap<String, String>,
}

/// A member of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// A name, an IPv4 address, an IPv6 address without brackets, or a Unix socket as it is written.
    pub host: String,
    /// Port, filled in from the scheme (80, 443) where the document gives none; 0 of a Unix socket.
    pub port: u16,
    /// The Unix socket, if the node is one. Only objects that operators write can name one: a service that registers
    /// itself must not reach sockets of this machine.
    pub socket: Option<UnixPath>,
    /// Share of the traffic; 0 is never picked.
    pub weight: u32,
    /// Higher groups are used first; lower ones when all of those failed.
    pub priority: i32,
}

/// A named set of nodes that somebody else keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discovery {
    /// `dns`: the records of a name.
    Dns {
        /// The name, and the port where records have none: `app.example:8080`.
        service_name: String,
    },
    /// `registry`, also spelt `polaris`: the instances of a service.
    Registry(RegistryService),
}

impl Discovery {
    /// What is asked for its nodes, such as `registry`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dns { .. } => "dns",
            Self::Registry(_) => "registry",
        }
    }
}

/// A service of the registry, and which of its instances take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryService {
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub service: String,
    /// Pairs that an instance must have, all of them.
    pub metadata: BTreeMap<String, String>,
    /// The version that an instance must have.
    pub version: Option<String>,
}

impl std::fmt::Display for RegistryService {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.namespace, self.service)
    }
}

/// Slow start: how the weight of a fresh node rises to its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WarmUp {
    /// How long that takes.
    pub window: Duration,
    /// What it begins with, in hundredths of its own weight.
    pub minimum_weight_percent: u8,
    /// The shape: 1 is a straight line, more rises faster at first.
    pub aggression: f64,
    /// Between two steps.
    pub interval: Duration,
    /// After the start of the gateway, nodes found within this are not fresh.
    pub startup_grace: Duration,
}

/// How a node is chosen, and by which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// How.
    pub policy: Policy,
    /// What is hashed; there for policies that hash a key, and for no others.
    pub hash_on: Option<HashOn>,
}

impl From<Policy> for Balance {
    /// A policy that needs no key.
    fn from(policy: Policy) -> Self {
        Self { policy, hash_on: None }
    }
}

/// What policies with a key hash; an absent value falls back to the client's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HashOn {
    /// A variable by its name, such as `remote_addr` or `arg_user`.
    Variable(String),
    /// A request header by its lower-cased name.
    Header(String),
    /// A cookie by its name.
    Cookie(String),
    /// The consumer's name.
    Consumer,
    /// A template of several variables, such as `$request_uri$remote_addr`.
    Combination(String),
}

/// What is spoken to the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP/1.1 over TCP.
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// The bytes of a connection, as they are; of stream routes alone, as are the two below.
    Tcp,
    /// The same over TLS.
    Tls,
    /// Datagrams.
    Udp,
    /// gRPC: HTTP/2 over TCP, by prior knowledge.
    Grpc,
    /// gRPC: HTTP/2 over TLS.
    Grpcs,
}

/// A version of HTTP towards nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2: by ALPN over TLS, else by prior knowledge.
    Http2,
}

impl Upstream {
    /// Whether requests go to its nodes as streams of HTTP/2.
    pub fn speaks_http2(&self) -> bool {
        match self.scheme {
            Scheme::Grpc | Scheme::Grpcs => true,
            Scheme::Http | Scheme::Https => self.http_version == HttpVersion::Http2,
            Scheme::Tcp | Scheme::Tls | Scheme::Udp => false,
        }
    }
}

impl Scheme {
    /// Whether nodes speak TLS.
    pub fn is_encrypted(self) -> bool {
        match self {
            Scheme::Https | Scheme::Grpcs | Scheme::Tls => true,
            Scheme::Http | Scheme::Grpc | Scheme::Tcp | Scheme::Udp => false,
        }
    }

    /// Whether requests can be sent to its nodes.
    pub fn carries_http(self) -> bool {
        match self {
            Scheme::Http | Scheme::Https | Scheme::Grpc | Scheme::Grpcs => true,
            Scheme::Tcp | Scheme::Tls | Scheme::Udp => false,
        }
    }
}

/// Which `Host` header the node gets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PassHost {
    /// The client's, unchanged.
    Pass,
    /// The node's host, with the port where it is not the scheme's own.
    Node,
    /// This text (`upstream_host`).
    Rewrite(String),
}

/// A version of the PROXY protocol, in which nodes are told whom a connection comes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyHeader {
    /// A line of text.
    V1,
    /// The binary form.
    V2,
}

/// Bounds of a keep-alive pool. Defaults: 320 connections, 60 s, 1,000 requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeepalivePool {
    /// Idle connections kept.
    pub size: u32,
    /// How long one may idle.
    pub idle_timeout: Duration,
    /// Requests over one connection.
    pub requests: u32,
}

impl Default for KeepalivePool {
    fn default() -> Self {
        Self { size: 320, idle_timeout: Duration::from_secs(60), requests: 1000 }
    }
}

/// Whose certificates nodes over TLS must show, for the name that they are asked by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum NodeTrust {
    /// Anybody's: nodes are named by address, as in APISIX.
    #[default]
    Anybody,
    /// What the system's authorities have signed.
    System,
    /// What these authorities have signed; PEM.
    Authorities(String),
}

/// What the gateway shows to nodes that ask for a certificate.
#[derive(Clone, PartialEq, Eq)]
pub enum UpstreamTls {
    /// A pair of the upstream's own.
    Pair {
        /// Certificate chain, PEM.
        client_cert: String,
        /// Private key, PEM.
        client_key: String,
    },
    /// That of an ssl object of type `client`.
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

/// Health checks of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checks {
    /// Probes that the gateway sends.
    pub active: ActiveCheck,
    /// Judging by the traffic itself.
    pub passive: Option<PassiveCheck>,
}

/// What a probe speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckKind {
    /// An HTTP request.
    Http,
    /// An HTTPS request.
    Https,
    /// A TCP connection.
    Tcp,
    /// A call of `grpc.health.v1`, in clear text.
    Grpc,
    /// The same over TLS.
    Grpcs,
}

/// Probes, and what their outcomes mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveCheck {
    /// What a probe speaks.
    pub kind: CheckKind,
    /// How long one may take; 1 s.
    pub timeout: Duration,
    /// Probes at a time; 10.
    pub concurrency: u32,
    /// `Host` of the probe, instead of the node's.
    pub host: Option<String>,
    /// Port probed, instead of the node's.
    pub port: Option<u16>,
    /// Method; `GET`.
    pub http_method: String,
    /// Path; `/`.
    pub http_path: String,
    /// Body; empty.
    pub http_request_body: String,
    /// The service that a gRPC probe asks about; empty, which is the server as a whole.
    pub grpc_service: String,
    /// Whether an https probe wants a certificate that verifies; true.
    pub https_verify_certificate: bool,
    /// Further header lines, `Name: value`.
    pub request_headers: Vec<String>,
    /// Between two probes of a node on the healthy side; 1 s.
    pub healthy_interval: Duration,
    /// Between two probes of a node on the unhealthy side; 1 s.
    pub unhealthy_interval: Duration,
    /// Outcomes that count; active defaults 2 successes, 5 / 2 / 3 failures.
    pub thresholds: Thresholds,
}

/// Judging by the traffic itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassiveCheck {
    /// What it looks at; tcp ignores statuses.
    pub kind: CheckKind,
    /// Outcomes that count; passive defaults 5 successes, 5 / 2 / 7 failures.
    pub thresholds: Thresholds,
}

/// How many outcomes in a row flip a node; 0 ignores that signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds {
    /// Statuses that count as a success.
    pub healthy_statuses: Vec<u16>,
    /// Successes that make a node healthy.
    pub successes: u8,
    /// Statuses that count as a failure.
    pub unhealthy_statuses: Vec<u16>,
    /// Bad statuses that make a node unhealthy.
    pub http_failures: u8,
    /// Refused or broken connections that make a node unhealthy.
    pub tcp_failures: u8,
    /// Time-outs that make a node unhealthy.
    pub timeouts: u8,
}

#[cfg(test)]
mod tests;
