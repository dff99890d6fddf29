//! Current time of a request.

use tollhouse_plugin::RequestContext;

/// Current time of both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Monotonic milliseconds.
    pub(crate) ms: u64,
    /// Seconds since 1970.
    pub(crate) unix_s: u64,
}

impl Now {
    pub(crate) fn from_context(cx: &RequestContext<'_>) -> Self {
        let now = cx.now();
        Self { ms: now.monotonic_ms, unix_s: now.unix_ms / 1_000 }
    }
}
