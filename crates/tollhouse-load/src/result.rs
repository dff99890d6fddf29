//! What was seen of one case: figures, distributions, series, samples of resources, warnings. Plain
//! data that is written to and read from JSON; a published table fits in it too, with less filled in.

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

/// The result of a case. Times are nanoseconds, sizes bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaseResult {
    /// What the report calls the case, such as `600 connections`.
    pub name: String,
    /// What was measured: `direct`, `tollhouse`, `nginx`, …
    pub subject: String,
    /// Which of several runs of the same case this is, from 1.
    pub repetition: u32,
    /// What was asked for; absent for figures taken from a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<Case>,
    /// When it began, in milliseconds of Unix time.
    pub started_at_ms: u64,
    /// How long was measured.
    pub elapsed_ns: u64,
    /// How it ended.
    pub end: End,
    /// Connections (times streams) that carried load.
    pub concurrency: u64,
    /// Threads that generated it.
    pub workers: u64,
    /// Whether requests were due at instants of their own.
    pub open_loop: bool,
    /// The rate asked for, in an open loop: the mean over the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended_rate: Option<f64>,
    /// Completed requests a second, failed ones included.
    pub rate: f64,
    /// Successful requests a second.
    pub goodput: f64,
    /// Counts.
    pub counts: Counts,
    /// From sending the request to the last byte of the answer, successes only.
    pub response_time: Distribution,
    /// From the intended start to the last byte: corrected for what a stalled server would hide. In an
    /// open loop only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Distribution>,
    /// From sending to the first byte of the answer.
    pub first_byte: Distribution,
    /// From opening a connection to being able to send, TLS handshake included.
    pub connect: Distribution,
    /// How long after its intended start a request was sent. In an open loop only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slip: Option<Distribution>,
    /// How late the generator's own loop noticed a tick: the longest, in nanoseconds.
    pub loop_delay_ns: u64,
    /// Completed requests of each worker in windows of 100 ms, as requests a second.
    pub worker_rates: RateStatistics,
    /// One entry an interval.
    pub series: Vec<Interval>,
    /// Processes that were watched.
    pub processes: Vec<ProcessSeries>,
    /// What the kernel's counters said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelSeries>,
    /// Connections that were opened to be held, when that was the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// The first answer's head, for formats that name the server: header lines as received.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_head: Vec<(String, String)>,
    /// Single samples, when the case asked for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// What the machine's limits are close to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Thresholds of the case that are not met, each as it was written with what was seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed_thresholds: Vec<String>,
    /// Further figures of a table or suite that have no field, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, f64>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// As planned.
    #[default]
    Completed,
    /// By Ctrl-C; what was measured until then is reported.
    Interrupted,
}

/// Counts of a case, warm-up excluded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counts {
    /// Requests with an end, good or bad.
    pub completed: u64,
    /// Requests that succeeded.
    pub succeeded: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Failures by class.
    pub failures: BTreeMap<String, u64>,
    /// Failures by their message, at most a few dozen different ones, then `other`.
    pub messages: BTreeMap<String, u64>,
    /// Whole answers by status: `200`, or `OK` and `Unavailable` for gRPC.
    pub statuses: BTreeMap<String, u64>,
    /// Connections opened in all, warm-up included.
    pub connections_opened: u64,
    /// Requests sent on a connection that had carried one before.
    pub reused: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes of bodies (payload) received.
    pub body_bytes: u64,
    /// Bytes of the first body, which formats call the document length.
    pub first_body_bytes: u64,
    /// Requests that were due but never sent: the schedule was not kept.
    pub unsent: u64,
    /// Requests that were under way when the run ended and were abandoned.
    pub unfinished: u64,
}

/// Requests a second of one worker over windows, as wrk prints them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateStatistics {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// The highest.
    pub max: f64,
    /// The share (0 to 1) of windows within one standard deviation of the mean.
    pub within_stdev: f64,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// When it was sent, in nanoseconds since the case began.
    pub at_ns: u64,
    /// What opening its connection took; 0 when that was open already.
    pub connect_ns: u64,
    /// From sending to the first byte of the answer.
    pub first_byte_ns: u64,
    /// From sending to the last byte.
    pub response_ns: u64,
    /// The HTTP or gRPC status; for failures without an answer 0.
    pub status: u16,
    /// The class of its failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<crate::failure::FailureClass>,
}

impl CaseResult {
    /// Whether somebody counted failures: every run does, and some tables.
    pub fn knows_failures(&self) -> bool {
        self.case.is_some() || self.counts.succeeded + self.counts.failed > 0
    }

    /// The distribution that thresholds and headlines are about: the latency in an open loop, the
    /// response time otherwise.
    pub fn headline(&self) -> &Distribution {
        self.latency.as_ref().unwrap_or(&self.response_time)
    }
}
