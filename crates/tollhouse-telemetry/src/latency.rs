//! Latency histograms for the console, finer than those of the metrics page, so that a p99 is
//! meaningful.
//!
//! Log-linear, like HDR histograms: each power of two is divided into [`STEPS`] equal parts, so
//! that a reported value is at most 1/16 above the measured one. A single writer pays a load, an
//! addition and a store.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of buckets for each power of two.
const STEPS: u64 = 16;

/// Bound below which each bucket covers one millisecond, the resolution of a core's clock.
const EXACT_MS: u64 = 2 * STEPS;

/// Powers of two above [`EXACT_MS`], up to 131 seconds. Slower requests count in the last bucket.
const OCTAVES: u64 = 12;

/// Number of buckets of a histogram.
pub const BUCKETS: usize = (EXACT_MS + OCTAVES * STEPS) as usize;

/// Latency histogram with a single writer.
#[derive(Debug)]
pub struct Latencies([AtomicU64; BUCKETS]);

impl Default for Latencies {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Latencies {
    #[inline]
    pub fn observe_ms(&self, latency_ms: u64) {
        let bucket = &self.0[bucket_of(latency_ms)];
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// Counts of one or more latency histograms, summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyCounts([u64; BUCKETS]);

impl Default for LatencyCounts {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl LatencyCounts {
    /// Adds the counts of a histogram.
    pub fn add(&mut self, latencies: &Latencies) {
        for (count, bucket) in self.0.iter_mut().zip(&latencies.0) {
            *count = count.wrapping_add(bucket.load(Relaxed));
        }
    }

    /// Counts since `earlier`, a previous reading of these histograms.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index].wrapping_sub(earlier.0[index])))
    }

    /// Returns the latency in milliseconds that `per_mille` of a thousand requests did not exceed,
    /// rounded up to the end of its bucket; `None` without requests.
    pub fn quantile_ms(&self, per_mille: u64) -> Option<u64> {
        let total: u64 = self.0.iter().sum();
        if total == 0 {
            return None;
        }
        let rank = (total * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        let place = self.0.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        place.map(last_of)
    }
}

/// Returns the index of the bucket of a latency.
#[inline]
fn bucket_of(latency_ms: u64) -> usize {
    if latency_ms < EXACT_MS {
        return latency_ms as usize;
    }
    let exponent = u64::from(latency_ms.ilog2());
    let octave = exponent - u64::from(EXACT_MS.ilog2());
    let step = (latency_ms >> (exponent - u64::from(STEPS.ilog2()))) - STEPS;
    ((EXACT_MS + octave * STEPS + step) as usize).min(BUCKETS - 1)
}

/// Returns the largest latency of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT_MS {
        return bucket;
    }
    let (octave, step) = ((bucket - EXACT_MS) / STEPS, (bucket - EXACT_MS) % STEPS);
    // Twice the bucket width of the octave below, which ends at EXACT_MS.
    let width = 2 << octave;
    (STEPS + step + 1) * width - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_read_back_at_most_a_sixteenth_above() {
        for latency in (0..200).chain([255, 256, 511, 512, 999, 1_000, 4_095, 60_000, 131_071]) {
            let read = last_of(bucket_of(latency));
            assert!(read >= latency && read - latency <= latency / 16, "{latency} reads {read}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(last_of(BUCKETS - 1), 131_071);
    }

    #[test]
    fn quantiles_count_requests_and_not_buckets() {
        let latencies = Latencies::default();
        (0..98).for_each(|_| latencies.observe_ms(3));
        latencies.observe_ms(20);
        latencies.observe_ms(500);
        let mut counts = LatencyCounts::default();
        counts.add(&latencies);
        for (per_mille, expected) in [(0, 3), (500, 3), (980, 3), (990, 20), (1000, 511)] {
            assert_eq!(counts.quantile_ms(per_mille), Some(expected), "{per_mille}");
        }
        assert_eq!(counts.since(&counts).quantile_ms(500), None);
    }

    #[test]
    fn cores_add_up() {
        let (one, other) = (Latencies::default(), Latencies::default());
        one.observe_ms(1);
        other.observe_ms(9);
        let mut counts = LatencyCounts::default();
        counts.add(&one);
        let before = counts.clone();
        counts.add(&other);
        assert_eq!(counts.quantile_ms(1000), Some(9));
        assert_eq!(counts.since(&before).quantile_ms(0), Some(9));
    }
}
