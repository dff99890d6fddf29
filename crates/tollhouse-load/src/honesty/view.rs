//! Report prepared for the rules: runs of one case are grouped, and tables are separated from
//! measurements.

use std::time::Duration;

use crate::case::Case;
use crate::pace::Pace;
use crate::report::Report;
use crate::result::CaseResult;

/// Subject name that suites use for the measurement without a gateway.
pub(super) const DIRECT: &str = "direct";

pub(super) struct Session<'a> {
    pub(super) report: &'a Report,
    /// Runs by case and subject, in the order of their first run.
    pub(super) groups: Vec<Group<'a>>,
}

/// Runs of one case of one subject.
pub(super) struct Group<'a> {
    pub(super) subject: &'a str,
    pub(super) name: &'a str,
    /// Runs of the case; never empty.
    pub(super) runs: Vec<&'a CaseResult>,
}

impl<'a> Session<'a> {
    pub(super) fn new(report: &'a Report) -> Self {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for run in &report.results {
            let known = groups
                .iter_mut()
                .find(|group| group.subject == run.subject && group.name == run.name);
            match known {
                Some(group) => group.runs.push(run),
                None => {
                    groups.push(Group { subject: &run.subject, name: &run.name, runs: vec![run] });
                }
            }
        }
        Self { report, groups }
    }

    pub(super) fn results(&self) -> impl Iterator<Item = &'a CaseResult> {
        self.report.results.iter()
    }

    /// Returns measured results with their cases; table rows, which have no case, are left out.
    pub(super) fn measured(&self) -> impl Iterator<Item = (&'a CaseResult, &'a Case)> {
        self.results().filter_map(|result| Some((result, result.case.as_ref()?)))
    }

    /// Formats a list of results for a message: by name, or as "all" if it contains every result.
    pub(super) fn called(&self, results: &[String]) -> String {
        match results.len() == self.groups.len() && results.len() > 1 {
            true => format!("all {} cases", results.len()),
            false => names(results),
        }
    }

    /// Returns the subjects without duplicates, in order.
    pub(super) fn subjects(&self) -> Vec<&'a str> {
        let mut subjects = Vec::new();
        for group in &self.groups {
            if !subjects.contains(&group.subject) {
                subjects.push(group.subject);
            }
        }
        subjects
    }
}

impl Group<'_> {
    pub(super) fn first(&self) -> &CaseResult {
        self.runs[0]
    }

    /// Returns the name used in messages.
    pub(super) fn title(&self) -> String {
        title(self.first())
    }
}

/// Returns the name of a result in messages: `subject / case`.
pub(super) fn title(result: &CaseResult) -> String {
    match (result.subject.as_str(), result.name.as_str()) {
        ("", name) => name.to_owned(),
        (subject, "") => subject.to_owned(),
        (subject, name) => format!("{subject} / {name}"),
    }
}

/// Returns the titles of results, without duplicates.
pub(super) fn titles<'a>(results: impl IntoIterator<Item = &'a CaseResult>) -> Vec<String> {
    let mut titles = Vec::new();
    for title in results.into_iter().map(title) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    titles
}

/// Returns the duration of the measurement in seconds: as recorded, or computed from a table's
/// count and rate.
pub(super) fn elapsed_seconds(result: &CaseResult) -> Option<f64> {
    if result.elapsed_ns > 0 {
        return Some(Duration::from_nanos(result.elapsed_ns).as_secs_f64());
    }
    let is_known = result.counts.completed > 0 && result.rate > 0.0;
    is_known.then(|| result.counts.completed as f64 / result.rate)
}

/// Returns the number of samples in the headline distribution: as recorded, or the request count of
/// a table.
pub(super) fn sample_count(result: &CaseResult) -> Option<u64> {
    let recorded = result.headline().count;
    let count = if recorded > 0 { recorded } else { result.counts.completed };
    (count > 0).then_some(count)
}

/// Whether the requested load is constant over the run.
pub(super) fn is_even(case: &Case) -> bool {
    matches!(case.load.pace, Pace::Closed | Pace::Think(_) | Pace::Rate(_))
}

/// Joins names: all of a few, the first of many.
pub(super) fn names<T: AsRef<str>>(names: &[T]) -> String {
    /// Number of names listed before the rest is only counted.
    const NAMED_MAX: usize = 4;
    let named = names.iter().take(NAMED_MAX).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
