//! Checks that all subjects received equal load and answered alike.

use super::view::{Group, Session};
use super::{Findings, Severity};
use crate::report::figure;
use crate::result::CaseResult;

/// Difference in the share of requests on new connections above which subjects behave differently.
const NEW_CONNECTIONS_APART: f64 = 0.10;
/// Relative difference in body length above which responses count as different.
const LENGTH_APART: f64 = 0.01;

/// Checks that the subjects of a case have equal keep-alive, load and payload, and that no response
/// came from a cache.
pub(super) fn conditions(session: &Session<'_>, findings: &mut Findings) {
    for (index, group) in session.groups.iter().enumerate() {
        let is_first = !session.groups[..index].iter().any(|other| other.name == group.name);
        if is_first {
            let others = session.groups[index + 1..].iter();
            same_case(group, others.filter(|other| other.name == group.name), findings);
        }
    }
    for result in session.results() {
        if let Some((name, value)) = cache_hit(result) {
            findings.about(
                result,
                "cache",
                Severity::Caution,
                format!(
                    "The first answer came out of a cache ({name}: {value}): what was measured is the \
                     cache. Turn caching off, or say so next to the figure."
                ),
            );
        }
    }
}

fn same_case<'a>(
    group: &Group<'_>,
    others: impl Iterator<Item = &'a Group<'a>>,
    findings: &mut Findings,
) {
    for other in others {
        let differences = differences(group.first(), other.first());
        if !differences.is_empty() {
            findings.about(
                other.first(),
                "same-conditions",
                Severity::Caution,
                format!(
                    "Not measured like {}: {}. Make both alike before comparing them.",
                    group.title(),
                    differences.join("; "),
                ),
            );
        }
    }
}

fn differences(one: &CaseResult, other: &CaseResult) -> Vec<String> {
    let mut found = Vec::new();
    if one.concurrency > 0 && other.concurrency > 0 && one.concurrency != other.concurrency {
        found.push(format!("{} connections against {}", other.concurrency, one.concurrency));
    }
    if let (Some(left), Some(right)) = (&one.case, &other.case) {
        if left.load.keep_alive != right.load.keep_alive {
            let on = |keep_alive: bool| if keep_alive { "on" } else { "off" };
            found.push(format!(
                "keep-alive {} against {}",
                on(right.load.keep_alive),
                on(left.load.keep_alive)
            ));
        }
        if left.protocol() != right.protocol() {
            found.push(format!("{:?} against {:?}", right.protocol(), left.protocol()));
        }
    }
    // Compares the observed behaviour too, because equal settings mean little if one server closes
    // connections or sends shorter responses.
    if let (Some(left), Some(right)) = (new_connections(one), new_connections(other))
        && (left - right).abs() > NEW_CONNECTIONS_APART
    {
        let shown = |share: f64| figure::percent(share);
        found.push(format!(
            "{} of the requests came on a new connection, against {}: one side closes them",
            shown(right),
            shown(left)
        ));
    }
    if let (Some(left), Some(right)) = (body_bytes(one), body_bytes(other))
        && (left - right).abs() > LENGTH_APART * left.max(right)
    {
        found.push(format!(
            "bodies of {} bytes against {}",
            figure::rate(right),
            figure::rate(left)
        ));
    }
    found
}

/// Returns the share of requests sent on a new connection; `None` if the result does not tell.
fn new_connections(result: &CaseResult) -> Option<f64> {
    let counts = &result.counts;
    let is_known = result.case.is_some() && counts.completed > 0 && counts.connections_opened > 0;
    is_known.then(|| 1.0 - (counts.reused as f64 / counts.completed as f64).min(1.0))
}

fn body_bytes(result: &CaseResult) -> Option<f64> {
    let answers = result.counts.statuses.values().sum::<u64>();
    (answers > 0).then(|| result.counts.body_bytes as f64 / answers as f64)
}

/// Returns the response header that indicates a cache hit.
pub(super) fn cache_hit(result: &CaseResult) -> Option<(&str, &str)> {
    let tells = |name: &str, value: &str| {
        let name = name.to_ascii_lowercase();
        let is_status = name.ends_with("cache")
            || name.ends_with("cache-status")
            || name.ends_with("cache-lookup");
        let says_hit = value.to_ascii_lowercase().contains("hit");
        (is_status && says_hit) || (name == "age" && value.trim() != "0")
    };
    let found = result.first_head.iter().find(|(name, value)| tells(name, value));
    found.map(|(name, value)| (name.as_str(), value.as_str()))
}
