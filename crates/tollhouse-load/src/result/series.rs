//! Figures of one interval of a run.

use serde::{Deserialize, Serialize};

/// An interval, usually one second. Percentiles cover the requests completed in it: of the latency
/// in an open loop, of the response time otherwise; 0 without any.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Interval {
    /// End of the interval, in nanoseconds since the measurement began.
    pub at_ns: u64,
    /// Length of the interval in nanoseconds.
    pub span_ns: u64,
    /// Number of completed requests, failed ones included.
    pub completed: u64,
    /// Number of failed requests.
    pub failed: u64,
    pub received_bytes: u64,
    /// Requests in flight at the end of the interval.
    pub in_flight: u64,
    /// Connections open at the end of the interval.
    pub connections: u64,
    /// Median of the times in nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile of the times in nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile of the times in nanoseconds.
    pub p99_ns: u64,
    /// Maximum of the times in nanoseconds.
    pub max_ns: u64,
}

impl Interval {
    /// Returns the completed requests per second.
    pub fn rate(&self) -> f64 {
        if self.span_ns == 0 { 0.0 } else { self.completed as f64 * 1e9 / self.span_ns as f64 }
    }
}
