//! Waits between retries: doubled after each failure, with jitter so that processes that failed
//! together do not retry together.

use std::time::Duration;

use crate::random::Random;

/// First wait, short so that momentary failures cost little.
const FIRST: Duration = Duration::from_millis(100);

/// Default longest wait, which bounds the delay until recovery is noticed.
const LONGEST: Duration = Duration::from_secs(10);

/// Sequence of waits, each about twice as long as the one before.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
    random: Random,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::up_to(LONGEST)
    }
}

impl Backoff {
    /// Creates a sequence with a given longest wait, for callers that need faster recovery.
    pub fn up_to(longest: Duration) -> Self {
        Self { next: FIRST.min(longest), longest, random: Random::from_process_entropy() }
    }

    /// Returns the next wait: a random duration between half and all of the current step.
    pub fn next_wait(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        let half_ms = u64::try_from(whole.as_millis() / 2).unwrap_or(u64::MAX);
        whole / 2 + Duration::from_millis(self.random.next_u64() % half_ms.max(1))
    }

    /// Restarts the sequence after a success.
    pub fn reset(&mut self) {
        self.next = FIRST.min(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_begin_anew() {
        let soon = Duration::from_secs(2);
        for (mut backoff, longest) in [(Backoff::default(), LONGEST), (Backoff::up_to(soon), soon)]
        {
            let mut whole = FIRST;
            for _ in 0..12 {
                let wait = backoff.next_wait();
                assert!(wait >= whole / 2 && wait < whole, "{wait:?} of {whole:?}");
                whole = (whole * 2).min(longest);
            }
            backoff.reset();
            assert!(backoff.next_wait() < FIRST);
        }
    }
}
