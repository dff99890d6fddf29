//! Comparison of two reports: faster, slower, or no provable difference.
//!
//! Results are matched by subject and case. The runs of each side are combined (percentiles from
//! merged histograms). A difference is reported only if both sides were repeated and their ranges
//! do not overlap; otherwise the verdict gives the reason.

mod figure;
mod text;

use std::collections::BTreeMap;

use super::{Environment, Report};
use crate::result::CaseResult;

pub use figure::{Estimate, Figure};
pub use text::text;

#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub before: String,
    pub after: String,
    /// Differences between the environments.
    pub environment: Vec<Difference>,
    /// Cases in both reports, in the order of the second.
    pub cases: Vec<CaseComparison>,
    /// Cases only in the first report.
    pub only_before: Vec<String>,
    /// Cases only in the second report.
    pub only_after: Vec<String>,
}

/// A property that differs between the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Name of the property that differs.
    pub what: String,
    pub before: String,
    pub after: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CaseComparison {
    pub subject: String,
    pub name: String,
    /// Differences in the load. If there are any, the figures are not comparable.
    pub differences: Vec<Difference>,
    /// Figures that both reports have.
    pub figures: Vec<FigureComparison>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureComparison {
    pub figure: Figure,
    /// Value in the first report.
    pub before: Estimate,
    /// Value in the second report.
    pub after: Estimate,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Better,
    Worse,
    /// The ranges of the runs overlap.
    Overlapping,
    /// Too few repetitions on at least one side to estimate the influence of chance.
    TooFewRuns,
}

impl FigureComparison {
    fn compare(figure: Figure, before: &[&CaseResult], after: &[&CaseResult]) -> Option<Self> {
        let (before, after) = (figure.measure(before)?, figure.measure(after)?);
        let verdict = match (before.spread, after.spread) {
            (left, right) if !left.is_repeated() || !right.is_repeated() => Verdict::TooFewRuns,
            (left, right) if left.overlaps(&right) => Verdict::Overlapping,
            (left, right) if (right.median > left.median) == figure.more_is_better() => {
                Verdict::Better
            }
            _ => Verdict::Worse,
        };
        Some(Self { figure, before, after, verdict })
    }

    /// Returns the relative change from the first to the second.
    pub fn change(&self) -> f64 {
        if self.before.value == self.after.value {
            return 0.0;
        }
        self.after.value / self.before.value - 1.0
    }

    /// Returns the relative deterioration of the second; 0 if it is not worse.
    pub fn loss(&self) -> f64 {
        let change = self.change();
        (if self.figure.more_is_better() { -change } else { change }).max(0.0)
    }
}

impl Comparison {
    /// Returns the figures that are worse by more than `share`, beyond chance.
    pub fn regressions(&self, share: f64) -> Vec<(&CaseComparison, &FigureComparison)> {
        self.worse_by(share).filter(|(_, figure)| figure.verdict == Verdict::Worse).collect()
    }

    /// Returns the figures that appear worse by more than `share`, possibly by chance.
    pub fn suspicions(&self, share: f64) -> Vec<(&CaseComparison, &FigureComparison)> {
        self.worse_by(share).filter(|(_, figure)| figure.verdict != Verdict::Worse).collect()
    }

    fn worse_by(&self, share: f64) -> impl Iterator<Item = (&CaseComparison, &FigureComparison)> {
        self.cases
            .iter()
            .flat_map(|case| case.figures.iter().map(move |figure| (case, figure)))
            .filter(move |(_, figure)| figure.loss() > share)
    }
}

/// Compares two reports, the older one first.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let (left, right) = (by_case(before), by_case(after));
    let find = |cases: &[Runs<'_>], key: &Key<'_>| cases.iter().position(|(other, _)| other == key);
    let title = |(subject, name): &Key<'_>| title(subject, name);
    let mut cases = Vec::new();
    let mut only_after = Vec::new();
    for (key, runs) in &right {
        match find(&left, key) {
            Some(index) => cases.push(compare_case(*key, &left[index].1, runs)),
            None => only_after.push(title(key)),
        }
    }
    let missing = left.iter().filter(|(key, _)| find(&right, key).is_none());
    Comparison {
        before: before.title.clone(),
        after: after.title.clone(),
        environment: environments(&before.environment, &after.environment),
        cases,
        only_before: missing.map(|(key, _)| title(key)).collect(),
        only_after,
    }
}

impl CaseComparison {
    /// Returns subject and case; only the case if the subject is empty.
    pub fn title(&self) -> String {
        title(&self.subject, &self.name)
    }
}

fn title(subject: &str, name: &str) -> String {
    if subject.is_empty() { name.to_owned() } else { format!("{subject} / {name}") }
}

/// Subject and name of a case.
type Key<'a> = (&'a str, &'a str);
/// Runs with equal subject and case.
type Runs<'a> = (Key<'a>, Vec<&'a CaseResult>);

fn by_case(report: &Report) -> Vec<Runs<'_>> {
    let mut cases: Vec<Runs<'_>> = Vec::new();
    for result in &report.results {
        let key = (result.subject.as_str(), result.name.as_str());
        match cases.iter_mut().find(|(known, _)| *known == key) {
            Some((_, runs)) => runs.push(result),
            None => cases.push((key, vec![result])),
        }
    }
    cases
}

