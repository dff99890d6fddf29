//! Gateway's own interface, by which objects are written without an admin. The implementation is
//! elsewhere.

use std::fmt::Debug;

use tollhouse_plugin::LocalFuture;

/// Largest request body; enough for some thousand rules.
pub(crate) const BODY_BYTES_MAX: u64 = 4 << 20;

/// Call whose key has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCall {
    pub method: String,
    /// Path of the call; begins with `/shenyu/`.
    pub path: String,
    /// Query without the question mark.
    pub query: String,
    pub body: Vec<u8>,
}

/// Answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalAnswer {
    pub status: u16,
    pub body: String,
    /// First problem of a change that does not serve as written.
    pub warning: Option<String>,
}

/// Handler of calls to the gateway's own interface.
pub trait LocalInterface: Debug + Send + Sync {
    /// Processes a call.
    fn call<'a>(&'a self, call: LocalCall) -> LocalFuture<'a, LocalAnswer>;
}
