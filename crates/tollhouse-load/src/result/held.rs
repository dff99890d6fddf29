//! Figures of held connections: their number over time, reasons of failures and losses, and the
//! cost at both ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Figures of a run that opens and holds connections.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Held {
    /// Number of connections that were requested.
    pub wanted: u64,
    /// Maximum number of concurrently open connections.
    pub max: u64,
    /// Number of connections open when the hold time ended.
    pub at_end: u64,
    /// Time to open all connections in nanoseconds.
    pub ramp_ns: u64,
    /// Hold time after the last connection was opened, in nanoseconds.
    pub held_ns: u64,
    pub processes: u64,
    /// Whether opening was abandoned because of consecutive failures.
    pub gave_up: bool,
    /// Connections that could not be opened, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Connections that were open and then ended, by reason.
    pub lost: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<FirstError>,
    /// Number of pings sent, unanswered ones included.
    pub pings: u64,
    /// Pings without a valid response in time.
    pub pings_failed: u64,
    /// Memory per connection, by role.
    pub costs: Vec<HeldCost>,
    /// Counts of connections over time.
    pub points: Vec<HeldPoint>,
}

/// First error of the run, with its time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FirstError {
    /// Time in nanoseconds since opening began.
    pub at_ns: u64,
    /// Number of connections its process had open at that time.
    pub open: u64,
    pub message: String,
}

/// Memory cost of held connections at one end or in the kernel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeldCost {
    /// Role of the processes: `holder`, `server`, `target` or `kernel`.
    pub role: String,
    /// Memory before the first connection, in bytes.
    pub before_bytes: u64,
    /// Memory with all connections open, in bytes.
    pub held_bytes: u64,
    /// Growth per connection. The kernel's figure includes both ends if both are on this machine.
    pub each_bytes: f64,
}

/// State at an instant; all values but `open` are counts since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeldPoint {
    /// Time in nanoseconds since opening began.
    pub at_ns: u64,
    /// Number of connections open now.
    pub open: u64,
    /// Number of connections opened so far.
    pub established: u64,
    /// Connections that could not be opened, for any reason.
    pub failed: u64,
    /// Number of attempts that were refused.
    pub refused: u64,
    /// Number of connections that were reset while they were opened.
    pub reset: u64,
    /// Number of attempts that timed out.
    pub timed_out: u64,
    /// Connections that were open and then ended.
    pub lost: u64,
}
