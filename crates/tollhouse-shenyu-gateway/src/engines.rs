//! What the chain has done by others, who have connections: their side of it is not known here.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;
use tollhouse_dubbo::Invocation;
use tollhouse_plugin::exchange::LocalFuture;
use tollhouse_plugin::{Answer, RequestContext};
use tollhouse_shenyu::limiter::redis::{RedisServers, ScriptCall};
use tollhouse_shenyu::oauth2::OAuth2Client;
use tollhouse_shenyu::record_store::RecordPlace;
use tollhouse_stdx::Reservation;

/// Whoever has connections.
pub trait Engines: Debug + Send + Sync {
    /// Servers of Redis, which are connected to once something is asked of them.
    ///
    /// # Errors
    /// Why there can be no such servers.
    fn redis(&self, servers: &RedisServers) -> Result<Arc<dyn Scripts>, EngineError>;

    /// What takes records of exchanges there; the same one for all that name the same.
    fn records(&self, place: &RecordPlace) -> Arc<dyn RecordSink>;

    /// Sends a form to a URL and gives the body of its answer; `None` where there is none with a status below 300.
    fn post_form<'a>(&'a self, url: &'a str, form: String) -> LocalFuture<'a, Option<Vec<u8>>>;

    /// What logs users in for a client of a provider.
    ///
    /// # Errors
    /// Why nobody can log in there.
    fn logins(&self, client: &OAuth2Client) -> Result<Arc<dyn Logins>, EngineError>;

    /// Calls a method of Dubbo on a server, `host:port`, and gives its result.
    fn call_dubbo<'a>(
        &'a self,
        server: &'a str,
        call: &'a Invocation<'a>,
    ) -> LocalFuture<'a, Result<CallResult, CallError>>;
}

/// Why there can be no such servers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// Knows who has logged in.
pub trait Logins: Debug + Send + Sync {
    /// Lets a request of somebody who has pass with the user's token, and gives the lines of cookies that its answer
    /// sets; of others, the answer that sends them to log in, or says why they cannot.
    fn admit<'a>(
        &'a self,
        cx: &'a mut RequestContext<'_>,
    ) -> LocalFuture<'a, Result<Vec<String>, Box<Answer<'static>>>>;
}

/// Takes records of exchanges, for which no request waits.
pub trait RecordSink: Debug + Send + Sync {
    /// Takes one, a line of JSON; or drops it, where too much waits already.
    fn push(&self, record: String);
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

/// What a call has come to.
#[derive(Debug)]
pub struct CallResult {
    /// The result.
    pub value: Value,
    /// What it takes of the memory that all share.
    pub held: Reservation,
}

/// Scripts that run in Redis.
pub trait Scripts: Debug + Send + Sync {
    /// Runs one and gives its first number; `None` where Redis does not answer in time, or with an error.
    fn run<'a>(&'a self, call: &'a ScriptCall) -> LocalFuture<'a, Option<i64>>;

    /// Has one run that nobody waits for.
    fn send(&self, call: ScriptCall);
}
