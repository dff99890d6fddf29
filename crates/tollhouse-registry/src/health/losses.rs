//! Periods for which heartbeats of other nodes are unknown. Silence in such a period does not
//! count.

use std::collections::VecDeque;

use crate::cluster::evidence::Loss;
use crate::limits::{TTL_SECONDS_MAX, TTLS_TO_EXPIRY};

/// Age in milliseconds from which a loss no longer matters: twice the longest expiry. An instance
/// that was last heard of before that has expired already.
const LONGEST_MS: u64 = 2 * TTL_SECONDS_MAX as u64 * TTLS_TO_EXPIRY * 1_000;

/// Maximum number of losses kept. Each takes a second or more, so that more do not fit into the
/// longest expiry.
const LOSSES_MAX: usize = 512;

/// Losses that may still delay an expiry, in the order of their detection.
#[derive(Debug, Default)]
pub(crate) struct Losses(VecDeque<Loss>);

impl Losses {
    /// Adds a loss that was noticed just now.
    pub(crate) fn add(&mut self, loss: Loss) {
        if self.0.len() == LOSSES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(loss);
        while self.0.front().is_some_and(|first| first.until_ms + LONGEST_MS < loss.until_ms) {
            self.0.pop_front();
        }
    }

    /// Returns the earliest expiry of an instance that was last heard of at `alive_at_ms`: a full
    /// expiry time after the end of the first loss in which a heartbeat may be missing. Later
    /// losses do not extend it, because otherwise no instance would expire where nodes are lost
    /// again and again.
    pub(crate) fn due_ms(&self, alive_at_ms: u64, expiry_ms: u64) -> u64 {
        let first = self.0.iter().find(|loss| loss.until_ms > alive_at_ms);
        first.map_or(0, |loss| loss.until_ms + expiry_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_silent_during_a_loss_has_its_time_again_once() {
        let mut losses = Losses::default();
        let due =
            |losses: &Losses| [0, 1_500, 2_000, 4_000].map(|alive| losses.due_ms(alive, 3_000));
        assert_eq!(due(&losses), [0; 4]);
        losses.add(Loss { from_ms: 1_000, until_ms: 2_000 });
        assert_eq!(due(&losses), [5_000, 5_000, 0, 0]);
        losses.add(Loss { from_ms: 1_500, until_ms: 4_500 });
        assert_eq!(due(&losses), [5_000, 5_000, 7_500, 7_500]);
    }
}
