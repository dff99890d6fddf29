//! Cases of the bench, and their common parameters. `cases.rs` contains the measurements.

use clap::ValueEnum;

/// Case that `cargo x bench` can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// A single route, responses of 2 KB, all peers under load at the same time
    Plain,
    /// 1 to 100,000 routes, chosen at random for each request
    Routes,
    /// 50 route changes a second among 10,000 routes
    Churn,
    /// 12,000 idle connections
    Idle,
    /// Time from the start of the process to the first response, with 10,000 routes
    Start,
    /// Writes through the Admin API, and the time until they take effect
    Admin,
    /// Services that register at ShenYu's admin, and the time until a change takes effect
    ShenyuAdmin,
    /// CPU cost of a request in the load generator, compared with wrk, ab, h2load and ghz
    Load,
    /// A JSON body of 60 MB: its memory, and the latency of other requests
    BodyBomb,
    /// Latency (p99) of a well-behaved client beside misbehaving ones, compared with a quiet
    /// gateway
    Abuse,
    /// HTTP/2, TLS and gRPC: CPU per request and per handshake
    Edge,
    /// The registry: one durable call at a time, convergence, a storm of heartbeats
    Registry,
    /// Several nodes over MariaDB, Redis and etcd: cost of calls, convergence, resynchronization
    Cluster,
    /// Losses while nodes are killed for ten minutes, and while each store is down for one
    ClusterLosses,
}

/// Default number of connections of a case.
pub(crate) const CONNECTIONS: usize = 64;
/// Default response size of a case: a typical API response.
pub(crate) const BODY_BYTES: usize = 2048;

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Whether the case measures only Tollhouse and no other proxies.
    pub(crate) fn measures_only_tollhouse(self) -> bool {
        match self {
            Self::Plain | Self::Routes | Self::Idle | Self::Start | Self::Load | Self::Edge => {
                false
            }
            Self::Churn
            | Self::Admin
            | Self::ShenyuAdmin
            | Self::BodyBomb
            | Self::Abuse
            | Self::Registry
            | Self::Cluster
            | Self::ClusterLosses => true,
        }
    }

    /// Returns the name used on the command line and in files.
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
