//! How long to wait before something that failed is tried again: twice as long each time, and never
//! exactly as long as another process waits that failed for the same reason.

use std::time::Duration;

use crate::random::Random;

/// The first wait: what fails for an instant costs no more.
const FIRST: Duration = Duration::from_millis(100);

/// The longest wait: what comes back is noticed this soon.
const LONGEST: Duration = Duration::from_secs(10);

/// A row of waits.
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
    /// One whose waits are no longer than this, where somebody waits for what comes back.
    pub fn up_to(longest: Duration) -> Self {
        Self { next: FIRST.min(longest), longest, random: Random::from_process_entropy() }
    }

    /// The next wait: between half and the whole of what the row has come to.
    pub fn next_wait(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        let half_ms = u64::try_from(whole.as_millis() / 2).unwrap_or(u64::MAX);
        whole / 2 + Duration::from_millis(self.random.next_u64() % half_ms.max(1))
    }

    /// What was tried has succeeded: the row begins anew.
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
