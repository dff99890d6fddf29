//! What the chain has done by others, who have connections: their side of it is not known here.

use std::fmt::Debug;
use std::sync::Arc;

use tollhouse_plugin::exchange::LocalFuture;
use tollhouse_shenyu::limiter::redis::{RedisServers, ScriptCall};

/// Whoever has connections.
pub trait Engines: Debug + Send + Sync {
    /// Servers of Redis, which are connected to once something is asked of them.
    ///
    /// # Errors
    /// Why there can be no such servers.
    fn redis(&self, servers: &RedisServers) -> Result<Arc<dyn Scripts>, String>;
}

/// Scripts that run in Redis.
pub trait Scripts: Debug + Send + Sync {
    /// Runs one and gives its first number; `None` where Redis does not answer in time, or with an error.
    fn run<'a>(&'a self, call: &'a ScriptCall) -> LocalFuture<'a, Option<i64>>;

    /// Has one run that nobody waits for.
    fn send(&self, call: ScriptCall);
}
