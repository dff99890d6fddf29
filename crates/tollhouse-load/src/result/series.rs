//! Figures of one interval of a run.

use serde::{Deserialize, Serialize};

/// An interval, usually one second. Percentiles cover the requests completed in it: of the latency
/// in an open loop, of the response time otherwise; 0 without any.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Interval {
    /// End of the interval, in nanoseconds since the measurement began.
    pub at_ns: u64,
    /// Length in nanoseconds.
    pub span_ns: u64,
    /// Completed requests.
    pub completed: u64,
    /// Failed requests, included in `completed`.
    pub failed: u64,
    pub received_bytes: u64,
    /// Requests in flight at the end of the interval.
    pub in_flight: u64,
    /// Connections open at the end of the interval.
    pub connections: u64,
    /// Median in nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile in nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// Maximum in nanoseconds.
    pub max_ns: u64,
}

impl Interval {
    /// Returns the completed requests per second.
    pub fn rate(&self) -> f64 {
        if self.span_ns == 0 { 0.0 } else { self.completed as f64 * 1e9 / self.span_ns as f64 }
    }
}
