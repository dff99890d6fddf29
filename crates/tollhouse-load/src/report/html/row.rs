//! Rows of the page: the runs of one case of one subject combined, with median and spread of the
//! figures and with merged times.

use crate::distribution::Distribution;
use crate::pace::Pace;
use crate::result::CaseResult;

/// Minimum number of samples beyond a percentile for it to be meaningful.
pub(super) use crate::report::text::BEYOND_MIN as SAMPLES_BEYOND_MIN;
/// Minimum number of runs per side for a ranking; with fewer, the spread is unknown.
pub(super) const RUNS_TO_RANK_MIN: usize = 3;
/// Baseline subject: the upstream measured directly, without a gateway.
pub(super) const BASELINE: &str = "direct";

/// Role under which the measured process is sampled.
pub(super) const TARGET: &str = "target";

/// All runs of one case of one subject.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) subject: &'a str,
    pub(super) name: &'a str,
    /// Runs in the order of the report.
    pub(super) runs: Vec<&'a CaseResult>,
    /// Indices of the runs in the report.
    pub(super) places: Vec<usize>,
    /// Times over all runs: latency in an open loop, response time otherwise.
    pub(super) times: Distribution,
    /// Response times over all runs, in an open loop.
    pub(super) uncorrected: Option<Distribution>,
}

/// Median and range of a figure over several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) runs: usize,
}

/// Value of a percentile, or the reason why it is unavailable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Percentile {
    Known(f64),
    /// Too few samples lie beyond the percentile; holds their number.
    TooFew(u64),
    Unknown,
}

/// Resource use of a process over the runs of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Usage {
    pub(super) cores: f64,
    /// CPU seconds per 1000 completed requests.
    pub(super) seconds_per_1000: f64,
    /// Maximum resident memory in bytes.
    pub(super) rss_bytes_max: u64,
}

/// Groups results into rows: subjects in the order of their first result, and likewise the cases of
/// a subject.
pub(super) fn rows(results: &[CaseResult]) -> Vec<Row<'_>> {
    let mut subjects: Vec<(&str, Vec<Row<'_>>)> = Vec::new();
    for (place, result) in results.iter().enumerate() {
        let at = subjects.iter().position(|(subject, _)| *subject == result.subject);
        let at = at.unwrap_or_else(|| {
            subjects.push((&result.subject, Vec::new()));
            subjects.len() - 1
        });
        let rows = &mut subjects[at].1;
        match rows.iter_mut().find(|row| row.name == result.name) {
            Some(row) => row.add(place, result),
            None => rows.push(Row::new(place, result)),
        }
    }
    let mut rows: Vec<Row<'_>> = subjects.into_iter().flat_map(|(_, rows)| rows).collect();
    rows.iter_mut().for_each(Row::merge);
    rows
}

/// Returns the subjects of rows without duplicates, in order.
pub(super) fn subjects<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let mut subjects: Vec<&str> = rows.iter().map(|row| row.subject).collect();
    subjects.dedup();
    subjects
}

/// Returns the title of a case: `subject / case`, or only the case if the subject is empty.
pub(super) fn title(subject: &str, name: &str) -> String {
    if subject.is_empty() { name.to_owned() } else { format!("{subject} / {name}") }
}

impl<'a> Row<'a> {
    fn new(place: usize, result: &'a CaseResult) -> Self {
        Self {
            subject: &result.subject,
            name: &result.name,
            runs: vec![result],
            places: vec![place],
            times: Distribution::default(),
            uncorrected: None,
        }
    }

    fn add(&mut self, place: usize, result: &'a CaseResult) {
        self.runs.push(result);
        self.places.push(place);
    }

    fn merge(&mut self) {
        self.times = merged(&self.runs, CaseResult::headline);
        if self.runs.iter().any(|run| run.latency.is_some() && !run.response_time.is_empty()) {
            self.uncorrected = Some(merged(&self.runs, |run| &run.response_time));
        }
    }

    /// Returns subject and case as one text.
    pub(super) fn title(&self) -> String {
        title(self.subject, self.name)
    }

