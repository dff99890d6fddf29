//! Pauses of this very process: stopped, starved, or the machine asleep. Nobody's beats were heard
//! while it lasted, so that silence during a pause is nobody's fault.
//!
//! Known of a pause are the last look before it, when the next one was due, and when that came. It began
//! at some time in between. Who was last heard of before the look was due gets all that could have been
//! pause, which is an interval of looks too much at most; who was heard of since, on a thread that woke
//! up earlier, needs nothing.

use std::collections::VecDeque;

use crate::clock::milliseconds;
use crate::limits::{LOOK_INTERVAL, TTL_SECONDS_MAX, TTLS_TO_EXPIRY};

/// The longest expiry.
const LONGEST_MS: u64 = TTL_SECONDS_MAX as u64 * TTLS_TO_EXPIRY * 1_000;

/// Pauses that are remembered. On a machine that is starved of its cores every look is late; who was
/// silent through so many, of more than a second each, has been silent for longer than the longest expiry.
const PAUSES_MAX: usize = 256;

/// Pauses that still matter to somebody; see the module.
#[derive(Debug)]
pub(crate) struct Pauses {
    /// The last look.
    looked_at_ms: u64,
    past: VecDeque<Pause>,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    /// The last look before it.
    looked_at_ms: u64,
    /// When the next one was due.
    due_at_ms: u64,
    /// When that came.
    ended_ms: u64,
}

impl Pause {
    /// The time to add for one that was last heard of then.
    fn grace_ms(self, alive_at_ms: u64) -> u64 {
        if alive_at_ms > self.due_at_ms {
            return 0;
        }
        self.ended_ms - alive_at_ms.max(self.looked_at_ms)
    }
}

impl Pauses {
    /// None yet.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { looked_at_ms: now_ms, past: VecDeque::new() }
    }

    /// Takes note of a look that came so much later than it was due; most come in time.
    pub(crate) fn look(&mut self, now_ms: u64, late_ms: u64) {
        let looked_at_ms = self.looked_at_ms;
        if late_ms > 0 {
            // By two clocks: never before the last look.
            let due_at_ms = now_ms.saturating_sub(late_ms).max(looked_at_ms);
            if self.past.len() == PAUSES_MAX {
                self.past.pop_front();
            }
            self.past.push_back(Pause { looked_at_ms, due_at_ms, ended_ms: now_ms });
        }
        self.looked_at_ms = now_ms;
        // Whoever was heard of before the first of them has expired by now in spite of all of them.
        while let Some(first) = self.past.front()
            && first.due_at_ms + LONGEST_MS + self.grace_ms(0) + 2 * milliseconds(LOOK_INTERVAL)
                < now_ms
        {
            self.past.pop_front();
        }
    }

    /// What time to add for one that was last heard of then.
    pub(crate) fn grace_ms(&self, alive_at_ms: u64) -> u64 {
        self.past.iter().map(|pause| pause.grace_ms(alive_at_ms)).sum()
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
        let graces = [900, 1_100, 1_150, 1_200, 1_201, 21_150, 30_000];
        let graces = graces.map(|heard| pauses.grace_ms(heard));
        assert_eq!(graces, [20_100, 20_100, 20_050, 20_000, 0, 0, 0]);
        pauses.look(24_300, 3_000);
        let graces = [900, 1_201, 21_200, 21_201, 21_301].map(|heard| pauses.grace_ms(heard));
        assert_eq!(graces, [23_200, 3_100, 3_100, 3_099, 0]);
    }

    #[test]
    fn old_pauses_are_forgotten_and_their_number_stays_bounded() {
        let mut pauses = Pauses::new(0);
        let mut now_ms = 0;
        for _ in 0..100_000 {
            now_ms += 1_200;
            pauses.look(now_ms, 1_100);
        }
        assert_eq!(pauses.past.len(), PAUSES_MAX);
        assert!(pauses.grace_ms(0) > LONGEST_MS);
        for _ in 0..60_000 {
            now_ms += 100;
            pauses.look(now_ms, 0);
        }
        assert!(pauses.past.is_empty());
    }
}
