//! Findings about nodes: those that fail requests, whatever their checks; those that do not pass
//! their checks; and those without an address.

use std::collections::HashSet;

use tollhouse_proxy::Snapshot;
use tollhouse_upstream::FailureStreak;

use super::finding::{Finding, Kind, RequestQuery, Severity};
use crate::console::node_history::NodeHistory;
use crate::console::nodes::{self, NodeView};

/// Limit of findings about nodes, because more would hide the others.
const NODES_MAX: usize = 100;

/// Age in milliseconds from which the last failure of a node is ignored, because no request has
/// tried the node since.
const STALE_MS: u64 = 5 * 60 * 1000;

/// Adds the findings about nodes of all upstreams in service.
pub(super) fn find(
    snapshot: &Snapshot,
    history: &NodeHistory,
    now_ms: u64,
    findings: &mut Vec<Finding>,
) {
    // Routes of one service share its upstream.
    let mut subjects = HashSet::new();
    nodes::each_changeable(snapshot, usize::MAX, |view| {
        if subjects.len() == NODES_MAX || (view.state.streak.is_none() && view.state.serves()) {
            return;
        }
        let subject = format!("{} {}", view.owner, view.name());
        if !subjects.insert(subject.clone()) {
            return;
        }
        let since_ms = history.since_ms(&view.key());
        let finding = match view.state.streak {
            Some(streak) => failing(view, subject, &streak, now_ms),
            None => Finding { since_ms, ..not_serving(view, subject) },
        };
        findings.push(finding);
    });
}

/// Returns a finding about a node that has failed several requests in a row.
fn failing(view: &NodeView<'_>, subject: String, streak: &FailureStreak, now_ms: u64) -> Finding {
    let name = view.name();
    let is_stale = now_ms.saturating_sub(streak.last_ms) > STALE_MS;
    let severity = if is_stale { Severity::Warning } else { Severity::Problem };
    let what = format!("node {name} of {} fails: {}", view.owner, view.state.reason());
    let remedy = format!("start the server at {name}, or take the node out of {}", view.owner);
    let address = view.address().unwrap_or(name);
    Finding::about(severity, Kind::NodeFailing, subject, what)
        .with_remedy(remedy)
        .with_count(streak.failures.into())
        .since(streak.since_ms)
        .with_requests(RequestQuery { search: Some(address), ..RequestQuery::default() })
}

fn not_serving(view: &NodeView<'_>, subject: String) -> Finding {
    let (name, owner) = (view.name(), view.owner);
    if !view.state.is_resolved {
        let what = format!("node {name} of {owner} has no address: no name server knows its name");
        return Finding::about(Severity::Warning, Kind::NodeUnresolved, subject, what)
            .with_remedy("check the name, and dns.servers");
    }
    let what = format!("node {name} of {owner} gets no requests: {}", view.state.reason());
    Finding::about(Severity::Warning, Kind::NodeUnhealthy, subject, what)
        .with_remedy("see the server's log; it gets requests again once its checks pass")
}
