//! Histograms of durations with fixed bounds. The bounds are those of APISIX, so that its
//! dashboards work unchanged.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds of the buckets in milliseconds; a further bucket holds all longer durations.
pub const BOUNDS_MS: [u64; 15] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

/// Number of buckets, including the one without a bound.
pub const BUCKETS: usize = BOUNDS_MS.len() + 1;

/// A histogram with a single writer.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Histogram {
    #[inline]
    pub fn observe_us(&self, duration_us: u64) {
        let bucket = &self.buckets[bucket_of(duration_us)];
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
        self.sum_us.store(self.sum_us.load(Relaxed).wrapping_add(duration_us), Relaxed);
    }

    pub fn totals(&self) -> Totals {
        Totals {
            buckets: std::array::from_fn(|index| self.buckets[index].load(Relaxed)),
            sum_us: self.sum_us.load(Relaxed),
        }
    }
}

/// A histogram that any thread may write.
#[derive(Debug, Default)]
pub struct SharedHistogram(Histogram);

impl SharedHistogram {
    pub fn observe_us(&self, duration_us: u64) {
        self.0.buckets[bucket_of(duration_us)].fetch_add(1, Relaxed);
        self.0.sum_us.fetch_add(duration_us, Relaxed);
    }

    pub fn totals(&self) -> Totals {
        self.0.totals()
    }
}

/// Counts of one or more histograms, summed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Durations in each bucket, not cumulative.
    pub buckets: [u64; BUCKETS],
    /// Sum of all durations, in microseconds.
    pub sum_us: u64,
}

impl Totals {
    pub fn add(&mut self, other: &Totals) {
        for (bucket, seen) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket = bucket.wrapping_add(seen);
        }
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
    }
}

/// Returns the bucket of a duration. Linear search, because nearly all durations fall into the
/// first buckets.
#[inline]
fn bucket_of(duration_us: u64) -> usize {
    BOUNDS_MS.iter().position(|bound_ms| duration_us <= bound_ms * 1_000).unwrap_or(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_whose_bound_it_does_not_pass() {
        let table = [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (4_999, 2),
            (60_000_000, 14),
            (60_000_001, 15),
            (u64::MAX, 15),
        ];
        for (duration_us, expected) in table {
            assert_eq!(bucket_of(duration_us), expected, "{duration_us}");
        }
    }

    #[test]
    fn totals_of_two_histograms_add_up() {
        let core = Histogram::default();
        core.observe_us(500);
        core.observe_us(1_500);
        let shared = SharedHistogram::default();
        shared.observe_us(700);
        let mut totals = core.totals();
        totals.add(&shared.totals());
        assert_eq!(totals.buckets[..3], [2, 1, 0]);
        assert_eq!(totals.sum_us, 2_700);
    }
}
