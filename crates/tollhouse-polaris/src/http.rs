//! The dialect over HTTP, for clients without gRPC and for the console.
//!
//! Clients' calls share their handlers with gRPC: JSON is turned into a message, the answer back into
//! JSON. The console's calls are tables: a [`console::Write`] turns an item of a list into commands, a
//! [`console::List`] filters what is published. Nothing here keeps state.

mod client;
mod console;
mod failure;
mod intake;
mod login;
mod maintain;
mod query;
mod reply;
mod routes;
mod serve;

pub use routes::router;
pub use serve::serve;

use crate::access::Access;
use crate::dialect::Dialect;
use std::fmt;
use std::sync::Arc;
use tollhouse_registry::Registry;

/// What the API works on.
#[derive(Clone)]
pub struct HttpApi {
    /// Clients' calls, and the registry behind them.
    pub dialect: Dialect,
    /// Who may call.
    pub access: Arc<Access>,
    /// Gives the page of metrics, in the text format of Prometheus.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

impl HttpApi {
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
