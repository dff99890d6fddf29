//! Percentage of requests that a change of the path applies to, and the prediction of the change.

use crate::course::Effect;
use crate::handle::HandleError;
use crate::turn::Turn;

/// Default of percentages.
const WHOLE_PERCENT: i64 = 100;

/// Reads a percentage; 100 if absent.
///
/// # Errors
///
/// If it is out of range.
pub(crate) fn percentage(written: Option<i64>) -> Result<u8, HandleError> {
    let value = written.unwrap_or(WHOLE_PERCENT);
    match u8::try_from(value) {
        Ok(percentage @ 0..=100) => Ok(percentage),
        _ => Err(HandleError::Bounds { member: "percentage", value, least: 0, most: 100 }),
    }
}

/// Paths of a request before a plugin acts on it.
pub(crate) struct Paths {
    seen: String,
    node: String,
}

impl Paths {
    pub(crate) fn new(turn: &Turn) -> Self {
        Self { seen: turn.seen().to_owned(), node: turn.node_path().into_owned() }
    }

    /// Returns the effect of the plugin: the difference between these paths and those of `after`.
    /// It applies to `percentage` of requests.
    pub(crate) fn effect(&self, after: &Turn, percentage: u8) -> Effect {
        let (percent, node) = (percentage.into(), after.node_path());
        match (after.seen() == self.seen, node == self.node) {
            (false, _) => Effect::Path { path: after.seen().to_owned(), percent },
            (true, false) => Effect::NodePath { path: node.into_owned(), percent },
            (true, true) => Effect::Passes,
        }
    }
}
