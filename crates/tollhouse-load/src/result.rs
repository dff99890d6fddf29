//! Result of a case: figures, distributions, series, resource samples, warnings. Plain data, stored
//! as JSON; published tables use this type with fewer fields filled in.

mod held;
mod resource;
mod series;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::distribution::Distribution;

pub use held::{FirstError, Held, HeldCost, HeldPoint};
pub use resource::{KernelSeries, ProcessSeries, ResourceSample};
pub use series::Interval;

/// Result of a case. Times are in nanoseconds, sizes in bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaseResult {
    /// Name of the case in the report, such as `600 connections`.
    pub name: String,
    /// Measured system: `direct`, `tollhouse`, `nginx`, …
    pub subject: String,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// The case; absent for figures from a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<Case>,
    /// Start time in milliseconds of Unix time.
    pub started_at_ms: u64,
    /// Duration of the measurement in nanoseconds.
    pub elapsed_ns: u64,
    pub end: End,
    /// Number of connections (times streams) that carried load.
    pub concurrency: u64,
    /// Number of threads that generated the load.
    pub workers: u64,
    /// Whether requests were sent on a schedule.
    pub open_loop: bool,
    /// Intended rate in an open loop: the mean over the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended_rate: Option<f64>,
    /// Completed requests per second, including failed ones.
    pub rate: f64,
    /// Number of successful requests per second.
    pub goodput: f64,
    pub counts: Counts,
    /// Time from sending the request to the last byte of the response; successful requests only.
    pub response_time: Distribution,
    /// Time from the intended start to the last byte, which includes delays that a stalled server
    /// would otherwise hide. Open loop only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Distribution>,
    /// Time from sending to the first byte of the response.
    pub first_byte: Distribution,
    /// Time to open a connection, including the TLS handshake.
    pub connect: Distribution,
    /// Delay between intended start and sending. Open loop only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slip: Option<Distribution>,
    /// Largest delay of the generator's event loop in noticing a tick, in nanoseconds.
    pub loop_delay_ns: u64,
    /// Completed requests per second of each worker, over windows of 100 ms.
    pub worker_rates: RateStatistics,
    /// Intervals of the run, one entry each.
    pub series: Vec<Interval>,
    /// Resource samples of the watched processes.
    pub processes: Vec<ProcessSeries>,
    /// Resource samples of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelSeries>,
    /// Figures of held connections, for a run that holds connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Header lines of the first response as received, for output formats that name the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_head: Vec<(String, String)>,
    /// Individual samples, if the case keeps them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Limits of the machine that are nearly reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Thresholds that were not met, each with the measured value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed_thresholds: Vec<String>,
    /// Further figures of a table or suite without their own field, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, f64>,
}

/// Reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The run ended as planned.
    #[default]
    Completed,
    /// By Ctrl-C; the figures cover the time until then.
    Interrupted,
}

/// Counts of a case, without the warm-up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counts {
    /// Number of completed requests, failed ones included.
    pub completed: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// Number of failures by class.
    pub failures: BTreeMap<String, u64>,
    /// Failures by message: at most a few dozen different ones, then `other`.
    pub messages: BTreeMap<String, u64>,
    /// Complete responses by status: `200`, or `OK` and `Unavailable` for gRPC.
    pub statuses: BTreeMap<String, u64>,
    /// Total number of opened connections, including the warm-up.
    pub connections_opened: u64,
    /// Requests on a connection that had carried an earlier one.
    pub reused: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Sum of received body bytes.
    pub body_bytes: u64,
    /// Length of the first body in bytes, which some formats call the document length.
    pub first_body_bytes: u64,
    /// Requests that were due but never sent, because the schedule was not kept.
    pub unsent: u64,
    /// Requests in flight at the end of the run, which were abandoned.
    pub unfinished: u64,
}

/// Requests per second of one worker over windows, as wrk prints them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateStatistics {
    pub mean: f64,
    pub stdev: f64,
    pub max: f64,
    /// Share (0 to 1) of windows within one standard deviation of the mean.
    pub within_stdev: f64,
}

/// Times and status of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Time of sending, in nanoseconds since the case began.
    pub at_ns: u64,
    /// Time to open the connection; 0 if it was already open.
    pub connect_ns: u64,
    /// Time from sending to the first byte of the response.
    pub first_byte_ns: u64,
    /// Time from sending to the last byte.
    pub response_ns: u64,
    /// HTTP or gRPC status; 0 for failures without a response.
    pub status: u16,
    /// Class of the failure, if it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<crate::failure::FailureClass>,
}

impl CaseResult {
    /// Whether failures were counted: always in measurements, rarely in tables.
    pub fn knows_failures(&self) -> bool {
        self.case.is_some() || self.counts.succeeded + self.counts.failed > 0
    }

    /// Returns the distribution for thresholds and headlines: the latency in an open loop, the
    /// response time otherwise.
    pub fn headline(&self) -> &Distribution {
        self.latency.as_ref().unwrap_or(&self.response_time)
    }
}
