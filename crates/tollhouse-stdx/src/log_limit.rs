//! Lets something be logged once in a while, however often it happens, and counts what was not.
//!
//! One thread; the caller brings the time.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub struct LogLimit {
    interval: Duration,
    logged_at: Cell<Option<Instant>>,
    suppressed: Cell<u64>,
}

impl LogLimit {
    /// Lets through one in each interval.
    pub const fn new(interval: Duration) -> Self {
        Self { interval, logged_at: Cell::new(None), suppressed: Cell::new(0) }
    }

    /// Whether what happens now is to be logged; if so, how often it was not since the last time.
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
