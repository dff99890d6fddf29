//! Pauses of this very process: stopped, starved, or the machine asleep. Nobody's beats were heard
//! while it lasted, so that silence during a pause is nobody's fault.
//!
//! A pause is known by when the last look before it was and how much later than due the next one came.
//! Who was last heard of before it gets that much more time; who was heard of since, on a thread that
//! woke up earlier, needs none.

use std::collections::VecDeque;

use crate::clock::milliseconds;
use crate::limits::{HEALTH_TICK, TTL_SECONDS_MAX, TTLS_TO_EXPIRY};

/// The longest expiry.
const LONGEST_MS: u64 = TTL_SECONDS_MAX as u64 * TTLS_TO_EXPIRY * 1_000;

/// Pauses that still matter to somebody; see the module.
#[derive(Debug)]
pub(crate) struct Pauses {
    /// The last look.
    looked_at_ms: u64,
    past: VecDeque<Pause>,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    began_ms: u64,
    lasted_ms: u64,
}

impl Pauses {
    /// None yet.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { looked_at_ms: now_ms, past: VecDeque::new() }
    }

    /// Takes note of a look that came so much later than it should have; most come in time.
    pub(crate) fn look(&mut self, now_ms: u64, late_ms: u64) {
        if late_ms > 0 {
            self.past.push_back(Pause { began_ms: self.looked_at_ms, lasted_ms: late_ms });
        }
        self.looked_at_ms = now_ms;
        // Whoever was heard of before the first of them has expired by now in spite of all of them.
        while let Some(first) = self.past.front()
            && first.began_ms + LONGEST_MS + self.grace_ms(0) + 2 * milliseconds(HEALTH_TICK)
                < now_ms
        {
            self.past.pop_front();
        }
    }

    /// What time to add for one that was last heard of then.
    pub(crate) fn grace_ms(&self, alive_at_ms: u64) -> u64 {
        let since = self.past.iter().filter(|pause| pause.began_ms >= alive_at_ms);
        since.map(|pause| pause.lasted_ms).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_heard_of_before_a_pause_gets_its_length() {
        let mut pauses = Pauses::new(1_000);
        pauses.look(1_100, 0);
        pauses.look(21_200, 20_000);
        let graces = [900, 1_100, 1_101, 21_150, 30_000].map(|heard| pauses.grace_ms(heard));
        assert_eq!(graces, [20_000, 20_000, 0, 0, 0]);
        pauses.look(24_300, 3_000);
        assert_eq!(
            [900, 1_150, 21_200, 21_201].map(|heard| pauses.grace_ms(heard)),
            [23_000, 3_000, 3_000, 0]
        );
    }

    #[test]
    fn old_pauses_are_forgotten_and_their_number_stays_bounded() {
        let mut pauses = Pauses::new(0);
        let mut now_ms = 0;
        for _ in 0..100_000 {
            now_ms += 1_200;
            pauses.look(now_ms, 1_100);
        }
        assert!(pauses.past.len() <= 2_000, "{}", pauses.past.len());
        for _ in 0..60_000 {
            now_ms += 100;
            pauses.look(now_ms, 0);
        }
        assert!(pauses.past.is_empty());
    }
}
