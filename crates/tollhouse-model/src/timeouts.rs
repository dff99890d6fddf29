//! Upstream timeouts, as configured in routes and upstreams.

use std::time::Duration;

/// Timeouts towards an upstream. Documents give seconds as numbers; each is 60 s by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// Maximum time to establish the TCP (and TLS) connection.
    pub connect: Duration,
    /// Maximum time between two successful writes of the request.
    pub send: Duration,
    /// Maximum time between two successful reads of the response.
    pub read: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { connect: minute, send: minute, read: minute }
    }
}
