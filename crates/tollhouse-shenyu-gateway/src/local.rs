//! The gateway's own interface, by which objects are written without an admin. Who writes them is not known
//! here.

use std::fmt::Debug;

use tollhouse_plugin::LocalFuture;

/// Bytes of a body: some thousand rules at once.
pub(crate) const BODY_BYTES_MAX: u64 = 4 << 20;

/// A call by somebody who has the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCall {
    /// Its method.
    pub method: String,
    /// Its path, which begins with `/shenyu/`.
    pub path: String,
    /// Its query, without the question mark.
    pub query: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// Whoever writes objects.
pub trait LocalInterface: Debug + Send + Sync {
    /// Does a call; status and body of the answer.
    fn call<'a>(&'a self, call: LocalCall) -> LocalFuture<'a, (u16, String)>;
}
