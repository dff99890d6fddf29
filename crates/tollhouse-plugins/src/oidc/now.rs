//! Current time of a request or log-in.

use tollhouse_plugin::RequestContext;

/// Current time of both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Monotonic milliseconds.
    pub(crate) ms: u64,
    /// Seconds since 1970.
    pub(crate) unix_s: u64,
}

impl Now {
    /// Returns a time: monotonic milliseconds, and seconds since 1970.
    pub fn new(ms: u64, unix_s: u64) -> Self {
        Self { ms, unix_s }
    }

    pub(crate) fn from_context(cx: &RequestContext<'_>) -> Self {
        let now = cx.now();
        Self { ms: now.monotonic_ms, unix_s: now.unix_ms / 1_000 }
    }
}
