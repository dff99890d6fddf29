//! Figures of a report without histograms and series: what lists and overlays of several
//! measurements need, in a few kilobytes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::compare::{Estimate, Figure, Runs, by_case, merged};
use super::outcome::{Outcome, outcomes};
use super::{Report, Spread};
use crate::result::CaseResult;

/// Points of a percentile curve: each step is a third of the way to a tenth of the samples beyond.
const CURVE_STEPS: u32 = 15;
const CURVE_STEPS_PER_DECADE: f64 = 3.0;
/// Samples beyond a percentile from which a point of the curve is drawn.
const BEYOND_MIN: u64 = 10;

/// Figures of a report.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub cases: Vec<CaseSummary>,
    pub thresholds: Vec<Outcome>,
}

/// Figures of a case over its runs. Times are in milliseconds.
#[derive(Debug, Serialize)]
pub struct CaseSummary {
    pub subject: String,
    pub name: String,
    pub target: String,
    pub runs: usize,
    pub open_loop: bool,
    pub goodput: Option<Range>,
    pub p50: Option<Range>,
    pub p99: Option<Range>,
    pub mean: Option<Range>,
    pub completed: u64,
    pub failed: u64,
    /// Failures by class.
    pub failures: BTreeMap<String, u64>,
    /// Percentiles with their times over all runs, such as `[99, 12.5]`.
    pub curve: Vec<(f64, f64)>,
}

/// Value over all runs, and the lowest and highest of a single run.
#[derive(Debug, Serialize)]
pub struct Range {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// Summarizes a report.
pub fn summarize(report: &Report) -> Summary {
    let cases = by_case(report).iter().map(case).collect();
    Summary { cases, thresholds: outcomes(&report.results) }
}

fn case((key, runs): &Runs<'_>) -> CaseSummary {
    let first = runs[0];
    let mut failures = BTreeMap::new();
    for (class, count) in runs.iter().flat_map(|run| &run.counts.failures) {
        *failures.entry(class.clone()).or_default() += count;
    }
    let time = |figure: Figure| figure.measure(runs).map(|estimate| range(estimate, 1e6));
    CaseSummary {
        subject: key.0.to_owned(),
        name: key.1.to_owned(),
        target: first.case.as_ref().map(|case| case.target.clone()).unwrap_or_default(),
        runs: runs.len(),
        open_loop: first.open_loop,
        goodput: Figure::Goodput.measure(runs).map(|estimate| range(estimate, 1.0)),
        p50: time(Figure::Percentile(50.0)),
        p99: time(Figure::Percentile(99.0)),
        mean: time(Figure::Mean),
        completed: runs.iter().map(|run| run.counts.completed).sum(),
        failed: runs.iter().map(|run| run.counts.failed).sum(),
        failures,
        curve: curve(runs),
    }
}

fn range(estimate: Estimate, unit: f64) -> Range {
    let Spread { low, high, .. } = estimate.spread;
    Range { value: estimate.value / unit, low: low / unit, high: high / unit }
}

/// Returns points of the percentile curve that enough samples support.
fn curve(runs: &[&CaseResult]) -> Vec<(f64, f64)> {
    let Some(times) = merged(runs) else { return Vec::new() };
    let percents = (0..=CURVE_STEPS).map(|step| {
        let beyond = 10_f64.powf(-f64::from(step) / CURVE_STEPS_PER_DECADE);
        ((1.0 - beyond) * 1e7).round() / 1e5
    });
    let supported = percents.filter(|percent| times.supports(*percent, BEYOND_MIN));
    let point = |percent: f64| {
        times.percentile_ns(percent).map(|value| (percent, (value as f64 / 1e3).round() / 1e3))
    };
    supported.filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::distribution::{Distribution, histogram};

    #[test]
    fn a_case_is_summed_up_over_its_runs() {
        let run = |goodput: f64, step_us: u64| {
            let mut times = histogram();
            (1..=1_000).for_each(|at| times.saturating_record(at * step_us * 1_000));
            let mut case = Case::new("http://a/");
            case.thresholds = vec!["p99 < 1s".parse().expect("a threshold")];
            CaseResult {
                name: "a".into(),
                case: Some(case),
                goodput,
                rate: goodput,
                response_time: Distribution::from_histogram(&times),
                ..CaseResult::default()
            }
        };
        let report = Report { results: vec![run(90.0, 10), run(110.0, 10)], ..Report::default() };
        let summary = summarize(&report);
        let [case] = &summary.cases[..] else { panic!("one case: {summary:?}") };
        let goodput = case.goodput.as_ref().expect("measured");
        assert_eq!((case.runs, goodput.value, goodput.low, goodput.high), (2, 100.0, 90.0, 110.0));
        let (percent, ms) = case.curve[1];
        assert!((percent - 53.584).abs() < 0.001 && (ms - 5.36).abs() < 0.02, "{percent} {ms}");
        let last = case.curve.last().expect("points").0;
        assert!(last <= 99.5, "2000 samples support no more: {last}");
        assert_eq!((summary.thresholds[0].met, summary.thresholds[0].missed.len()), (2, 0));
    }
}
