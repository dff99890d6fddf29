//! Wall clock of spans.

use std::time::SystemTime;

/// Current time in nanoseconds since 1970; 0 if the clock is before that.
#[inline]
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(since.subsec_nanos()))
}
