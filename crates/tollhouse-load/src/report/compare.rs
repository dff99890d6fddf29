//! Comparison of two reports: faster, slower, or no provable difference.
//!
//! Results are matched by subject and case; what is left by case alone; a single case that is left
//! on each side by being the only one. The runs of each side are combined (percentiles from merged
//! histograms). A difference is reported only if both sides were repeated and their ranges
//! do not overlap; otherwise the verdict gives the reason.

mod figure;
mod text;

use std::collections::BTreeMap;

use super::{Environment, Report};
use crate::result::CaseResult;

pub(super) use figure::merged;
pub use figure::{Estimate, Figure};
pub use text::text;

#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub before: String,
    pub after: String,
    /// Differences between the environments.
    pub environment: Vec<Difference>,
    /// Cases that are compared, in the order of the second report.
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
    /// Subject, case and target of each side, unless they are the same.
    pub measured: Option<Difference>,
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
    let pairs = pairs(&left, &right);
    let compared = |(place, (key, runs)): (usize, &Runs<'_>)| {
        let (_, other) = &left[pairs[place]?];
        Some(compare_case(*key, other, runs))
    };
    let unpaired = right.iter().zip(&pairs).filter(|(_, pair)| pair.is_none());
    let missing = left.iter().enumerate().filter(|(place, _)| !pairs.contains(&Some(*place)));
    let title = |(subject, name): &Key<'_>| title(subject, name);
    Comparison {
        before: before.title.clone(),
        after: after.title.clone(),
        environment: environments(&before.environment, &after.environment),
        cases: right.iter().enumerate().filter_map(compared).collect(),
        only_before: missing.map(|(_, (key, _))| title(key)).collect(),
        only_after: unpaired.map(|((key, _), _)| title(key)).collect(),
    }
}

/// Returns for each case of the right side the place of its counterpart on the left.
fn pairs(left: &[Runs<'_>], right: &[Runs<'_>]) -> Vec<Option<usize>> {
    let equal = |(key, _): &Runs<'_>| left.iter().position(|(other, _)| other == key);
    let mut pairs: Vec<Option<usize>> = right.iter().map(equal).collect();
    // Two subjects with the same cases, such as two gateways.
    for (place, ((_, name), _)) in right.iter().enumerate() {
        let is_named = |runs: &Runs<'_>| runs.0.1 == *name;
        let rest = (0..left.len()).filter(|at| !pairs.contains(&Some(*at)) && is_named(&left[*at]));
        let rest: Vec<usize> = rest.collect();
        let rivals = (0..right.len()).filter(|at| pairs[*at].is_none() && is_named(&right[*at]));
        if let ([only], 1, None) = (&rest[..], rivals.count(), pairs[place]) {
            pairs[place] = Some(*only);
        }
    }
    let rest: Vec<usize> = (0..left.len()).filter(|at| !pairs.contains(&Some(*at))).collect();
    let open: Vec<usize> = (0..right.len()).filter(|at| pairs[*at].is_none()).collect();
    if let ([only], [place]) = (&rest[..], &open[..]) {
        pairs[*place] = Some(*only);
    }
    pairs
}

impl CaseComparison {
    /// Returns subject and case; only the case if the subject is empty.
    pub fn title(&self) -> String {
        title(&self.subject, &self.name)
    }
}

pub(super) fn title(subject: &str, name: &str) -> String {
    if subject.is_empty() { name.to_owned() } else { format!("{subject} / {name}") }
}

/// Subject and name of a case.
pub(super) type Key<'a> = (&'a str, &'a str);
/// Runs with equal subject and case.
pub(super) type Runs<'a> = (Key<'a>, Vec<&'a CaseResult>);

pub(super) fn by_case(report: &Report) -> Vec<Runs<'_>> {
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
        measured: measured(before[0], after[0]),
        differences: load_differences(before[0], after[0]),
        figures,
    }
}

/// Returns what both sides measured, unless it is the same.
fn measured(before: &CaseResult, after: &CaseResult) -> Option<Difference> {
    let told = |result: &CaseResult| {
        let title = title(&result.subject, &result.name);
        match result.case.as_ref().map(|case| case.target.as_str()) {
            Some(target) if target != title => format!("{title} at {target}"),
            _ => title,
        }
    };
    let (before, after) = (told(before), told(after));
    (before != after).then(|| Difference { what: "measured".to_owned(), before, after })
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
