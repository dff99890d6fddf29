//! Settings of a gateway for all requests.

use tollhouse_shenyu::answer::Statuses;
use tollhouse_shenyu::filters::Filters;

use crate::plugins::sign::signature::DEFAULT_DELAY_MINUTES;

/// Settings for all requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Choice of HTTP statuses in the gateway's own answers.
    pub statuses: Statuses,
    /// Tolerance for the time of signatures, in minutes.
    pub sign_delay_minutes: u32,
    /// Namespace to serve; empty for ShenYu's default one.
    pub namespace: String,
    /// Filters that run before any plugin.
    pub filters: Filters,
    /// Whether `tcp` may open ports.
    pub opens_ports: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            statuses: Statuses::default(),
            sign_delay_minutes: DEFAULT_DELAY_MINUTES,
            namespace: String::new(),
            filters: Filters::default(),
            opens_ports: false,
        }
    }
}
