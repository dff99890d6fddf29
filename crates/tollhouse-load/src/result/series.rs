//! What happened in one interval of a run.

use serde::{Deserialize, Serialize};

/// One interval, usually a second. Percentiles are of the requests that ended within it: of the latency
/// in an open loop, of the response time otherwise. 0 where none ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Interval {
    /// Its end, in nanoseconds since the measurement began.
    pub at_ns: u64,
    /// Its length in nanoseconds.
    pub span_ns: u64,
    /// Requests that ended.
    pub completed: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Requests under way at its end.
    pub in_flight: u64,
    /// Connections open at its end.
    pub connections: u64,
    /// Half of the requests took no longer, in nanoseconds.
    pub p50_ns: u64,
    /// 90 of 100.
    pub p90_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Interval {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        if self.span_ns == 0 { 0.0 } else { self.completed as f64 * 1e9 / self.span_ns as f64 }
    }
}
