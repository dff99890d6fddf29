//! Upstream time-outs, as routes and upstreams carry them.

use std::time::Duration;

/// How long to wait for an upstream. Documents give seconds as numbers; 60 s each by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// For the TCP (and TLS) connection to stand.
    pub connect: Duration,
    /// Between two successful writes of the request.
    pub send: Duration,
    /// Between two successful reads of the response.
    pub read: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { connect: minute, send: minute, read: minute }
    }
}
