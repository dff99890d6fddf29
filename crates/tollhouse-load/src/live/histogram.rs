//! Coarse histogram: times in steps of 1, 2, 5, 10, … as bars.

use hdrhistogram::Histogram;

use crate::report::figure;

/// Maximum number of bars in the histogram.
pub(super) const BARS_MAX: usize = 10;

/// Bar of the histogram, with the share (0 to 1) of the times between the previous bar's edge and
/// this bar's.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) share: f64,
}

/// Returns at most `count_max` bars, shortest times first; none if the histogram is empty. If the
/// times span more steps, the first bar collects all shorter ones.
pub(super) fn bars(histogram: &Histogram<u64>, count_max: usize) -> Vec<Bar> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let edges = edges(histogram.min(), histogram.max(), count_max);
    let mut from = 0;
    let mut bars = Vec::with_capacity(edges.len());
    for edge in edges {
        let count = histogram.count_between(from, edge.saturating_sub(1));
        from = edge;
        let label = format!("< {}", short(edge));
        bars.push(Bar { label, share: count as f64 / histogram.len() as f64 });
    }
    bars
}

/// Returns the upper edges of the bars, from the shortest to the longest time.
fn edges(min_ns: u64, max_ns: u64, count_max: usize) -> Vec<u64> {
    let mut edges = Vec::new();
    let mut decade = 100_u64;
    'all: while let Some(next) = decade.checked_mul(10) {
        for factor in [1, 2, 5] {
            let edge = decade.saturating_mul(factor);
            if edge > min_ns {
                edges.push(edge);
            }
            if edge > max_ns {
                break 'all;
            }
        }
        decade = next;
    }
    let surplus = edges.len().saturating_sub(count_max);
    edges.split_off(surplus)
}

/// Formats an edge, such as `500 µs`, `2 ms` or `10 s`. Edges need no decimals.
fn short(nanoseconds: u64) -> String {
    match nanoseconds {
        value if value < 1_000 => format!("{value} ns"),
        value if value < 1_000_000 => format!("{} µs", value / 1_000),
        value if value < 1_000_000_000 => format!("{} ms", value / 1_000_000),
        value => format!("{} s", figure::count(value / 1_000_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::histogram;

    fn drawn(values: &[u64]) -> Vec<String> {
        let mut histogram = histogram();
        for value in values {
            histogram.saturating_record(*value);
        }
        let show = |bar: Bar| format!("{} {:.2}", bar.label, bar.share);
        bars(&histogram, BARS_MAX).into_iter().map(show).collect()
    }

    #[test]
    fn bars_hold_all_times_between_the_shortest_and_the_longest() {
        assert!(drawn(&[]).is_empty());
        let values = [1_200_000, 1_900_000, 3_000_000, 12_000_000];
        let expected = ["< 2 ms 0.50", "< 5 ms 0.25", "< 10 ms 0.00", "< 20 ms 0.25"];
        assert_eq!(drawn(&values), expected);
    }

    #[test]
    fn a_wide_spread_keeps_its_long_end() {
        let bars = drawn(&[1_000, 1_500, 90_000_000_000]);
        assert_eq!(bars.len(), BARS_MAX);
        assert_eq!(bars[0], "< 100 ms 0.67");
        assert_eq!(bars[9], "< 100 s 0.33");
    }
}
