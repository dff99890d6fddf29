//! Nodes of all upstreams in service, with state and reason.

use serde_json::{Value, json};
use tollhouse_proxy::Snapshot;
use tollhouse_proxy::snapshot::{Target, UpstreamEntry};
use tollhouse_upstream::Node;
use tollhouse_upstream::health::state::{Counters, Status};

use super::node_history::NodeHistory;

/// Limit of listed nodes; the answer also contains their full number.
const ROWS_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) total: usize,
    pub(super) healthy: usize,
    pub(super) unhealthy: usize,
    pub(super) unresolved: usize,
}

/// State of one node.
pub(super) struct NodeView<'a> {
    /// Upstream, host and port, as the key of the history.
    pub(super) key: String,
    /// State in one word, such as `healthy`.
    pub(super) state: &'static str,
    /// Computes the reason of the state.
    pub(super) reason: &'a dyn Fn() -> String,
}

/// Visits at most `max` nodes whose state can change: nodes with health checks, and nodes without
/// an address.
pub(super) fn each_changeable(
    snapshot: &Snapshot,
    max: usize,
    mut show: impl FnMut(&NodeView<'_>),
) {
    let mut left = max;
    each(snapshot, |place, upstream, node| {
        let state = NodeState::new(upstream, node);
        if left == 0 || (!state.is_checked && state.is_resolved) {
            return;
        }
        left -= 1;
        let (reason, state) = (|| state.reason(), state.name());
        show(&NodeView { key: key_of(place, node), state, reason: &reason });
    });
}

/// Facts that decide the state of a node.
#[derive(Debug, Clone, Copy)]
struct NodeState {
    is_resolved: bool,
    is_checked: bool,
    status: Status,
    counters: Counters,
}

impl NodeState {
    fn new(upstream: &UpstreamEntry, node: &Node) -> Self {
        let health = node.health();
        Self {
            is_resolved: node.address().is_some(),
            is_checked: upstream.state.checks().is_some(),
            status: health.status,
            counters: health.counters,
        }
    }

    fn name(&self) -> &'static str {
        match (self.is_resolved, self.status) {
            (false, _) => "unresolved",
            (true, Status::Healthy) => "healthy",
            (true, Status::MostlyHealthy) => "mostly_healthy",
            (true, Status::MostlyUnhealthy) => "mostly_unhealthy",
            (true, Status::Unhealthy) => "unhealthy",
        }
    }

    /// Reason of the state, in words.
    fn reason(&self) -> String {
        let Self { is_resolved, is_checked, status, counters } = self;
        if !is_resolved {
            return "its name has no address".to_owned();
        }
        if !is_checked {
            return "no checks are set for it".to_owned();
        }
        let failures = [
            (counters.tcp_failure, "refused or broken connections"),
            (counters.timeout_failure, "time-outs"),
            (counters.http_failure, "bad statuses"),
        ];
        let failures = failures.into_iter().filter(|(count, _)| *count > 0);
        let failures: Vec<String> =
            failures.map(|(count, what)| format!("{count} {what}")).collect();
        match status {
            Status::Healthy => "no failures".to_owned(),
            Status::MostlyHealthy => format!("it serves after {}", failures.join(", ")),
            Status::MostlyUnhealthy => {
                format!("it is coming back: {} good answers in a row", counters.success)
            }
            Status::Unhealthy if failures.is_empty() => "its checks fail".to_owned(),
            Status::Unhealthy => format!("{} in a row", failures.join(", ")),
        }
    }
}

fn key_of(place: &str, node: &Node) -> String {
    format!("{place} {}:{}", node.host(), node.port())
}

/// Nodes whose upstream, name, host, address or status contains `search`. Nodes that do not serve
/// come first.
pub(super) fn list(snapshot: &Snapshot, history: &NodeHistory, search: &str) -> Value {
    let mut serving = Vec::new();
    let mut down = Vec::new();
    let mut total = 0;
    each(snapshot, |place, upstream, node| {
        let row = row(place, upstream, node);
        let is_wanted = search.is_empty() || texts(&row).any(|text| text.contains(search));
        if !is_wanted {
            return;
        }
        total += 1;
        let mut row = row;
        row["history"] = history.node_view(&key_of(place, node));
        let is_down = !node.health().status.serves() || node.address().is_none();
        let rows = if is_down { &mut down } else { &mut serving };
        if rows.len() < ROWS_MAX {
            rows.push(row);
        }
    });
    down.extend(serving);
    down.truncate(ROWS_MAX);
    json!({ "total": total, "rows": down })
}

pub(super) fn count(snapshot: &Snapshot) -> Counts {
    let mut counts = Counts::default();
    each(snapshot, |_, _, node| {
        counts.total += 1;
        let count = match (node.address(), node.health().status.serves()) {
            (None, _) => &mut counts.unresolved,
            (Some(_), true) => &mut counts.healthy,
            (Some(_), false) => &mut counts.unhealthy,
        };
        *count += 1;
    });
    counts
}

fn each(snapshot: &Snapshot, mut show: impl FnMut(&str, &UpstreamEntry, &Node)) {
    for upstream in snapshot.upstreams.iter().flatten() {
        let id = upstream.conf.id.as_ref().map(ToString::to_string).unwrap_or_default();
        let place = format!("upstreams/{id}");
        upstream.state.each_node(|node| show(&place, upstream, node));
    }
    for entry in snapshot.router.values() {
        if let Target::Inline(upstream) = &entry.target {
            let place = format!("routes/{}", entry.route.id);
            upstream.state.each_node(|node| show(&place, upstream, node));
        }
    }
}

fn texts(row: &Value) -> impl Iterator<Item = &str> {
    ["place", "name", "host", "address", "status"].into_iter().filter_map(|it| row[it].as_str())
}

fn row(place: &str, upstream: &UpstreamEntry, node: &Node) -> Value {
    let address = node.address().map(|address| address.to_string());
    let state = NodeState::new(upstream, node);
    json!({
        "place": place,
        "name": upstream.conf.name.as_ref().map(ToString::to_string),
        "host": node.host(),
        "port": node.port(),
        "address": address,
        "weight": node.weight(),
        "priority": node.priority(),
        "share_percent": node.share_percent(),
        "is_checked": state.is_checked,
        "status": state.status,
        "counters": state.counters,
        "reason": state.reason(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_what_was_counted() {
        let counters = Counters { tcp_failure: 3, ..Counters::default() };
        let none = Counters::default();
        for (is_resolved, is_checked, status, counters, expected) in [
            (true, true, Status::Healthy, none, "no failures"),
            (true, false, Status::Healthy, none, "no checks are set for it"),
            (false, true, Status::Healthy, none, "its name has no address"),
            (true, true, Status::Unhealthy, counters, "3 refused or broken connections in a row"),
            (true, true, Status::Unhealthy, none, "its checks fail"),
        ] {
            let state = NodeState { is_resolved, is_checked, status, counters };
            assert_eq!(state.reason(), expected);
        }
    }
}
