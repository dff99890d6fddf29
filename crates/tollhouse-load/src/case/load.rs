//! How much load, in which rhythm, for how long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Occupancy;
use crate::pace::Pace;

/// Connections when nothing is said: as many as ghz keeps in flight.
const CONNECTIONS_DEFAULT: usize = 50;
/// Long enough for an answer that is merely slow; a request that takes longer is a failure.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The load of a case. Ends at `requests` or `duration`, whichever comes first; with neither, after
/// [`Load::DURATION_DEFAULT`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Connections in all, over all workers.
    pub connections: usize,
    /// Requests in flight on one connection, for protocols that multiplex.
    pub streams: usize,
    /// Threads, each with its own loop; by default one per allowed core, and never more than connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// How many of the lanes (connections times streams) carry load, when not all.
    #[serde(skip_serializing_if = "super::is_default")]
    pub lanes: Occupancy,
    /// When the next request may go.
    pub pace: Pace,
    /// How many requests in all are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// How long is measured, without the warm-up.
    #[serde(with = "crate::text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// How long the load runs before anything is recorded.
    #[serde(with = "crate::text::duration")]
    pub warm_up: Duration,
    /// The longest a request may take, connecting included, before it counts as failed.
    #[serde(with = "crate::text::duration")]
    pub timeout: Duration,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// What happens to requests under way when the time is over.
    pub at_end: AtEnd,
    /// Keep every single sample (for formats that list them), up to a limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_samples: bool,
    /// Go on to the end even when nothing succeeds. Otherwise a run that has seen nothing but failures
    /// for a while is given up: its figures would be about the failure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub persistent: bool,
}

/// What happens to requests under way when the time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtEnd {
    /// Abandon in a closed loop, wait in an open one: there a request left out would be a delay forgiven.
    #[default]
    Auto,
    /// Cut; they are counted as unfinished.
    Abandon,
    /// Wait for them, at most the time-out.
    Wait,
}

impl Load {
    /// How long is measured when neither a count nor a duration is given.
    pub const DURATION_DEFAULT: Duration = Duration::from_secs(10);
}

impl Default for Load {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_DEFAULT,
            streams: 1,
            workers: None,
            lanes: Occupancy::All,
            pace: Pace::Closed,
            requests: None,
            duration: None,
            warm_up: Duration::ZERO,
            timeout: TIMEOUT_DEFAULT,
            keep_alive: true,
            at_end: AtEnd::Auto,
            keep_samples: false,
            persistent: false,
        }
    }
}
