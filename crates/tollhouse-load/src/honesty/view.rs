//! A report as the rules look at it: runs of the same case together, tables apart from measurements.

use std::time::Duration;

use crate::case::Case;
use crate::pace::Pace;
use crate::report::Report;
use crate::result::CaseResult;

/// How suites call the subject that is measured without a gateway in between.
pub(super) const DIRECT: &str = "direct";

/// A report, taken apart.
pub(super) struct Session<'a> {
    /// The report itself.
    pub(super) report: &'a Report,
    /// Runs of the same case of the same subject, in the order of their first run.
    pub(super) groups: Vec<Group<'a>>,
}

/// The runs of one case of one subject.
pub(super) struct Group<'a> {
    /// What was measured.
    pub(super) subject: &'a str,
    /// Which case.
    pub(super) name: &'a str,
    /// The runs, never empty.
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

    /// Results that were measured, each with the case it came from; rows of tables have none.
    pub(super) fn measured(&self) -> impl Iterator<Item = (&'a CaseResult, &'a Case)> {
        self.results().filter_map(|result| Some((result, result.case.as_ref()?)))
    }

    /// How messages call several results: by name, or as all of them.
    pub(super) fn called(&self, results: &[String]) -> String {
        match results.len() == self.groups.len() && results.len() > 1 {
            true => format!("all {} cases", results.len()),
            false => names(results),
        }
    }

    /// The subjects, each once, in order.
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
    /// The first of the runs.
    pub(super) fn first(&self) -> &CaseResult {
        self.runs[0]
    }

    /// How messages call it.
    pub(super) fn title(&self) -> String {
        title(self.first())
    }
}

/// How messages call a result: `subject / case`.
pub(super) fn title(result: &CaseResult) -> String {
    match (result.subject.as_str(), result.name.as_str()) {
        ("", name) => name.to_owned(),
        (subject, "") => subject.to_owned(),
        (subject, name) => format!("{subject} / {name}"),
    }
}

/// The titles of some results, each once.
pub(super) fn titles<'a>(results: impl IntoIterator<Item = &'a CaseResult>) -> Vec<String> {
    let mut titles = Vec::new();
    for title in results.into_iter().map(title) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    titles
}

/// How long was measured, in seconds: as recorded, or what count and rate of a table imply.
pub(super) fn elapsed_seconds(result: &CaseResult) -> Option<f64> {
    if result.elapsed_ns > 0 {
        return Some(Duration::from_nanos(result.elapsed_ns).as_secs_f64());
    }
    let is_known = result.counts.completed > 0 && result.rate > 0.0;
    is_known.then(|| result.counts.completed as f64 / result.rate)
}

/// How many times the headline's distribution holds: as recorded, or the requests of a table.
pub(super) fn sample_count(result: &CaseResult) -> Option<u64> {
    let recorded = result.headline().count;
    let count = if recorded > 0 { recorded } else { result.counts.completed };
    (count > 0).then_some(count)
}

/// Whether the load asked for is the same from start to end.
pub(super) fn is_even(case: &Case) -> bool {
    matches!(case.load.pace, Pace::Closed | Pace::Think(_) | Pace::Rate(_))
}

/// Names as one text: all of a few, the first ones of many.
pub(super) fn names<T: AsRef<str>>(names: &[T]) -> String {
    /// More than these are counted instead.
    const NAMED_MAX: usize = 4;
    let named = names.iter().take(NAMED_MAX).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
