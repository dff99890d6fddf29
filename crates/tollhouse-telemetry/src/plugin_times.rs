//! Time that plugins take, by plugin, on one core. Only some of their runs are timed, so that the
//! clock is seldom read.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::catalogue::PLUGIN_DURATION;
use crate::counters::Counter;
use crate::exposition::{Exposition, HistogramSample, labels};

/// Number of requests among which the plugins of one are timed.
const TIMED_EVERY: u32 = 64;

/// Limit of plugins on a core; further ones are not timed.
const PLUGINS_MAX: usize = 256;

/// Number of buckets with a bound: powers of two from 1 µs to 16.8 s.
const BOUNDS: usize = 25;

/// Turns of requests to be timed, on one core.
#[derive(Debug, Default)]
pub struct TimingTurns(Cell<u32>);

impl TimingTurns {
    /// Whether the plugins of this request are timed.
    #[inline]
    pub fn take(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.checked_sub(1).unwrap_or(TIMED_EVERY - 1));
        left == 0
    }
}

/// Times of one core, which is their only writer.
#[derive(Debug)]
pub struct PluginTimes(Box<[OnceLock<Box<Times>>]>);

/// Histogram of a plugin.
#[derive(Debug, Default)]
struct Times {
    plugin: Box<str>,
    sum_ns: Counter,
    buckets: [Counter; BOUNDS + 1],
}

impl Default for PluginTimes {
    fn default() -> Self {
        Self((0..PLUGINS_MAX).map(|_| OnceLock::new()).collect())
    }
}

impl PluginTimes {
    /// Adds the time of a plugin in one phase. Allocates when a plugin is first timed.
    #[cold]
    pub fn observe(&self, plugin: &str, duration_ns: u64) {
        for times in &self.0 {
            let first = || Box::new(Times { plugin: plugin.into(), ..Times::default() });
            let times = times.get_or_init(first);
            if *times.plugin == *plugin {
                times.sum_ns.add(duration_ns);
                return times.buckets[bucket_of(duration_ns)].increment();
            }
        }
    }

    /// Sums over cores, by plugin.
    pub(crate) fn sums<'a>(cores: impl Iterator<Item = &'a Self>) -> BTreeMap<&'a str, PluginTime> {
        let mut sums = BTreeMap::<_, PluginTime>::new();
        for times in cores.flat_map(|core| core.0.iter().map_while(OnceLock::get)) {
            sums.entry(&*times.plugin).or_default().add(times);
        }
        sums
    }

    /// Writes the sums over all cores to the metrics page.
    pub(crate) fn render<'a>(cores: impl Iterator<Item = &'a Self>, page: &mut Exposition) {
        let bounds: [f64; BOUNDS] = std::array::from_fn(|index| (1_u64 << index) as f64 / 1e6);
        page.family(PLUGIN_DURATION.name, PLUGIN_DURATION.help, PLUGIN_DURATION.kind);
        for (plugin, time) in Self::sums(cores) {
            let sample = HistogramSample {
                bounds: &bounds,
                counts: &time.buckets,
                sum: time.sum_ns as f64 / 1e9,
                native: None,
                exemplars: &[],
            };
            page.histogram(&labels([("plugin", plugin)]), &sample);
        }
    }
}

/// Index of the bucket whose bound is the first that the duration does not exceed.
fn bucket_of(duration_ns: u64) -> usize {
    let us = duration_ns.div_ceil(1_000);
    let bits = u64::BITS - us.saturating_sub(1).leading_zeros();
    (bits as usize).min(BOUNDS)
}

/// Times of a plugin, summed over cores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginTime {
    sum_ns: u64,
    /// Runs in each bucket, not cumulative; the last one has no bound.
    buckets: [u64; BOUNDS + 1],
}

impl PluginTime {
    fn add(&mut self, times: &Times) {
        self.sum_ns = self.sum_ns.wrapping_add(times.sum_ns.value());
        for (sum, bucket) in self.buckets.iter_mut().zip(&times.buckets) {
            *sum = sum.wrapping_add(bucket.value());
        }
    }

    /// Number of runs that were timed.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Mean time of a run in microseconds; `None` without runs.
    pub fn mean_us(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / 1e3 / count as f64)
    }

    /// Microseconds that `per_mille` of a thousand runs did not exceed, rounded up to a power of
    /// two; `None` without runs. Runs above the last bound count with that bound.
    pub fn quantile_us(&self, per_mille: u64) -> Option<u64> {
        let rank = (self.count() * per_mille).div_ceil(1_000).max(1);
        let mut seen = 0;
        let place = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        place.map(|place| 1 << place.min(BOUNDS - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Format;

    #[test]
    fn a_duration_falls_into_the_bucket_whose_bound_it_does_not_exceed() {
        for (ns, bucket) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (2_001, 2),
            (1 << 24, 15),
            ((1 << 24) * 1_000, 24),
            ((1 << 24) * 1_000 + 1, 25),
            (u64::MAX, 25),
        ] {
            assert_eq!(bucket_of(ns), bucket, "{ns}");
        }
    }

    #[test]
    fn times_are_summed_by_plugin_over_all_cores() {
        let (one, other) = (PluginTimes::default(), PluginTimes::default());
        (0..98).for_each(|_| one.observe("key-auth", 900));
        other.observe("key-auth", 5_000);
        other.observe("key-auth", 3_000_000);
        other.observe("cors", 1_500);
        let sums = PluginTimes::sums([&one, &other].into_iter());
        let key_auth = &sums["key-auth"];
        assert_eq!((key_auth.count(), sums["cors"].count()), (100, 1));
        assert_eq!(key_auth.mean_us(), Some(30.932));
        assert_eq!(
            [500, 990, 1_000].map(|rank| key_auth.quantile_us(rank)),
            [1, 8, 4_096].map(Some)
        );
        assert_eq!(
            (PluginTime::default().mean_us(), PluginTime::default().quantile_us(500)),
            (None, None)
        );

        let mut page = Exposition::new(Format::Text);
        PluginTimes::render([&one, &other].into_iter(), &mut page);
        let text = String::from_utf8(page.finish()).expect("text");
        for line in [
            "tollhouse_plugin_duration_seconds_bucket{plugin=\"key-auth\",le=\"0.000001\"} 98",
            "tollhouse_plugin_duration_seconds_bucket{plugin=\"key-auth\",le=\"0.000008\"} 99",
            "tollhouse_plugin_duration_seconds_count{plugin=\"key-auth\"} 100",
            "tollhouse_plugin_duration_seconds_sum{plugin=\"cors\"} 0.0000015",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }

    #[test]
    fn plugins_are_bounded() {
        let times = PluginTimes::default();
        (0..2 * PLUGINS_MAX).for_each(|at| times.observe(&at.to_string(), 1));
        assert_eq!(PluginTimes::sums([&times].into_iter()).len(), PLUGINS_MAX);
    }

    #[test]
    fn one_request_in_some_dozens_is_timed() {
        let turns = TimingTurns::default();
        let taken: Vec<bool> = (0..2 * TIMED_EVERY).map(|_| turns.take()).collect();
        assert_eq!(taken.iter().filter(|it| **it).count(), 2);
        assert!(taken[0] && taken[TIMED_EVERY as usize]);
    }
}
