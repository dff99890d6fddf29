//! Native histograms of Prometheus: exponential buckets, of which only those in use are listed.
//!
//! Source: Prometheus' specification of native histograms, and `io.prometheus.client.Histogram`.

use super::layout::{BUCKETS, NATIVE_LAST, NATIVE_OF};

/// Schema of the buckets: bucket `i` ends at 2^(i/8) seconds.
pub const SCHEMA: i32 = 3;

/// Bound of the zero bucket, the last native bound below a millisecond. Durations below a
/// millisecond count in the zero bucket.
pub const ZERO_THRESHOLD_S: f64 = 1.0 / 1024.0;

/// Empty buckets that are listed instead of starting a new span, as Prometheus' own clients do.
const GAP_MAX: i32 = 2;

/// The eighth roots of two.
const FRACTIONS: [f64; 8] = [
    1.0,
    1.090_507_732_665_257_7,
    1.189_207_115_002_721,
    1.296_839_554_651_009_6,
    std::f64::consts::SQRT_2,
    1.542_210_825_407_940_7,
    1.681_792_830_507_429,
    1.834_008_086_409_342_4,
];

/// Longest duration of a native bucket in whole milliseconds.
pub(super) const fn native_last_ms(index: i32) -> u64 {
    let scaled = 1_000.0 * FRACTIONS[index.rem_euclid(8) as usize];
    let octave = index.div_euclid(8);
    let power = (1u64 << octave.unsigned_abs()) as f64;
    (if octave < 0 { scaled / power } else { scaled * power }) as u64
}

/// Native bucket of a duration above 0.
pub(super) const fn native_index_of(duration_ms: u64) -> i32 {
    let mut index = -80;
    while index < NATIVE_LAST && native_last_ms(index) < duration_ms {
        index += 1;
    }
    index
}

/// A run of consecutive buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Distance from the end of the previous span; of the first span, the index of its bucket.
    pub offset: i32,
    pub length: u32,
}

/// Buckets of a native histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NativeBuckets {
    pub zero_count: u64,
    pub spans: Vec<Span>,
    /// Counts of the buckets of all spans, each as its difference to the one before.
    pub deltas: Vec<i64>,
}

impl NativeBuckets {
    pub(super) fn new(counts: &[u64; BUCKETS]) -> Self {
        let mut native = Self { zero_count: counts[0], ..Self::default() };
        let (mut next, mut previous) = (0, 0);
        let mut at = 1;
        while at < BUCKETS {
            let index = NATIVE_OF[at];
            let mut count = 0u64;
            while at < BUCKETS && NATIVE_OF[at] == index {
                count = count.wrapping_add(counts[at]);
                at += 1;
            }
            if count == 0 {
                continue;
            }
            let gap = index - next;
            match native.spans.last_mut() {
                Some(span) if gap <= GAP_MAX => {
                    for _ in 0..gap {
                        native.deltas.push(-previous);
                        previous = 0;
                    }
                    span.length += gap.unsigned_abs() + 1;
                }
                _ => native.spans.push(Span { offset: gap, length: 1 }),
            }
            let count = count.cast_signed();
            native.deltas.push(count - previous);
            (next, previous) = (index + 1, count);
        }
        native
    }
}

#[cfg(test)]
mod tests {
    use crate::histogram::{Histogram, Totals};

    use super::*;

    fn native(durations_ms: &[u64]) -> NativeBuckets {
        let histogram = Histogram::default();
        durations_ms.iter().for_each(|ms| histogram.observe_ms(*ms));
        let mut totals = Totals::default();
        histogram.add_to(&mut totals);
        totals.native()
    }

    #[test]
    fn bounds_are_powers_of_the_eighth_root_of_two() {
        for (index, expected) in [(-80, 0), (-79, 1), (-8, 500), (0, 1_000), (1, 1_090), (8, 2_000)]
        {
            assert_eq!(native_last_ms(index), expected, "{index}");
        }
        for (ms, expected) in [(1, -79), (500, -8), (501, -7), (1_000, 0), (1_091, 2)] {
            assert_eq!(native_index_of(ms), expected, "{ms}");
        }
    }

    #[test]
    fn buckets_in_use_are_listed_as_spans_and_differences() {
        assert_eq!(native(&[]), NativeBuckets::default());
        let spans = |spans: &[(i32, u32)]| -> Vec<Span> {
            spans.iter().map(|(offset, length)| Span { offset: *offset, length: *length }).collect()
        };
        let one = native(&[0, 0, 1_000, 1_000, 1_090]);
        assert_eq!((one.zero_count, one.spans), (2, spans(&[(0, 2)])));
        assert_eq!(one.deltas, [2, -1]);
        let near = native(&[1_000, 1_250]);
        assert_eq!((near.spans, near.deltas), (spans(&[(0, 4)]), vec![1, -1, 0, 1]));
        let far = native(&[500, 4_000]);
        assert_eq!((far.spans, far.deltas), (spans(&[(-8, 1), (23, 1)]), vec![1, 0]));
    }
}
