//! The dialect over HTTP, for clients without gRPC and for the console.
//!
//! Clients' calls share their handlers with gRPC: JSON is converted to a message, and the answer
//! back to JSON. The console's calls are table entries: a [`console::Write`] converts items of a
//! list to commands, a [`console::List`] filters the published version. The module keeps no state.

mod capacity;
mod client;
mod config;
mod console;
mod deprecated;
mod identity;
mod intake;
mod language;
mod login;
mod maintain;
mod printing;
mod query;
mod reply;
mod route;
mod routes;
mod server_log;
mod token_path;
mod websites;

pub use capacity::Capacity;
pub(crate) use routes::calls;
pub use routes::router;
pub use server_log::ServerLog;

use crate::access::Access;
use crate::dialect::Dialect;
use crate::failure;
use crate::grpc::Connections;
use printing::Texts;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tollhouse_net::failed_logins::FailedLogins;
use tollhouse_net::local_name::HostNames;
use tollhouse_registry::Registry;
use tollhouse_web::Limits;

/// Timeout for the head of a request, which also limits the idle time between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum time for requests in progress to finish after the stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

/// Limits of a listener of the API with this number of connections.
pub const fn limits(connections_max: usize) -> Limits {
    Limits {
        name: "registry HTTP",
        connections_max,
        head_time_max: HEAD_TIME_MAX,
        drain_time_max: DRAIN_TIME_MAX,
    }
}

/// Function that returns the metrics page in the text format of Prometheus.
pub type MetricsPage = Arc<dyn Fn() -> String + Send + Sync>;

/// State of the HTTP API, shared by all requests.
#[derive(Clone)]
pub struct HttpApi {
    dialect: Dialect,
    access: Arc<Access>,
    metrics: MetricsPage,
    capacity: Capacity,
    texts: Arc<Texts>,
    logins: Arc<FailedLogins>,
    hosts: HostNames,
    connections: Connections,
    log: Option<Arc<dyn ServerLog>>,
}

impl HttpApi {
    /// Creates the API. All listeners of a process share one `capacity`.
    pub fn new(
        dialect: Dialect,
        access: Arc<Access>,
        metrics: MetricsPage,
        capacity: Capacity,
    ) -> Self {
        let (texts, logins) = Default::default();
        let (hosts, connections) = Default::default();
        let log = None;
        Self { dialect, access, metrics, capacity, texts, logins, hosts, connections, log }
    }

    /// Adds host names under which requests are accepted.
    #[must_use]
    pub fn with_hosts(self, hosts: HostNames) -> Self {
        Self { hosts, ..self }
    }

    /// Adds the gRPC connections that operators may list and close.
    #[must_use]
    pub fn with_connections(self, connections: Connections) -> Self {
        Self { connections, ..self }
    }

    /// Adds the log whose level operators may change.
    #[must_use]
    pub fn with_log(self, log: Arc<dyn ServerLog>) -> Self {
        Self { log: Some(log), ..self }
    }

    fn registry(&self) -> &Registry {
        self.dialect.registry()
    }
}

impl fmt::Debug for HttpApi {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HttpApi").field("access", &self.access).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
