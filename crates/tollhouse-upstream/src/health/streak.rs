//! Failures of a node without an answer between them. They are counted for every node, with and
//! without health checks, and change nothing: operators are told of a node that fails.
//!
//! Only failures write, and the first answer after them. A request over a connection of HTTP/1.1
//! that served before costs nothing here: connections that fail are closed, so that a node that
//! answers again shows it on a new one. Over HTTP/2, where the others of a connection go on after a
//! stream has failed, each answer costs one read.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Count of failures since the last answer on a new connection, shared by all cores.
#[derive(Debug, Default)]
pub(crate) struct StreakCell {
    failures: AtomicU32,
    since_ms: AtomicU64,
    last_ms: AtomicU64,
}

/// Failures of a node in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureStreak {
    pub failures: u32,
    /// First failure, in milliseconds since 1970.
    pub since_ms: u64,
    /// Latest failure, in milliseconds since 1970.
    pub last_ms: u64,
}

impl StreakCell {
    /// Counts a failure. Cores may interleave; the times are then those of either.
    #[cold]
    pub(crate) fn fail(&self, unix_ms: u64) {
        if self.failures.fetch_add(1, Relaxed) == 0 {
            self.since_ms.store(unix_ms, Relaxed);
        }
        self.last_ms.store(unix_ms, Relaxed);
    }

    /// Ends the row. Writes only after a failure.
    #[cold]
    pub(crate) fn end(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    /// Returns another cell with the same failures.
    pub(crate) fn copy(&self) -> Self {
        let copied = |cell: &AtomicU64| AtomicU64::new(cell.load(Relaxed));
        Self {
            failures: AtomicU32::new(self.failures.load(Relaxed)),
            since_ms: copied(&self.since_ms),
            last_ms: copied(&self.last_ms),
        }
    }

    /// Returns the current streak of failures, if any.
    pub(crate) fn load(&self) -> Option<FailureStreak> {
        let failures = self.failures.load(Relaxed);
        let (since_ms, last_ms) = (self.since_ms.load(Relaxed), self.last_ms.load(Relaxed));
        (failures > 0).then_some(FailureStreak { failures, since_ms, last_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_add_up_until_an_answer_ends_them() {
        let cell = StreakCell::default();
        assert_eq!(cell.load(), None);
        cell.fail(10);
        cell.fail(12);
        cell.fail(15);
        let expected = FailureStreak { failures: 3, since_ms: 10, last_ms: 15 };
        assert_eq!(cell.load(), Some(expected));
        cell.end();
        assert_eq!(cell.load(), None);
        cell.fail(20);
        assert_eq!(cell.load().map(|streak| streak.since_ms), Some(20));
    }
}
