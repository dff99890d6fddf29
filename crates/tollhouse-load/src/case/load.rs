//! Amount, pace and duration of the load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Occupancy;
use crate::pace::Pace;

/// Default number of connections, equal to ghz's default concurrency.
const CONNECTIONS_DEFAULT: usize = 50;
/// Default request timeout: long enough for a slow response; a request that takes longer is a
/// failure.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Load of a case. The run ends after `requests` or `duration`, whichever is reached first; with
/// neither, after [`Load::DURATION_DEFAULT`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Total number of connections, over all workers; 50 by default.
    pub connections: usize,
    /// Concurrent requests per connection, for protocols that multiplex; 1 by default.
    pub streams: usize,
    /// Worker threads, each with its own event loop. By default one per allowed core; never more
    /// than connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Number of lanes that carry load; by default all. A lane is one request at a time; there are
    /// connections × streams lanes.
    #[serde(skip_serializing_if = "super::is_default")]
    pub lanes: Occupancy,
    /// Schedule of the requests: closed loop by default.
    pub pace: Pace,
    /// Total number of measured requests; without it, `duration` decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Duration of the measurement, without the warm-up.
    #[serde(with = "crate::text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Duration of the load before recording begins; zero by default.
    #[serde(with = "crate::text::duration")]
    pub warm_up: Duration,
    /// Time limit of a request, including connecting; a slower request counts as failed. 10 s by
    /// default.
    #[serde(with = "crate::text::duration")]
    pub timeout: Duration,
    /// Whether a connection serves more than one request; on by default.
    pub keep_alive: bool,
    /// Handling of requests still in flight at the end of the measurement.
    pub at_end: AtEnd,
    /// Keeps every single sample, up to a limit, for output formats that list them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_samples: bool,
    /// Continues to the end even if no request succeeds. By default, a run with nothing but
    /// failures is aborted after a while, because its figures would describe the failure only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub persistent: bool,
}

/// Handling of requests still in flight at the end of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtEnd {
    /// `Abandon` in a closed loop, `Wait` in an open one, where leaving requests out would hide
    /// their delay.
    #[default]
    Auto,
    /// Cancels the requests and counts them as unfinished.
    Abandon,
    /// Waits for the requests, at most for the request timeout.
    Wait,
}

impl Load {
    /// Duration of the measurement if neither a count nor a duration is set.
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
