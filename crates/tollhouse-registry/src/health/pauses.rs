//! Pauses of this process: stopped, starved of CPU, or the machine asleep. Heartbeats could not be
//! received meanwhile, so that silence during a pause does not count.
//!
//! Three times are known of a pause: the last look before it, the time at which the next look was
//! due, and the time at which that look happened. The pause began between the first two. An
//! instance last heard of before the due time is granted everything that may have been pause, which
//! is at most one look interval too much. An instance heard of later, by a thread that woke
//! earlier, needs no grace.

use std::collections::VecDeque;

use crate::clock::milliseconds;
use crate::limits::{LOOK_INTERVAL, TTL_SECONDS_MAX, TTLS_TO_EXPIRY};

const LONGEST_MS: u64 = TTL_SECONDS_MAX as u64 * TTLS_TO_EXPIRY * 1_000;

/// Maximum number of pauses kept. Each takes more than a second, so that so many add up to more
/// than the longest expiry even where every look is late.
const PAUSES_MAX: usize = 256;

/// Pauses that may still delay an expiry; see the module.
#[derive(Debug)]
pub(crate) struct Pauses {
    looked_at_ms: u64,
    past: VecDeque<Pause>,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    /// Time of the last check before the pause, in milliseconds.
    looked_at_ms: u64,
    /// Time at which the next look was due.
    due_at_ms: u64,
    /// Time at which that look happened.
    ended_ms: u64,
}

impl Pause {
    /// Returns the silence, in milliseconds, that is not counted for an instance that was last
    /// heard of at `alive_at_ms`.
    fn grace_ms(self, alive_at_ms: u64) -> u64 {
        if alive_at_ms > self.due_at_ms {
            return 0;
        }
        self.ended_ms - alive_at_ms.max(self.looked_at_ms)
    }
}

impl Pauses {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { looked_at_ms: now_ms, past: VecDeque::new() }
    }

    /// Records a look that happened `late_ms` after it was due; usually 0.
    pub(crate) fn look(&mut self, now_ms: u64, late_ms: u64) {
        let looked_at_ms = self.looked_at_ms;
        if late_ms > 0 {
            // The two times are of different clocks, so that the due time must be kept behind the
            // last look.
            let due_at_ms = now_ms.saturating_sub(late_ms).max(looked_at_ms);
            if self.past.len() == PAUSES_MAX {
                self.past.pop_front();
            }
            self.past.push_back(Pause { looked_at_ms, due_at_ms, ended_ms: now_ms });
        }
        self.looked_at_ms = now_ms;
        // Instances heard of before the oldest pause have expired by now, even with the grace of
        // all pauses.
        while let Some(first) = self.past.front()
            && first.due_at_ms + LONGEST_MS + self.grace_ms(0) + 2 * milliseconds(LOOK_INTERVAL)
                < now_ms
        {
            self.past.pop_front();
        }
    }

    /// Returns the silence, in milliseconds and over all pauses, that is not counted for an
    /// instance that was last heard of at `alive_at_ms`.
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
