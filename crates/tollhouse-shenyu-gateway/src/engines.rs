//! What the chain has done by others, who have connections: their side of it is not known here.

use std::fmt::Debug;
use std::sync::Arc;

use tollhouse_dubbo::Invocation;
use tollhouse_plugin::exchange::LocalFuture;
use tollhouse_shenyu::limiter::redis::{RedisServers, ScriptCall};

/// Whoever has connections.
pub trait Engines: Debug + Send + Sync {
    /// Servers of Redis, which are connected to once something is asked of them.
    ///
    /// # Errors
    /// Why there can be no such servers.
    fn redis(&self, servers: &RedisServers) -> Result<Arc<dyn Scripts>, String>;

    /// Calls a method of Dubbo on a server, `host:port`, and gives its result.
    fn call_dubbo<'a>(
        &'a self,
        server: &'a str,
        call: &'a Invocation<'a>,
    ) -> LocalFuture<'a, Result<serde_json::Value, CallError>>;
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// Nothing was sent, and why: another server may be asked.
    Unreachable(String),
    /// It took too long, and may have been done.
    TimedOut,
    /// It has failed, and why.
    Failed(String),
}

/// Scripts that run in Redis.
pub trait Scripts: Debug + Send + Sync {
    /// Runs one and gives its first number; `None` where Redis does not answer in time, or with an error.
    fn run<'a>(&'a self, call: &'a ScriptCall) -> LocalFuture<'a, Option<i64>>;

    /// Has one run that nobody waits for.
    fn send(&self, call: ScriptCall);
}
