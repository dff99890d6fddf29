//! The rows of the page: the runs of one case of one subject as one thing, with the median and the
//! spread of what varies from run to run and with times merged over all of them.

use crate::distribution::Distribution;
use crate::pace::Pace;
use crate::result::CaseResult;

/// Fewer samples than this beyond a percentile say nothing about it.
pub(super) use crate::report::text::BEYOND_MIN as SAMPLES_BEYOND_MIN;
/// Fewer runs have no spread to speak of, so that nothing is ranked by them.
pub(super) const RUNS_TO_RANK_MIN: usize = 3;
/// The subject that is the measure of all others: the upstream without anything before it.
pub(super) const BASELINE: &str = "direct";

/// The role of the process that is measured.
pub(super) const TARGET: &str = "target";

/// All runs of one case of one subject.
#[derive(Debug)]
pub(super) struct Row<'a> {
    /// What was measured.
    pub(super) subject: &'a str,
    /// The case.
    pub(super) name: &'a str,
    /// The runs, in the order of the report.
    pub(super) runs: Vec<&'a CaseResult>,
    /// Their places in the report.
    pub(super) places: Vec<usize>,
    /// The latency in an open loop, the response time otherwise, of all runs.
    pub(super) times: Distribution,
    /// The response time of all runs, in an open loop.
    pub(super) uncorrected: Option<Distribution>,
}

/// A figure over several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    /// The lowest.
    pub(super) low: f64,
    /// The highest.
    pub(super) high: f64,
    /// How many runs.
    pub(super) runs: usize,
}

/// What can be said about a percentile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Percentile {
    /// Its value in nanoseconds.
    Known(f64),
    /// So many samples lie beyond it, which is too few.
    TooFew(u64),
    /// Nothing was recorded.
    Unknown,
}

/// What a process used over the runs of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Usage {
    /// Cores that it kept busy, on average.
    pub(super) cores: f64,
    /// CPU seconds for 1000 completed requests.
    pub(super) seconds_per_1000: f64,
    /// The largest resident memory.
    pub(super) rss_bytes_max: u64,
}

/// Results as rows: subjects in the order of their first result, cases likewise within them.
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

/// The subjects of rows, each once, in order.
pub(super) fn subjects<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let mut subjects: Vec<&str> = rows.iter().map(|row| row.subject).collect();
    subjects.dedup();
    subjects
}

/// What a case of a subject is called; what was measured without naming it goes by its case.
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

    /// Subject and case.
    pub(super) fn title(&self) -> String {
        title(self.subject, self.name)
    }

    /// The first of the runs, for what does not vary.
    pub(super) fn first(&self) -> &'a CaseResult {
        self.runs[0]
    }

    /// Whether it was taken from a printed table: its figures have the digits that stand there.
    pub(super) fn is_printed(&self) -> bool {
        self.first().case.is_none() && self.times.values.is_empty()
    }

    /// What its times are, in words: a closed loop has no latency to report.
    pub(super) fn times_are(&self) -> &'static str {
        let first = self.first();
        let pace = first.case.as_ref().map(|case| case.load.pace);
        match pace {
            _ if first.open_loop => "latency from the intended start",
            Some(Pace::Think(_)) => "response time with think time",
            _ => "response time at saturation",
        }
    }

    /// Successful requests a second; `None` when no one counted.
    pub(super) fn goodput(&self) -> Option<Spread> {
        self.spread(|run| (run.counts.completed > 0 && run.knows_failures()).then_some(run.goodput))
    }

    /// What a row is ranked by: the goodput, or the rate when only that is known.
    pub(super) fn throughput(&self) -> Option<Spread> {
        self.goodput().or_else(|| self.rate())
    }

    /// Completed requests a second.
    pub(super) fn rate(&self) -> Option<Spread> {
        self.spread(|run| (run.rate > 0.0).then_some(run.rate))
    }

    /// A percentile over all runs.
    pub(super) fn percentile(&self, percent: f64) -> Percentile {
        percentile_of(&self.times, percent)
    }

    /// The mean over all runs, in nanoseconds.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        (self.times.mean_ns > 0.0).then_some(self.times.mean_ns)
    }

    /// The longest time of all runs, in nanoseconds.
    pub(super) fn max_ns(&self) -> Option<f64> {
        (self.times.max_ns > 0).then_some(self.times.max_ns as f64)
    }

    /// Requests that failed over requests that ended; `None` when no one counted.
    pub(super) fn failed_share(&self) -> Option<f64> {
        let completed = self.sum(|run| run.counts.completed);
        let failed = self.sum(|run| run.counts.failed);
        let is_known = completed > 0 && self.runs.iter().all(|run| run.knows_failures());
        is_known.then(|| failed as f64 / completed as f64)
    }

    /// A figure of each run, added up.
    pub(super) fn sum(&self, figure: impl Fn(&CaseResult) -> u64) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(figure(run)))
    }

    /// How long was measured in all, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.sum(|run| run.elapsed_ns) as f64 / 1e9
    }

    /// What the process of a role used; `None` when it was not watched.
    pub(super) fn usage(&self, role: &str) -> Option<Usage> {
        usage_of(&self.runs, role)
    }

    /// The roles of the processes that were watched, each once.
    pub(super) fn roles(&self) -> Vec<&'a str> {
        let mut roles: Vec<&str> = Vec::new();
        for process in self.runs.iter().flat_map(|run| &run.processes) {
            if !roles.contains(&process.role.as_str()) {
                roles.push(&process.role);
            }
        }
        roles
    }

    /// A figure over the runs that have it.
    pub(super) fn spread(&self, figure: impl Fn(&CaseResult) -> Option<f64>) -> Option<Spread> {
        Spread::from_values(self.runs.iter().filter_map(|run| figure(run)).collect())
    }
}

/// What the process of a role used over some runs; `None` when it was not watched.
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
    // Percentiles of a table cannot be merged; its first run stands for all.
    if others.is_empty() || first.values.is_empty() {
        return first.clone();
    }
    let mut histogram = first.to_histogram();
    for (value, count) in others.iter().flat_map(|run| &times(run).values) {
        histogram.saturating_record_n(*value, *count);
    }
    Distribution::from_histogram(&histogram)
}

/// What a distribution can say about a percentile.
pub(super) fn percentile_of(times: &Distribution, percent: f64) -> Percentile {
    let is_counted = times.count > 0;
    if is_counted && !times.supports(percent, SAMPLES_BEYOND_MIN) {
        // With the allowance of `supports`: p99.9 of 1000 samples has one beyond it.
        let beyond = (100.0 - percent) * times.count as f64 / 100.0 + 1e-6;
        return Percentile::TooFew(beyond.max(0.0) as u64);
    }
    match times.percentile_ns(percent) {
        Some(value) => Percentile::Known(value as f64),
        None => Percentile::Unknown,
    }
}

impl Percentile {
    /// Its value in nanoseconds, when it can be told.
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

    /// Whether both have enough runs to be ranked.
    pub(super) fn can_rank(&self, other: &Self) -> bool {
        self.runs >= RUNS_TO_RANK_MIN && other.runs >= RUNS_TO_RANK_MIN
    }

    /// Whether it lies wholly above another, and that means something.
    pub(super) fn is_above(&self, other: &Self) -> bool {
        self.can_rank(other) && self.low > other.high
    }
}

#[cfg(test)]
mod tests;
