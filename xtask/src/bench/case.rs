//! What the bench can measure, by name, and what all of it has in common. How each is measured is `cases.rs`.

use clap::ValueEnum;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// One route, answers of 2 KB, all peers under load at the same time.
    Plain,
    /// 1 to 100,000 routes, a random one each request.
    Routes,
    /// 50 route changes a second among 10,000.
    Churn,
    /// 12,000 connections that do nothing.
    Idle,
    /// From the start of the process to the first answer, with 10,000 routes.
    Start,
    /// Writes through the Admin API, and how soon they serve.
    Admin,
    /// Services that register with ShenYu's admin, and how soon a change there serves.
    ShenyuAdmin,
    /// What a request costs the load generator, beside wrk, ab, h2load and ghz.
    Load,
    /// One body of 60 MB of JSON: its memory, and how long others wait beside it.
    BodyBomb,
    /// Latency (p99) of an ordinary client beside clients that misbehave, against a quiet gateway.
    Abuse,
    /// HTTP/2, TLS and gRPC: CPU a request and a handshake.
    Edge,
    /// The registry: one durable call at a time, convergence, a storm of heartbeats.
    Registry,
    /// Several nodes over MariaDB, Redis and etcd: cost of calls, convergence, everything read anew.
    Cluster,
    /// What is lost while nodes are killed for ten minutes, and while each store is away for one.
    ClusterLosses,
}

/// The load of every case that does not vary it.
pub(crate) const CONNECTIONS: usize = 64;
/// The answer of every case that does not vary it: a page of an API.
pub(crate) const BODY_BYTES: usize = 2048;

impl Case {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Its name on the command line and in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Routes => "routes",
            Self::Churn => "churn",
            Self::Idle => "idle",
            Self::Start => "start",
            Self::Admin => "admin",
            Self::ShenyuAdmin => "shenyu-admin",
            Self::Load => "load",
            Self::BodyBomb => "body-bomb",
            Self::Abuse => "abuse",
            Self::Edge => "edge",
            Self::Registry => "registry",
            Self::Cluster => "cluster",
            Self::ClusterLosses => "cluster-losses",
        }
    }
}
