//! Histograms of durations, which are whole milliseconds, the resolution of a core's clock.
//!
//! The buckets are fine enough for three readers: the classic bounds of APISIX, so that its
//! dashboards work unchanged; the exponential buckets of Prometheus' native histograms with schema
//! 3, where a bound is at most 9 % above the one before; and quantiles for the console. Each bucket
//! belongs to exactly one classic and one native bucket. A single writer pays a look-up in a table
//! and two additions.

mod layout;
mod native;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use self::layout::{BOUNDS_MS, BUCKETS, CLASSIC_BUCKETS};
pub use self::native::{NativeBuckets, SCHEMA, Span, ZERO_THRESHOLD_S};

use self::layout::{CLASSIC_OF, bucket_of, last_of};

/// A duration with its bucket, which is looked up once and counted in several histograms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    ms: u64,
    bucket: usize,
}

impl Observation {
    #[inline]
    pub fn from_ms(ms: u64) -> Self {
        Self { ms, bucket: bucket_of(ms) }
    }

    #[inline]
    pub fn ms(self) -> u64 {
        self.ms
    }

    /// Index of the classic bucket.
    pub(crate) fn classic_bucket(self) -> usize {
        usize::from(CLASSIC_OF[self.bucket])
    }
}

/// A histogram with a single writer.
#[derive(Debug)]
#[repr(C)]
pub struct Histogram {
    sum_ms: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { sum_ms: AtomicU64::new(0), buckets: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Histogram {
    #[inline]
    pub fn observe(&self, observation: Observation) {
        let bucket = &self.buckets[observation.bucket];
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
        self.sum_ms.store(self.sum_ms.load(Relaxed).wrapping_add(observation.ms), Relaxed);
    }

    #[inline]
    pub fn observe_ms(&self, duration_ms: u64) {
        self.observe(Observation::from_ms(duration_ms));
    }

    /// Adds the counts to `totals`.
    pub fn add_to(&self, totals: &mut Totals) {
        for (sum, bucket) in totals.buckets.iter_mut().zip(&self.buckets) {
            *sum = sum.wrapping_add(bucket.load(Relaxed));
        }
        let sum_us = self.sum_ms.load(Relaxed).wrapping_mul(1_000);
        totals.sum_us = totals.sum_us.wrapping_add(sum_us);
    }
}

/// A histogram of the same shape whose values are printed in milliseconds, for ShenYu's names.
#[derive(Debug, Default)]
pub struct MillisecondHistogram(Histogram);

impl MillisecondHistogram {
    #[inline]
    pub fn observe(&self, observation: Observation) {
        self.0.observe(observation);
    }

    pub(crate) fn add_to(&self, totals: &mut Totals) {
        self.0.add_to(totals);
    }
}

/// A histogram that any thread may write.
#[derive(Debug)]
pub struct SharedHistogram {
    sum_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for SharedHistogram {
    fn default() -> Self {
        Self { sum_us: AtomicU64::new(0), buckets: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl SharedHistogram {
    pub fn observe_us(&self, duration_us: u64) {
        let bucket = bucket_of(duration_us.div_ceil(1_000));
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(duration_us, Relaxed);
    }

    /// Adds the counts to `totals`.
    pub fn add_to(&self, totals: &mut Totals) {
        for (sum, bucket) in totals.buckets.iter_mut().zip(&self.buckets) {
            *sum = sum.wrapping_add(bucket.load(Relaxed));
        }
        totals.sum_us = totals.sum_us.wrapping_add(self.sum_us.load(Relaxed));
    }
}

/// Counts of one or more histograms, summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Durations in each bucket, not cumulative.
    buckets: [u64; BUCKETS],
    /// Sum of all durations, in microseconds.
    pub sum_us: u64,
}

impl Default for Totals {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sum_us: 0 }
    }
}

impl Totals {
    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Durations in each classic bucket, not cumulative; the last one has no bound.
    pub fn classic(&self) -> [u64; CLASSIC_BUCKETS] {
        let mut classic = [0u64; CLASSIC_BUCKETS];
        for (count, place) in self.buckets.iter().zip(CLASSIC_OF) {
            let sum = &mut classic[usize::from(place)];
            *sum = sum.wrapping_add(*count);
        }
        classic
    }

    /// The buckets of a native histogram of seconds.
    pub fn native(&self) -> NativeBuckets {
        NativeBuckets::new(&self.buckets)
    }

    /// Counts since `earlier`, a previous reading of these histograms.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            buckets: std::array::from_fn(|index| {
                self.buckets[index].wrapping_sub(earlier.buckets[index])
            }),
            sum_us: self.sum_us.wrapping_sub(earlier.sum_us),
        }
    }

    /// Duration in milliseconds that `per_mille` of a thousand durations did not exceed, rounded up
    /// to the end of its bucket; `None` without durations.
    pub fn quantile_ms(&self, per_mille: u64) -> Option<u64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = (total * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        let place = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        place.map(last_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(histogram: &Histogram) -> Totals {
        let mut totals = Totals::default();
        histogram.add_to(&mut totals);
        totals
    }

    #[test]
    fn totals_of_two_histograms_add_up() {
        let core = Histogram::default();
        core.observe_ms(1);
        core.observe_ms(2);
        let shared = SharedHistogram::default();
        shared.observe_us(700);
        shared.observe_us(1_001);
        let mut totals = totals(&core);
        shared.add_to(&mut totals);
        assert_eq!(totals.classic()[..3], [2, 2, 0]);
        assert_eq!((totals.sum_us, totals.count()), (4_701, 4));
    }

    #[test]
    fn quantiles_count_requests_and_not_buckets() {
        let histogram = Histogram::default();
        (0..98).for_each(|_| histogram.observe_ms(3));
        histogram.observe_ms(20);
        histogram.observe_ms(500);
        let totals = totals(&histogram);
        for (per_mille, expected) in [(0, 3), (500, 3), (980, 3), (990, 20), (1000, 500)] {
            assert_eq!(totals.quantile_ms(per_mille), Some(expected), "{per_mille}");
        }
        assert_eq!(totals.since(&totals).quantile_ms(500), None);
    }

    #[test]
    fn what_came_since_a_reading_is_the_difference() {
        let histogram = Histogram::default();
        histogram.observe_ms(1);
        let before = totals(&histogram);
        histogram.observe_ms(9);
        let since = totals(&histogram).since(&before);
        assert_eq!((since.quantile_ms(0), since.sum_us), (Some(9), 9_000));
    }
}
