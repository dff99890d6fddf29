//! Lets something be told once in a while, however often it happens, and counts what was not told.
//!
//! One thread; the caller brings the time.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub struct LogLimit {
    interval: Duration,
    told_at: Cell<Option<Instant>>,
    untold: Cell<u64>,
}

impl LogLimit {
    /// Lets through one in each interval.
    pub const fn new(interval: Duration) -> Self {
        Self { interval, told_at: Cell::new(None), untold: Cell::new(0) }
    }

    /// Whether what happens now is to be told, and how often it has happened untold since the last.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let rests = self.told_at.get().is_some_and(|at| now.duration_since(at) < self.interval);
        if rests {
            self.untold.set(self.untold.get().saturating_add(1));
            return None;
        }
        self.told_at.set(Some(now));
        Some(self.untold.replace(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_an_interval_is_told_with_the_number_of_those_before() {
        let limit = LogLimit::new(Duration::from_secs(1));
        let start = Instant::now();
        let at = |ms| limit.admit(start + Duration::from_millis(ms));
        assert_eq!([at(0), at(1), at(999)], [Some(0), None, None]);
        assert_eq!([at(1000), at(1500), at(5000)], [Some(2), None, Some(1)]);
        assert_eq!(at(9000), Some(0));
    }
}
