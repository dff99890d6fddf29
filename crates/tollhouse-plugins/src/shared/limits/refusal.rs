//! Answers of limiters: refusals, and the treatment of requests that cannot be counted.

use tollhouse_plugin::{Answer, Flow, RefusalKind, Step};

/// Answer to a request over the limit.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// Text of `error_msg`. `None`: the gateway's page.
    pub(crate) message: Option<String>,
}

impl Refusal {
    pub(crate) fn answer<'a>(&self) -> Answer<'a> {
        match &self.message {
            Some(message) => {
                Answer::error_msg(self.status, message).refused(RefusalKind::LimitExceeded)
            }
            None => Answer::status(self.status).refused(RefusalKind::LimitExceeded),
        }
    }
}

/// Converts the outcome of a phase that did not wait.
pub(crate) fn step(flow: Flow<'_>) -> Step<'_> {
    match flow {
        Flow::Continue => Step::Continue,
        Flow::Answer(answer) => Step::Answer(answer),
    }
}

/// Returns the default status of refused requests, as in APISIX. Users who expect 429 configure it.
pub(crate) fn default_rejected_code() -> u16 {
    503
}

/// Treatment of requests that cannot be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenUnknown {
    /// Requests that cannot be counted pass.
    Pass,
    /// Requests that cannot be counted get status 500.
    Fail,
}

impl From<bool> for WhenUnknown {
    /// Converts the field `allow_degradation` of a conf.
    fn from(allow_degradation: bool) -> Self {
        if allow_degradation { WhenUnknown::Pass } else { WhenUnknown::Fail }
    }
}
