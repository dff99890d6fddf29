//! Percentile distribution in the format of HdrHistogram's tools (`.hgrm`), as in wrk2's "Detailed
//! Percentile spectrum" and as read by HdrHistogram plotters.
//!
//! Values are in milliseconds. The steps become finer towards 100 %: each halving of the remaining
//! distance is divided into an equal number of ticks.

use std::fmt::Write;

use hdrhistogram::Histogram;

use crate::distribution::Distribution;

/// Ticks per halving of the distance to 100 %, as in wrk2's spectrum.
const TICKS_PER_HALF_DISTANCE: u32 = 5;
/// Nanoseconds per unit of the written values.
const MILLISECOND_NS: f64 = 1e6;

/// Renders the distribution. For table data without recorded values, one line per given percentile.
pub fn text(distribution: &Distribution) -> String {
    let histogram = distribution.to_histogram();
    let mut out = format!(
        "{:>12} {:>12} {:>12} {:>12}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    if histogram.is_empty() {
        given_lines(&mut out, distribution);
    } else {
        recorded_lines(&mut out, &histogram);
    }
    trailer(&mut out, distribution, &histogram);
    out
}

fn recorded_lines(out: &mut String, histogram: &Histogram<u64>) {
    let mut total_count = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total_count += step.count_since_last_iteration();
        line(out, step.value_iterated_to(), step.quantile_iterated_to(), total_count);
    }
}

fn given_lines(out: &mut String, distribution: &Distribution) {
    for (percent, value_ns) in &distribution.percentiles {
        let quantile = percent / 100.0;
        let total_count = (quantile * distribution.count as f64).ceil() as u64;
        line(out, *value_ns, quantile, total_count);
    }
    if distribution.max_ns > 0 {
        line(out, distribution.max_ns, 1.0, distribution.count);
    }
}

fn line(out: &mut String, value_ns: u64, quantile: f64, total_count: u64) {
    let value_ms = value_ns as f64 / MILLISECOND_NS;
    // Infinite at 100 %, written as `inf`, which readers of the format expect.
    let rest = 1.0 / (1.0 - quantile);
    writeln!(out, "{value_ms:12.3} {quantile:12.6} {total_count:12} {rest:12.2}")
        .expect("a string takes any text");
}

fn trailer(out: &mut String, distribution: &Distribution, histogram: &Histogram<u64>) {
    let sub_buckets = 2 * 10_u64.pow(u32::from(histogram.sigfig()));
    write!(
        out,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n\
         #[Max     = {:12.3}, Total count    = {:12}]\n\
         #[Buckets = {:12}, SubBuckets     = {:12}]\n",
        distribution.mean_ns / MILLISECOND_NS,
        distribution.stdev_ns / MILLISECOND_NS,
        distribution.max_ns as f64 / MILLISECOND_NS,
        distribution.count,
        histogram.buckets(),
        sub_buckets.next_power_of_two(),
    )
    .expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value, percentile, total count and rest of each line.
    fn lines(text: &str) -> Vec<[f64; 4]> {
        let rows = text.lines().skip(2).filter(|line| !line.starts_with('#'));
        rows.map(|row| {
            let cells: Vec<f64> =
                row.split_whitespace().map(|cell| cell.parse().expect("a number")).collect();
            cells.try_into().expect("four columns")
        })
        .collect()
    }

    fn uniform(count: u64) -> Distribution {
        let mut histogram = crate::distribution::histogram();
        for number in 1..=count {
            histogram.record(number * 10_000).expect("in range");
        }
        Distribution::from_histogram(&histogram)
    }

    #[test]
    fn the_spectrum_has_the_layout_that_plotters_read() {
        let text = text(&uniform(10_000));
        let mut rows = text.lines();
        assert_eq!(rows.next(), Some("       Value   Percentile   TotalCount 1/(1-Percentile)"));
        assert_eq!(rows.next(), Some(""));
        assert_eq!(rows.next(), Some("       0.010     0.000000            1         1.00"));
        assert_eq!(rows.next(), Some("      10.002     0.100000         1000         1.11"));
        let last = text.lines().rfind(|row| !row.starts_with('#')).expect("lines");
        assert_eq!(last, "     100.008     1.000000        10000          inf");
        assert!(text.contains("#[Mean    =       50.00"), "{text}");
        assert!(text.ends_with("SubBuckets     =         2048]\n"), "{text}");
    }

    #[test]
    fn each_line_agrees_with_the_distribution() {
        let distribution = uniform(10_000);
        for [value_ms, quantile, total_count, rest] in lines(&text(&distribution)) {
            assert!(total_count >= (quantile * 10_000.0).floor(), "{quantile}: {total_count}");
            let reached = total_count * 0.010;
            assert!((value_ms / reached - 1.0).abs() < 0.002, "{quantile}: {value_ms}");
            if quantile < 0.9999 {
                assert!((rest * (1.0 - quantile) - 1.0).abs() < 0.02, "{quantile}: {rest}");
            }
        }
    }

    #[test]
    fn a_table_gives_the_lines_that_it_has() {
        let table = Distribution {
            count: 1_000,
            percentiles: vec![(50.0, 19_810_000), (99.0, 41_240_000)],
            max_ns: 402_900_000,
            ..Distribution::default()
        };
        let rows = lines(&text(&table));
        assert_eq!(rows[0], [19.81, 0.5, 500.0, 2.0]);
        assert_eq!(rows[1], [41.24, 0.99, 990.0, 100.0]);
        assert_eq!(rows[2][..3], [402.9, 1.0, 1_000.0]);
    }

    #[test]
    fn nothing_recorded_is_a_head_and_a_trailer() {
        assert_eq!(text(&Distribution::default()).lines().count(), 5);
    }
}
