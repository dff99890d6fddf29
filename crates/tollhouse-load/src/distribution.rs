//! Distributions of times: recorded in HDR histograms and stored in results as recorded values with
//! their counts, so that distributions can be merged later instead of averaging percentiles.
//!
//! Published tables give percentiles only. Such a distribution has percentiles but no values.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Resolution of recorded times in nanoseconds, below the noise of a system call.
const LOWEST_NS: u64 = 100;
/// Largest recordable time in nanoseconds (one hour); longer times are recorded as this value.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Precision of three significant digits, as in wrk2 and the usual HdrHistogram plots.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Percentiles in a result, shown if enough samples lie beyond them.
pub const PERCENTILES: [f64; 12] =
    [10.0, 25.0, 50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999];

/// Creates an empty histogram of times in nanoseconds.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)
        .expect("constant bounds that the histogram accepts")
}

/// Distribution of times, all in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Distribution {
    pub count: u64,
    pub min_ns: u64,
    pub mean_ns: f64,
    pub stdev_ns: f64,
    pub max_ns: u64,
    /// Pairs of percentile (0 to 100) and value, ascending.
    pub percentiles: Vec<(f64, u64)>,
    /// Pairs of recorded value and count, ascending; empty for figures taken from a table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(u64, u64)>,
}

impl Distribution {
    pub fn from_histogram(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let percentile = |percent: f64| (percent, histogram.value_at_quantile(percent / 100.0));
        Self {
            count: histogram.len(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            stdev_ns: histogram.stdev(),
            max_ns: histogram.max(),
            percentiles: PERCENTILES.into_iter().map(percentile).collect(),
            values: histogram
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        }
    }

    /// Rebuilds the histogram; empty if the values are not known.
    pub fn to_histogram(&self) -> Histogram<u64> {
        let mut histogram = histogram();
        for (value, count) in &self.values {
            histogram.saturating_record_n(*value, *count);
        }
        histogram
    }

    /// Returns a percentile (0 to 100), as stored or computed from the values; `None` if it is
    /// unknown.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let given = self.percentiles.iter().find(|(given, _)| (given - percent).abs() < 1e-9);
        if let Some((_, value)) = given {
            return Some(*value);
        }
        if self.values.is_empty() {
            return (percent >= 100.0 && self.max_ns > 0).then_some(self.max_ns);
        }
        let wanted = ((percent / 100.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.values.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        at.map(|(value, _)| *value)
    }

    /// Whether at least `beyond_min` samples lie beyond a percentile, so that it is meaningful.
    pub fn supports(&self, percent: f64, beyond_min: u64) -> bool {
        // The tolerance compensates for rounding: p99.9 of 10,000 samples would have 9.999999…
        // beyond it.
        (100.0 - percent) * self.count as f64 / 100.0 + 1e-6 >= beyond_min as f64
    }

    /// Merges two distributions; counts of equal values are added.
    pub fn merged(&self, other: &Self) -> Self {
        let mut histogram = self.to_histogram();
        for (value, count) in &other.values {
            histogram.saturating_record_n(*value, *count);
        }
        Self::from_histogram(&histogram)
    }

    /// Whether the distribution has neither samples nor figures.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.percentiles.is_empty() && self.mean_ns == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(values: impl IntoIterator<Item = u64>) -> Distribution {
        let mut histogram = histogram();
        for value in values {
            histogram.saturating_record(value);
        }
        Distribution::from_histogram(&histogram)
    }

    #[test]
    fn percentiles_are_exact_to_three_digits() {
        let distribution = recorded((1..=10_000).map(|n| n * 1_000));
        for (percent, expected) in [(50.0, 5_000_000.0), (99.0, 9_900_000.0), (99.9, 9_990_000.0)] {
            let value = distribution.percentile_ns(percent).expect("recorded") as f64;
            assert!((value / expected - 1.0).abs() < 0.001, "p{percent}: {value}");
        }
        assert_eq!(distribution.count, 10_000);
    }

    #[test]
    fn a_merge_is_the_distribution_of_all_values() {
        let whole = recorded((1..=1_000).map(|n| n * 777));
        let halves =
            recorded((1..=500).map(|n| n * 777)).merged(&recorded((501..=1_000).map(|n| n * 777)));
        assert_eq!(halves.count, whole.count);
        assert_eq!(halves.percentile_ns(99.0), whole.percentile_ns(99.0));
    }

    #[test]
    fn a_percentile_is_supported_by_the_samples_beyond_it() {
        for (count, percent, supported) in
            [(10_000, 99.9, true), (9_999, 99.9, false), (1_000, 99.0, true), (100, 99.0, false)]
        {
            let distribution = Distribution { count, ..Distribution::default() };
            assert_eq!(distribution.supports(percent, 10), supported, "p{percent} of {count}");
        }
    }

    #[test]
    fn an_hour_is_the_longest_time() {
        assert!(recorded([u64::MAX]).max_ns >= HIGHEST_NS);
    }

    #[test]
    fn a_published_table_answers_only_what_it_gives() {
        let table = Distribution {
            percentiles: vec![(50.0, 15_770_000), (99.0, 80_310_000)],
            max_ns: 852_060_000,
            ..Distribution::default()
        };
        assert_eq!(table.percentile_ns(50.0), Some(15_770_000));
        assert_eq!(table.percentile_ns(95.0), None);
        assert_eq!(table.percentile_ns(100.0), Some(852_060_000));
    }
}
