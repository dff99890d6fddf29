//! How limiters turn a request away, and what they do when they cannot tell.

use tollhouse_plugin::{Answer, Flow, Step};

/// The answer to a request that is too much.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// What `error_msg` says; without it the answer is the gateway's page.
    pub(crate) message: Option<String>,
}

impl Refusal {
    pub(crate) fn answer<'a>(&self) -> Answer<'a> {
        match &self.message {
            Some(message) => Answer::error_msg(self.status, message),
            None => Answer::status(self.status),
        }
    }
}

/// What a phase says without having waited.
pub(crate) fn step(flow: Flow<'_>) -> Step<'_> {
    match flow {
        Flow::Continue => Step::Continue,
        Flow::Answer(answer) => Step::Answer(answer),
    }
}

/// The status of requests turned away unless the conf says another; users expect 429 where they
/// ask for it.
pub(crate) fn default_rejected_code() -> u16 {
    503
}

/// What becomes of requests that cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenUnknown {
    /// They pass.
    Pass,
    /// They get a 500.
    Fail,
}

impl From<bool> for WhenUnknown {
    /// Reads `allow_degradation`.
    fn from(allow_degradation: bool) -> Self {
        if allow_degradation { WhenUnknown::Pass } else { WhenUnknown::Fail }
    }
}
