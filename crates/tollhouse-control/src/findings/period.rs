//! Counts of the last minute or two, out of counts since the start.

use std::collections::HashMap;
use std::hash::Hash;

/// Interval after which the start of the period moves; the period has one to two of them.
pub(super) const MARK_MS: u64 = 60_000;

/// Counts at the last two marks, the older first.
#[derive(Debug)]
pub(super) struct Period<K> {
    marks: [HashMap<K, u64>; 2],
    /// Counts of everything at these marks.
    totals: [u64; 2],
    marked_ms: u64,
}

impl<K> Default for Period<K> {
    fn default() -> Self {
        Self { marks: [HashMap::new(), HashMap::new()], totals: [0; 2], marked_ms: 0 }
    }
}

impl<K: Eq + Hash> Period<K> {
    /// Count at the start of the period.
    pub(super) fn before(&self, key: &K) -> u64 {
        self.marks[0].get(key).copied().unwrap_or(0)
    }

    /// Count of the period, given that since the start of the process. A count that fell belongs to
    /// a kind that was dropped meanwhile.
    pub(super) fn new_of(&self, key: &K, count: u64) -> u64 {
        count.checked_sub(self.before(key)).unwrap_or(count)
    }

    /// Count of everything in the period, given that since the start of the process.
    pub(super) fn new_of_all(&self, total: u64) -> u64 {
        total.saturating_sub(self.totals[0])
    }

    /// Sets a mark if one is due.
    pub(super) fn mark(&mut self, now_ms: u64, total: u64, counts: impl Iterator<Item = (K, u64)>) {
        if now_ms < self.marked_ms + MARK_MS {
            return;
        }
        let [_, newer] = std::mem::take(&mut self.marks);
        self.marks = [newer, counts.collect()];
        self.totals = [self.totals[1], total];
        self.marked_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_one_to_two_minutes() {
        let mut period = Period::default();
        for (now_ms, count, expected) in [
            (MARK_MS, 5, 5),
            (MARK_MS + 1, 6, 6),
            (2 * MARK_MS, 7, 7),
            // The first mark is the start.
            (3 * MARK_MS - 1, 9, 4),
            (3 * MARK_MS, 9, 4),
            (3 * MARK_MS + 1, 9, 2),
            // A kind that was dropped begins anew.
            (3 * MARK_MS + 2, 1, 1),
        ] {
            assert_eq!(period.new_of(&"a", count), expected, "{now_ms}");
            period.mark(now_ms, count, std::iter::once(("a", count)));
        }
        assert_eq!(period.new_of_all(10), 3);
    }
}
