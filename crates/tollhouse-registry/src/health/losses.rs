//! Time for which it is not known whom other nodes had heard of: silence that falls into it may be none.

use std::collections::VecDeque;

use crate::cluster::evidence::Loss;
use crate::limits::{TTL_SECONDS_MAX, TTLS_TO_EXPIRY};

/// The longest expiry, twice: nobody was last heard of longer ago who has not expired by now.
const LONGEST_MS: u64 = 2 * TTL_SECONDS_MAX as u64 * TTLS_TO_EXPIRY * 1_000;

/// Losses that are remembered, of a second and more each: more than fit into the longest expiry.
const LOSSES_MAX: usize = 512;

/// Losses that still matter to somebody, by the time when each was noticed.
#[derive(Debug, Default)]
pub(crate) struct Losses(VecDeque<Loss>);

impl Losses {
    /// Takes note of a loss that was noticed just now.
    pub(crate) fn add(&mut self, loss: Loss) {
        if self.0.len() == LOSSES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(loss);
        while self.0.front().is_some_and(|first| first.until_ms + LONGEST_MS < loss.until_ms) {
            self.0.pop_front();
        }
    }

    /// When one expires at the earliest that was last heard of at a time: it has its whole time again after the
    /// first loss in which it may have been heard of. Not after later ones, or nobody would expire where nodes
    /// are lost time and again.
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