fn compare_case(key: Key<'_>, before: &[&CaseResult], after: &[&CaseResult]) -> CaseComparison {
    let figures = Figure::ALL
        .into_iter()
        .filter_map(|figure| FigureComparison::compare(figure, before, after))
        .collect();
    CaseComparison {
        subject: key.0.to_owned(),
        name: key.1.to_owned(),
        differences: load_differences(before[0], after[0]),
        figures,
    }
}

/// Returns the differences in the load. The targets may differ, because they are the object of the
/// comparison.
fn load_differences(before: &CaseResult, after: &CaseResult) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |what: &str, before: String, after: String| {
        if before != after {
            found.push(Difference { what: what.to_owned(), before, after });
        }
    };
    differ("concurrency", before.concurrency.to_string(), after.concurrency.to_string());
    let named = |is_open: bool| if is_open { "open" } else { "closed" }.to_owned();
    differ("loop", named(before.open_loop), named(after.open_loop));
    if let (Some(before), Some(after)) = (&before.case, &after.case) {
        differ("protocol", format!("{:?}", before.protocol()), format!("{:?}", after.protocol()));
        let flat = |case: &crate::case::Case| {
            let value = serde_json::to_value((&case.load, &case.http, &case.checks));
            value.map(|value| flatten(&value)).unwrap_or_default()
        };
        let (before, after) = (flat(before), flat(after));
        for key in before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))) {
            let of = |side: &BTreeMap<String, String>| side.get(key).cloned().unwrap_or_default();
            differ(key, of(&before), of(&after));
        }
    }
    found
}

/// Flattens a JSON array of load, request and checks into paths with their values.
fn flatten(value: &serde_json::Value) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    for (name, part) in
        ["load", "http", "checks"].iter().zip(value.as_array().into_iter().flatten())
    {
        for (key, value) in part.as_object().into_iter().flatten() {
            flat.insert(format!("{name}.{key}"), value.to_string());
        }
    }
    flat
}

/// Limit that differs between any two runs even on one machine, and is therefore not compared.
const NEVER_ALIKE: &str = "load average at start";

/// Returns the differences between two machines.
fn environments(before: &Environment, after: &Environment) -> Vec<Difference> {
    let memory = |bytes: u64| match bytes {
        0 => String::new(),
        bytes => super::figure::memory(bytes),
    };
    let mut pairs = vec![
        ("label".to_owned(), before.label.clone(), after.label.clone()),
        ("cpu".to_owned(), before.cpu.clone(), after.cpu.clone()),
        ("cores".to_owned(), before.cores.to_string(), after.cores.to_string()),
        ("memory".to_owned(), memory(before.memory_bytes), memory(after.memory_bytes)),
        ("kernel".to_owned(), before.kernel.clone(), after.kernel.clone()),
    ];
    for (kind, before, after) in
        [("version of ", &before.versions, &after.versions), ("", &before.limits, &after.limits)]
    {
        let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
        pairs.extend(names.map(|name| {
            let of = |side: &BTreeMap<String, String>| side.get(name).cloned().unwrap_or_default();
            (format!("{kind}{name}"), of(before), of(after))
        }));
    }
    pairs
        .into_iter()
        // A differing label is kept, because people identify machines by it.
        .filter(|(what, before, after)| before != after && what != NEVER_ALIKE)
        .map(|(what, before, after)| Difference { what, before, after })
        .collect()
}

#[cfg(test)]
mod tests;
