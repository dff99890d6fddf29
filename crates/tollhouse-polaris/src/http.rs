//! The dialect over HTTP, for clients without gRPC and for the console.
//!
//! Clients' calls share their handlers with gRPC: JSON is turned into a message, the answer back into
//! JSON. The console's calls are tables: a [`console::Write`] turns an item of a list into commands, a
//! [`console::List`] filters what is published. Nothing here keeps state.

mod capacity;
mod client;
mod console;
mod failure;
mod intake;
mod language;
mod login;
mod maintain;
mod patience;
mod printing;
mod query;
mod reply;
mod routes;
mod serve;
mod websites;

pub use capacity::Capacity;
pub use routes::router;
pub use serve::serve;

use crate::access::Access;
use crate::dialect::Dialect;
use printing::Texts;
use std::fmt;
use std::sync::Arc;
use tollhouse_net::failed_logins::FailedLogins;
use tollhouse_net::local_name::HostNames;
use tollhouse_registry::Registry;

/// Gives the page of metrics, in the text format of Prometheus.
pub type MetricsPage = Arc<dyn Fn() -> String + Send + Sync>;

/// What the API works on.
#[derive(Clone)]
pub struct HttpApi {
    dialect: Dialect,
    access: Arc<Access>,
    metrics: MetricsPage,
    capacity: Capacity,
    texts: Arc<Texts>,
    logins: Arc<FailedLogins>,
    hosts: HostNames,
}

impl HttpApi {
    /// Clients' calls with the registry behind them, for whom `access` lets in. All listeners of a process
    /// share one `capacity`.
    pub fn new(
        dialect: Dialect,
        access: Arc<Access>,
        metrics: MetricsPage,
        capacity: Capacity,
    ) -> Self {
        let (texts, logins) = Default::default();
        let hosts = HostNames::default();
        Self { dialect, access, metrics, capacity, texts, logins, hosts }
    }

    /// The same, called by these names too.
    #[must_use]
    pub fn with_hosts(self, hosts: HostNames) -> Self {
        Self { hosts, ..self }
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
