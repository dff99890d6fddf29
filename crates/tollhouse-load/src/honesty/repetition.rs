//! Checks whether a difference can be distinguished from chance.

use super::view::{Group, Session, names};
use super::{Findings, Severity};
use crate::report::figure;
use crate::report::{RUNS_MIN, Spread};

/// Spread of the runs of a case, relative to their median, above which it is reported.
const WIDTH_MAX: f64 = 0.10;

/// Reports cases whose runs disagree, and pairs of subjects that must not be ranked because the
/// ranges of their runs overlap.
pub(super) fn spread(session: &Session<'_>, findings: &mut Findings) {
    for group in &session.groups {
        let Some(rates) = rates(group).filter(|rates| rates.runs > 1) else { continue };
        if rates.width() > WIDTH_MAX {
            findings.about(
                group.first(),
                "spread",
                Severity::Caution,
                format!(
                    "{} runs lie between {} and {} requests/s, {} of their median {}: something else is \
                     at work. Quote the range, and find out what it is.",
                    rates.runs,
                    figure::rate(rates.low),
                    figure::rate(rates.high),
                    figure::percent(rates.width()),
                    figure::rate(rates.median),
                ),
            );
        }
    }
    // Only a note: readers rank any two rows placed next to each other.
    let pairs = overlapping(session);
    if !pairs.is_empty() {
        findings.overall(
            "ranking",
            Severity::Note,
            format!(
                "The ranges of the runs overlap, so neither is the faster one: {}. Measure more often, or \
                 say that no difference was found.",
                names(&pairs),
            ),
        );
    }
}

/// Returns pairs of subjects whose rates in a case overlap between their slowest and fastest runs,
/// so that ranking them would be wrong.
fn overlapping(session: &Session<'_>) -> Vec<String> {
    let mut pairs = Vec::new();
    for (index, left) in session.groups.iter().enumerate() {
        let others = session.groups[index + 1..].iter();
        for right in others.filter(|right| right.name == left.name && right.subject != left.subject)
        {
            let (Some(one), Some(other)) = (rates(left), rates(right)) else { continue };
            if one.runs > 1 && other.runs > 1 && !left.first().open_loop && one.overlaps(&other) {
                pairs.push(format!("{} and {} in {}", left.subject, right.subject, left.name));
            }
        }
    }
    pairs
}

/// Reports cases with fewer than three runs.
pub(super) fn repetitions(session: &Session<'_>, findings: &mut Findings) {
    let is_measured = |group: &&Group<'_>| group.first().case.is_some();
    let few: Vec<String> = session
        .groups
        .iter()
        .filter(is_measured)
        .filter(|group| group.runs.len() < RUNS_MIN)
        .map(Group::title)
        .collect();
    if few.is_empty() {
        return;
    }
    let (severity, ranking) = match session.subjects().len() > 1 {
        true => (Severity::Caution, " The subjects cannot be ranked by them."),
        false => (Severity::Note, ""),
    };
    findings.overall(
        "repetitions",
        severity,
        format!(
            "Fewer than {RUNS_MIN} runs ({}): how much of a figure is chance is unknown.{ranking} Measure \
             every case {RUNS_MIN} times (--repeat {RUNS_MIN}) and quote median and range.",
            session.called(&few),
        ),
    );
}

fn rates(group: &Group<'_>) -> Option<Spread> {
    Spread::from_values(group.runs.iter().map(|run| run.goodput).filter(|rate| *rate > 0.0))
}
