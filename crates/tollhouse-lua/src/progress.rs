//! Progress of runs: a run has ended, or waits for work that its caller does.

use std::time::Duration;

use mlua::MultiValue;

use crate::world::{HttpCall, RedisCall};

/// Outcome of a run.
pub(crate) enum Outcome {
    /// The function returned these values.
    Returned(MultiValue),
    /// The script called `ngx.exit` or answered in another way, with this code.
    Exited(i64),
}

impl Outcome {
    /// Drops the values of a function whose values say nothing.
    pub(crate) fn without_values(self) -> Self {
        match self {
            Self::Returned(_) => Self::Returned(MultiValue::new()),
            exited @ Self::Exited(_) => exited,
        }
    }
}

/// Work that a script waits for.
pub(crate) enum Wait {
    Sleep(Duration),
    /// Reads the request body, of at most this many bytes.
    Body(Option<u64>),
    Http(HttpCall),
    Redis(RedisCall),
}

/// A run that ended or waits.
pub(crate) enum Progress {
    Ended(Outcome),
    Waits(Wait),
}