    /// Returns the first run, for properties common to all runs.
    pub(super) fn first(&self) -> &'a CaseResult {
        self.runs[0]
    }

    /// Whether the figures come from a published table. They are shown with the digits that the
    /// table has.
    pub(super) fn is_printed(&self) -> bool {
        self.first().case.is_none() && self.times.values.is_empty()
    }

    /// Returns a description of the times; a closed loop has response times, not latencies.
    pub(super) fn times_are(&self) -> &'static str {
        let first = self.first();
        let pace = first.case.as_ref().map(|case| case.load.pace);
        match pace {
            _ if first.open_loop => "latency from the intended start",
            Some(Pace::Think(_)) => "response time with think time",
            _ => "response time at saturation",
        }
    }

    /// Returns the successful requests per second; `None` if failures were not counted.
    pub(super) fn goodput(&self) -> Option<Spread> {
        self.spread(|run| (run.counts.completed > 0 && run.knows_failures()).then_some(run.goodput))
    }

    /// Returns the figure used for ranking: the goodput, or the rate if only that is known.
    pub(super) fn throughput(&self) -> Option<Spread> {
        self.goodput().or_else(|| self.rate())
    }

    /// Returns the number of completed requests per second.
    pub(super) fn rate(&self) -> Option<Spread> {
        self.spread(|run| (run.rate > 0.0).then_some(run.rate))
    }

    /// Returns a percentile over all runs.
    pub(super) fn percentile(&self, percent: f64) -> Percentile {
        percentile_of(&self.times, percent)
    }

    /// Returns the mean over all runs, in nanoseconds.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        (self.times.mean_ns > 0.0).then_some(self.times.mean_ns)
    }

    /// Returns the maximum over all runs, in nanoseconds.
    pub(super) fn max_ns(&self) -> Option<f64> {
        (self.times.max_ns > 0).then_some(self.times.max_ns as f64)
    }

    /// Returns the ratio of failed to completed requests; `None` if failures were not counted.
    pub(super) fn failed_share(&self) -> Option<f64> {
        let completed = self.sum(|run| run.counts.completed);
        let failed = self.sum(|run| run.counts.failed);
        let is_known = completed > 0 && self.runs.iter().all(|run| run.knows_failures());
        is_known.then(|| failed as f64 / completed as f64)
    }

    /// Sums a figure over the runs.
    pub(super) fn sum(&self, figure: impl Fn(&CaseResult) -> u64) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(figure(run)))
    }

    /// Returns the total duration of the measurements, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.sum(|run| run.elapsed_ns) as f64 / 1e9
    }

    /// Returns the resource use of a role's process; `None` if it was not watched.
    pub(super) fn usage(&self, role: &str) -> Option<Usage> {
        usage_of(&self.runs, role)
    }

    /// Returns the roles of the watched processes, without duplicates.
    pub(super) fn roles(&self) -> Vec<&'a str> {
        let mut roles: Vec<&str> = Vec::new();
        for process in self.runs.iter().flat_map(|run| &run.processes) {
            if !roles.contains(&process.role.as_str()) {
                roles.push(&process.role);
            }
        }
        roles
    }

    /// Returns the spread of a figure over the runs that have it.
    pub(super) fn spread(&self, figure: impl Fn(&CaseResult) -> Option<f64>) -> Option<Spread> {
        Spread::from_values(self.runs.iter().filter_map(|run| figure(run)).collect())
    }
}

/// Returns the resource use of a role's process over some runs; `None` if it was not watched.
pub(super) fn usage_of(runs: &[&CaseResult], role: &str) -> Option<Usage> {
    let processes = runs.iter().flat_map(|run| &run.processes);
    let watched: Vec<_> = processes.filter(|process| process.role == role).collect();
    let cpu_seconds: f64 = watched.iter().map(|process| process.cpu_seconds()).sum();
    let elapsed_ns: u64 = runs.iter().map(|run| run.elapsed_ns).sum();
    let completed: u64 = runs.iter().map(|run| run.counts.completed).sum();
    Some(Usage {
        cores: cpu_seconds / (elapsed_ns as f64 / 1e9),
        seconds_per_1000: cpu_seconds * 1000.0 / completed as f64,
        rss_bytes_max: watched.iter().map(|process| process.rss_bytes_max).max()?,
    })
}

fn merged(runs: &[&CaseResult], times: impl Fn(&CaseResult) -> &Distribution) -> Distribution {
    let (first, others) = match runs {
        [] => return Distribution::default(),
        [first, others @ ..] => (times(first), others),
    };
    // Percentiles of a table cannot be merged; the first run represents all.
    if others.is_empty() || first.values.is_empty() {
        return first.clone();
    }
    let mut histogram = first.to_histogram();
    for (value, count) in others.iter().flat_map(|run| &times(run).values) {
        histogram.saturating_record_n(*value, *count);
    }
    Distribution::from_histogram(&histogram)
}

/// Returns a percentile of a distribution, or the reason why it is unavailable.
pub(super) fn percentile_of(times: &Distribution, percent: f64) -> Percentile {
    let is_counted = times.count > 0;
    if is_counted && !times.supports(percent, SAMPLES_BEYOND_MIN) {
        // With the same tolerance as `supports`: p99.9 of 1000 samples has one beyond it.
        let beyond = (100.0 - percent) * times.count as f64 / 100.0 + 1e-6;
        return Percentile::TooFew(beyond.max(0.0) as u64);
    }
    match times.percentile_ns(percent) {
        Some(value) => Percentile::Known(value as f64),
        None => Percentile::Unknown,
    }
}

impl Percentile {
    /// Returns the value in nanoseconds, if available.
    pub(super) fn known(self) -> Option<f64> {
        match self {
            Percentile::Known(value) => Some(value),
            Percentile::TooFew(_) | Percentile::Unknown => None,
        }
    }
}

impl Spread {
    fn from_values(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, low, high, runs: values.len() })
    }

    /// Whether both have enough runs for a ranking.
    pub(super) fn can_rank(&self, other: &Self) -> bool {
        self.runs >= RUNS_TO_RANK_MIN && other.runs >= RUNS_TO_RANK_MIN
    }

    /// Whether the range lies entirely above the other, with enough runs for a ranking.
    pub(super) fn is_above(&self, other: &Self) -> bool {
        self.can_rank(other) && self.low > other.high
    }
}

#[cfg(test)]
mod tests;
