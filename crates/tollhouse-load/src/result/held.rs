//! What was seen of connections that were opened to be held: how many over time, why others failed or
//! were lost, and what one costs at both ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Held connections.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Held {
    /// How many were asked for.
    pub wanted: u64,
    /// The most that were open at an instant.
    pub max: u64,
    /// How many were open when holding ended.
    pub at_end: u64,
    /// How long opening them took.
    pub ramp_ns: u64,
    /// How long they were held after that.
    pub held_ns: u64,
    /// Processes that held them.
    pub processes: u64,
    /// Whether opening was given up because nothing but failures came.
    pub gave_up: bool,
    /// Connections that could not be opened, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Connections that were open and ended, by reason.
    pub lost: BTreeMap<String, u64>,
    /// The first thing that went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<FirstError>,
    /// Signs of life that were sent, and answered.
    pub pings: u64,
    /// Those that were not answered in time, or wrongly.
    pub pings_failed: u64,
    /// What connections cost, by who pays.
    pub costs: Vec<HeldCost>,
    /// How it went.
    pub points: Vec<HeldPoint>,
}

/// The first thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FirstError {
    /// When, in nanoseconds since opening began.
    pub at_ns: u64,
    /// How many connections its process had open then.
    pub open: u64,
    /// What it was.
    pub message: String,
}

/// Memory that held connections cost one end, or the kernel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeldCost {
    /// Who: `holder`, `server`, `target`, `kernel`.
    pub role: String,
    /// Before the first connection.
    pub before_bytes: u64,
    /// With all of them open.
    pub held_bytes: u64,
    /// The difference by the number of connections. For the kernel both ends of one count when both are
    /// on this machine.
    pub each_bytes: f64,
}

/// The state at an instant; all but `open` are counts since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeldPoint {
    /// In nanoseconds since opening began.
    pub at_ns: u64,
    /// Connections open.
    pub open: u64,
    /// Connections that were opened.
    pub established: u64,
    /// Connections that could not be opened, for whatever reason.
    pub failed: u64,
    /// Of those: refused.
    pub refused: u64,
    /// Of those: reset while being opened.
    pub reset: u64,
    /// Of those: not there in time.
    pub timed_out: u64,
    /// Connections that were open and ended.
    pub lost: u64,
}
