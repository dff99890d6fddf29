//! Figures that a comparison covers.

use crate::distribution::Distribution;
use crate::report::Spread;
use crate::report::figure;
use crate::result::{CaseResult, ProcessSeries};

/// Minimum number of samples beyond a percentile for comparing it; with fewer, single requests
/// decide.
const BEYOND_MIN: u64 = 10;

/// Figure of a result that is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// Number of successful requests per second.
    Goodput,
    /// Ratio of failed to completed requests.
    FailureShare,
    /// Mean of the latency (open loop) or response time.
    Mean,
    /// Percentile of the response times or latencies.
    Percentile(f64),
    /// CPU seconds of the target per 1000 requests.
    TargetCpu,
    /// CPU seconds of the generator per 1000 requests.
    GeneratorCpu,
    /// Maximum resident memory of the target.
    TargetMemory,
}

/// Value of a figure on one side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Value over all runs: from merged histograms for times, otherwise the median.
    pub value: f64,
    /// Median and range over the single runs.
    pub spread: Spread,
}

impl Figure {
    /// All figures, in the order of the table.
    pub const ALL: [Figure; 11] = [
        Figure::Goodput,
        Figure::FailureShare,
        Figure::Mean,
        Figure::Percentile(50.0),
        Figure::Percentile(75.0),
        Figure::Percentile(90.0),
        Figure::Percentile(99.0),
        Figure::Percentile(99.9),
        Figure::TargetCpu,
        Figure::TargetMemory,
        Figure::GeneratorCpu,
    ];

    /// Returns the name of the figure in tables.
    pub fn name(self) -> String {
        match self {
            Figure::Goodput => "goodput".into(),
            Figure::FailureShare => "failed".into(),
            Figure::Mean => "mean".into(),
            Figure::Percentile(percent) => format!("p{percent}"),
            Figure::TargetCpu => "target CPU/1000".into(),
            Figure::TargetMemory => "target memory".into(),
            Figure::GeneratorCpu => "generator CPU/1000".into(),
        }
    }

    /// Formats a value of this figure for display.
    pub fn format(self, value: f64) -> String {
        match self {
            Figure::Goodput => format!("{}/s", figure::rate(value)),
            Figure::FailureShare => figure::percent(value),
            Figure::Mean | Figure::Percentile(_) => figure::time(value),
            Figure::TargetCpu | Figure::GeneratorCpu => figure::time(value * 1e9),
            Figure::TargetMemory => figure::memory(value as u64),
        }
    }

    /// Whether a larger value is better.
    pub fn more_is_better(self) -> bool {
        self == Figure::Goodput
    }

    /// Computes the figure over the runs of a case; `None` if a run lacks it.
    pub(in crate::report) fn measure(self, runs: &[&CaseResult]) -> Option<Estimate> {
        let values: Option<Vec<f64>> = runs.iter().map(|run| self.run_value(run)).collect();
        let spread = Spread::from_values(values?)?;
        let value = self.merged_value(runs).unwrap_or(spread.median);
        Some(Estimate { value, spread })
    }

    fn run_value(self, run: &CaseResult) -> Option<f64> {
        match self {
            Figure::Goodput => (run.goodput > 0.0 || run.rate > 0.0).then_some(run.goodput),
            Figure::FailureShare => {
                let completed = run.counts.completed;
                let is_counted = completed > 0 && run.case.is_some();
                is_counted.then(|| run.counts.failed as f64 / completed as f64)
            }
            Figure::Mean => (run.headline().mean_ns > 0.0).then_some(run.headline().mean_ns),
            Figure::Percentile(percent) => percentile(run.headline(), percent),
            Figure::TargetCpu => cpu_per_1000(run, |process| process.role == TARGET),
            Figure::GeneratorCpu => cpu_per_1000(run, |process| process.role == GENERATOR),
            Figure::TargetMemory => {
                let target = run.processes.iter().find(|process| process.role == TARGET)?;
                (target.rss_bytes_max > 0).then_some(target.rss_bytes_max as f64)
            }
        }
    }

    /// Computes times from merged histograms, because averaging percentiles is wrong.
    fn merged_value(self, runs: &[&CaseResult]) -> Option<f64> {
        let is_time = matches!(self, Figure::Mean | Figure::Percentile(_));
        if !is_time || runs.len() < 2 {
            return None;
        }
        let times = merged(runs)?;
        match self {
            Figure::Percentile(percent) => times.percentile_ns(percent).map(|value| value as f64),
            _ => Some(times.mean_ns),
        }
    }
}

/// Merges the times of runs; `None` if one of them has no histogram.
pub(in crate::report) fn merged(runs: &[&CaseResult]) -> Option<Distribution> {
    if runs.iter().any(|run| run.headline().values.is_empty()) {
        return None;
    }
    let mut histogram = crate::distribution::histogram();
    for (value, count) in runs.iter().flat_map(|run| &run.headline().values) {
        histogram.saturating_record_n(*value, *count);
    }
    Some(Distribution::from_histogram(&histogram))
}

/// Role under which the measured process is sampled.
const TARGET: &str = "target";
/// Role of the load generator's process.
const GENERATOR: &str = "generator";

/// Returns a percentile with enough samples beyond it, or one given by a table.
fn percentile(times: &Distribution, percent: f64) -> Option<f64> {
    let is_supported = times.count == 0 || times.supports(percent, BEYOND_MIN);
    times.percentile_ns(percent).filter(|_| is_supported).map(|value| value as f64)
}

fn cpu_per_1000(run: &CaseResult, is_meant: impl Fn(&ProcessSeries) -> bool) -> Option<f64> {
    let seconds: Vec<f64> = run
        .processes
        .iter()
        .filter(|process| is_meant(process))
        .map(ProcessSeries::cpu_seconds)
        .collect();
    let is_known = !seconds.is_empty() && run.counts.completed > 0;
    is_known.then(|| seconds.iter().sum::<f64>() * 1_000.0 / run.counts.completed as f64)
}
