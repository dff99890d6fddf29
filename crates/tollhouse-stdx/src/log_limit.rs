//! Rate limit for log messages: admits one per interval and counts the suppressed ones.
//!
//! Single-threaded; the time is a parameter.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A rate limit for log messages; see the module.
#[derive(Debug)]
pub struct LogLimit {
    interval: Duration,
    logged_at: Cell<Option<Instant>>,
    suppressed: Cell<u64>,
}

impl LogLimit {
    /// Creates a limit that admits one message per interval.
    pub const fn new(interval: Duration) -> Self {
        Self { interval, logged_at: Cell::new(None), suppressed: Cell::new(0) }
    }

    /// Returns the number of suppressed messages since the last admitted one if a message may be
    /// logged now; `None` if it must be suppressed.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let rests = self.logged_at.get().is_some_and(|at| now.duration_since(at) < self.interval);
        if rests {
            self.suppressed.set(self.suppressed.get().saturating_add(1));
            return None;
        }
        self.logged_at.set(Some(now));
        Some(self.suppressed.replace(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_an_interval_is_logged_with_the_number_of_those_before() {
        let limit = LogLimit::new(Duration::from_secs(1));
        let start = Instant::now();
        let at = |ms| limit.admit(start + Duration::from_millis(ms));
        assert_eq!([at(0), at(1), at(999)], [Some(0), None, None]);
        assert_eq!([at(1000), at(1500), at(5000)], [Some(2), None, Some(1)]);
        assert_eq!(at(9000), Some(0));
    }
}
