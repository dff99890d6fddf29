//! Result in wrk2's format: wrk's table with latency from the planned start, and with `--latency`
//! the HdrHistogram spectrum for plotters.

use std::time::Duration;

use crate::wrk::options::Detail;
use crate::wrk::output::{microseconds, padded, table, totals};
use tollhouse_load::distribution::Distribution;
use tollhouse_load::report::hgrm;
use tollhouse_load::result::CaseResult;
use tollhouse_load::worker::TICK;

/// Percentiles of the short list below the table.
const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];
/// Ruler that wrk2 prints below the spectrum.
const RULER: &str = "----------------------------------------------------------\n";

/// Returns the calibration lines, one per thread. All threads share one warm-up, so the lines are
/// equal.
pub fn calibration(threads: u64, mean: Duration) -> String {
    let line = format!(
        "  Thread calibration: mean lat.: {:.3}ms, rate sampling interval: {}ms\n",
        mean.as_secs_f64() * 1e3,
        TICK.as_millis()
    );
    line.repeat(usize::try_from(threads).unwrap_or(usize::MAX).min(LINES_MAX))
}

/// Maximum number of calibration lines, because all of them are equal.
const LINES_MAX: usize = 1_024;

/// Returns the text after the run.
pub fn text(result: &CaseResult, detail: Detail) -> String {
    let latency = result.headline();
    let mut out = table(latency, &result.worker_rates);
    if detail >= Detail::Latency {
        out.push_str(&spectrum(latency, "Recorded Latency"));
    }
    if detail == Detail::Both {
        let about = "Uncorrected Latency (measured without taking delayed starts into account)";
        out.push('\n');
        out.push_str(&spectrum(&result.response_time, about));
    }
    out.push_str(&totals(result));
    out
}

fn spectrum(times: &Distribution, about: &str) -> String {
    let mut out = format!("  Latency Distribution (HdrHistogram - {about})\n");
    for percent in PERCENTILES {
        let value_ns = times.percentile_ns(percent).unwrap_or(0);
        let value = padded(&microseconds(value_ns as f64 / 1e3), 10);
        out.push_str(&format!("{percent:7.3}%{value}\n"));
    }
    out.push_str("\n  Detailed Percentile spectrum:\n");
    out.push_str(&hgrm::text(times));
    out.push_str(RULER);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_load::result::Counts;

    /// Recorded run with its expected output. The columns of the real wrk2 were compared by eye.
    #[test]
    fn a_recorded_run_is_printed_as_it_was() {
        let recorded = include_str!("../../testdata/wrk/rate.json");
        let result: CaseResult = serde_json::from_str(recorded).expect("a result");
        let expected = include_str!("../../testdata/wrk/rate.wrk2.txt");
        assert_eq!(text(&result, Detail::Both), expected);
        let expected = include_str!("../../testdata/wrk/rate.wrk.txt");
        assert_eq!(crate::wrk::output::text(&result, Detail::Latency), expected);
    }

    fn recorded(values_us: impl IntoIterator<Item = u64>) -> Distribution {
        let mut histogram = tollhouse_load::distribution::histogram();
        for value in values_us {
            histogram.record(value * 1_000).expect("in range");
        }
        Distribution::from_histogram(&histogram)
    }

    fn result() -> CaseResult {
        CaseResult {
            elapsed_ns: 20_000_000_000,
            concurrency: 100,
            open_loop: true,
            counts: Counts {
                completed: 1_000,
                succeeded: 1_000,
                statuses: [("200".to_owned(), 1_000)].into(),
                received_bytes: 3_000_000,
                ..Counts::default()
            },
            latency: Some(recorded((1..=1_000).map(|n| n * 10))),
            response_time: recorded((1..=1_000).map(|n| n * 5)),
            ..CaseResult::default()
        }
    }

    #[test]
    fn latency_is_from_the_planned_start() {
        let text = text(&result(), Detail::Both);
        let halves: Vec<&str> = text.lines().filter(|line| line.starts_with(" 50.000%")).collect();
        assert_eq!(halves, [" 50.000%    5.00ms", " 50.000%    2.50ms"]);
        assert!(text.contains("(HdrHistogram - Recorded Latency)\n"), "{text}");
        assert!(text.contains("\n\n  Latency Distribution (HdrHistogram - Uncorrected"), "{text}");
        assert_eq!(text.matches("  Detailed Percentile spectrum:\n       Value ").count(), 2);
        assert_eq!(text.matches(RULER).count(), 2);
        assert!(text.ends_with("Requests/sec:     50.00\nTransfer/sec:    146.48KB\n"), "{text}");
    }

    #[test]
    fn the_summary_has_no_spectrum() {
        let text = text(&result(), Detail::Summary);
        assert!(!text.contains("spectrum"), "{text}");
        assert!(text.starts_with("  Thread Stats   Avg"), "{text}");
    }

    #[test]
    fn each_thread_has_its_line_about_calibration() {
        let lines = calibration(2, Duration::from_micros(1_234));
        let line = "  Thread calibration: mean lat.: 1.234ms, rate sampling interval: 100ms";
        assert_eq!(lines.lines().collect::<Vec<_>>(), [line, line]);
    }
}
