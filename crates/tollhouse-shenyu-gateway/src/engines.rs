//! Interfaces to services with network connections; `tollhouse-plugins` implements them.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;
use tollhouse_dubbo::Invocation;
use tollhouse_plugin::exchange::LocalFuture;
use tollhouse_plugin::{Answer, RequestContext};
use tollhouse_stdx::Reservation;

use crate::plugins::oauth2::client::OAuth2Client;
use crate::plugins::rate_limiter::limiter::redis::{RedisServers, ScriptCall};
use crate::shared::record_store::RecordPlace;

/// Access to network connections.
pub trait Engines: Debug + Send + Sync {
    /// Returns access to Redis servers. Connects when the first script runs.
    fn redis(&self, servers: &RedisServers) -> Result<Arc<dyn Scripts>, EngineError>;

    /// Returns the sink for a destination of records; equal destinations share one.
    fn records(&self, place: &RecordPlace) -> Arc<dyn RecordSink>;

    /// Posts a form and returns the body of the response; `None` on failure or a status of 300 and
    /// above.
    fn post_form<'a>(&'a self, url: &'a str, form: String) -> LocalFuture<'a, Option<Vec<u8>>>;

    /// Returns the login handler for an OAuth client.
    ///
    /// # Errors
    ///
    /// If the client's provider cannot be used.
    fn logins(&self, client: &OAuth2Client) -> Result<Arc<dyn Logins>, EngineError>;

    /// Calls a Dubbo method on a server, `host:port`.
    fn call_dubbo<'a>(
        &'a self,
        server: &'a str,
        call: &'a Invocation<'a>,
    ) -> LocalFuture<'a, Result<CallResult, CallError>>;
}

/// Reason why the configured servers cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// Login handler of an OAuth client.
pub trait Logins: Debug + Send + Sync {
    /// Admits a request of a logged-in user, adds the user's token to it, and returns `Set-Cookie`
    /// values for its response. Otherwise returns the redirect to the login, or the reason for a
    /// failed login, as the error.
    fn admit<'a>(
        &'a self,
        cx: &'a mut RequestContext<'_>,
    ) -> LocalFuture<'a, Result<Vec<String>, Box<Answer<'static>>>>;
}

/// Sink for records of exchanges. Requests do not wait for delivery.
pub trait RecordSink: Debug + Send + Sync {
    /// Queues a record, which is a line of JSON. Drops it if the queue is full.
    fn push(&self, record: String);
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The call was not sent, for this reason, so another server may be tried.
    Unreachable(String),
    /// The call timed out, but may have been executed.
    TimedOut,
    /// The call failed for this reason.
    Failed(String),
}

/// Value that a call returned, with the memory reserved for it.
#[derive(Debug)]
pub struct CallResult {
    pub value: Value,
    /// Reservation in the shared memory budget for the value.
    pub held: Reservation,
}

/// Access to one Redis deployment, for scripts.
pub trait Scripts: Debug + Send + Sync {
    /// Runs a script and returns its first number; `None` if Redis fails or does not answer in
    /// time.
    fn run<'a>(&'a self, call: &'a ScriptCall) -> LocalFuture<'a, Option<i64>>;

    /// Runs a script without waiting for its result.
    fn send(&self, call: ScriptCall);
}
