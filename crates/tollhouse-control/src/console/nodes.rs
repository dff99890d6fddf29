//! Nodes of all upstreams in service, with state and reason.

use std::fmt;

use hashbrown::HashSet;
use serde_json::{Value, json};
use tollhouse_proxy::Snapshot;
use tollhouse_proxy::snapshot::{Target, UpstreamEntry};
use tollhouse_stdx::plural::counted;
use tollhouse_upstream::health::state::{Counters, Status};
use tollhouse_upstream::{FailureStreak, Node};

use super::node_history::NodeHistory;

/// Limit of listed nodes; the answer also contains their full number.
const ROWS_MAX: usize = 1000;

/// Failures without an answer between them from which a node counts as failing. A single one may be
/// a restart.
const FAILING_FROM: u32 = 3;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(super) total: usize,
    pub(super) healthy: usize,
    /// Nodes that fail the requests sent to them, whatever their checks.
    pub(super) failing: usize,
    pub(super) unhealthy: usize,
    pub(super) unresolved: usize,
}

impl Counts {
    /// Returns the counts for answers.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "total": self.total,
            "healthy": self.healthy,
            "failing": self.failing,
            "unhealthy": self.unhealthy,
            "unresolved": self.unresolved,
        })
    }
}

/// Object that contains an upstream, such as `upstreams/1`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    collection: &'static str,
    id: &'a str,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.collection, self.id)
    }
}

/// A node with its place and its state.
pub(crate) struct NodeView<'a> {
    place: Place<'a>,
    /// Object that defines the upstream; a service for a route that has its upstream from one.
    pub(crate) owner: &'a str,
    node: &'a Node,
    pub(crate) state: NodeState,
}

impl NodeView<'_> {
    /// Returns the upstream, host and port, as the key of the history.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.place, self.name())
    }

    /// Returns the host and port as configured.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.node.host(), self.node.port())
    }

    /// Returns the address to which requests are sent, as in the records of requests; `None` if the
    /// name has no address.
    pub(crate) fn address(&self) -> Option<String> {
        self.node.address().map(|address| address.to_string())
    }
}

/// Visits at most `max` nodes whose state can change: nodes with health checks, nodes without an
/// address, and nodes that fail.
pub(crate) fn each_changeable(
    snapshot: &Snapshot,
    max: usize,
    mut show: impl FnMut(&NodeView<'_>),
) {
    let mut left = max;
    // Equal upstreams of routes are one, which is then looked at once and not for each route.
    let mut fixed = HashSet::new();
    each_upstream(snapshot, |place, upstream| {
        if fixed.contains(&std::ptr::from_ref(upstream)) {
            return;
        }
        let mut is_fixed = true;
        upstream.state.each_node(|node| {
            let state = NodeState::new(upstream, node);
            if !state.is_checked && state.is_resolved && state.streak.is_none() {
                return;
            }
            is_fixed = false;
            if left > 0 {
                left -= 1;
                show(&NodeView { place, owner: upstream.state.key(), node, state });
            }
        });
        if is_fixed {
            fixed.insert(std::ptr::from_ref(upstream));
        }
    });
}

/// Facts that decide the state of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeState {
    pub(crate) is_resolved: bool,
    pub(crate) is_checked: bool,
    pub(crate) status: Status,
    counters: Counters,
    /// Failures without an answer between them, if the node counts as failing.
    pub(crate) streak: Option<FailureStreak>,
}

impl NodeState {
    fn new(upstream: &UpstreamEntry, node: &Node) -> Self {
        let health = node.health();
        Self {
            is_resolved: node.address().is_some(),
            is_checked: upstream.state.checks().is_some(),
            status: health.status,
            counters: health.counters,
            streak: node.failure_streak().filter(|streak| streak.failures >= FAILING_FROM),
        }
    }

    /// Returns the state in one word, such as `healthy`.
    pub(crate) fn name(&self) -> &'static str {
        match (self.is_resolved, self.streak, self.status) {
            (false, ..) => "unresolved",
            (true, Some(_), _) => "failing",
            (true, None, Status::Healthy) => "healthy",
            (true, None, Status::MostlyHealthy) => "mostly_healthy",
            (true, None, Status::MostlyUnhealthy) => "mostly_unhealthy",
            (true, None, Status::Unhealthy) => "unhealthy",
        }
    }

    pub(crate) fn serves(&self) -> bool {
        self.is_resolved && self.streak.is_none() && self.status.serves()
    }

    /// Returns the reason of the state, in words.
    pub(crate) fn reason(&self) -> String {
        let Self { is_resolved, is_checked, status, counters, streak } = self;
        if !is_resolved {
            return "its name has no address".to_owned();
        }
        if let Some(streak) = streak {
            return format!("{} attempts in a row failed", streak.failures);
        }
        if !is_checked {
            return "no health checks configured".to_owned();
        }
        let failures = [
            (counters.tcp_failure, "refused or broken connection"),
            (counters.timeout_failure, "timeout"),
            (counters.http_failure, "failed response"),
        ];
        let failures = failures.into_iter().filter(|(count, _)| *count > 0);
        let failures: Vec<String> = failures.map(|(count, what)| counted(count, what)).collect();
        match status {
            Status::Healthy => "no failures".to_owned(),
            Status::MostlyHealthy => {
                let Counters { http_failure, tcp_failure, timeout_failure, .. } = *counters;
                let failed = [http_failure, tcp_failure, timeout_failure];
                let failed: u16 = failed.into_iter().map(u16::from).sum();
                format!("serving; {}", counted(failed, "failed check"))
            }
            Status::MostlyUnhealthy => {
                format!("not serving yet; {} in a row", counted(counters.success, "passed check"))
            }
            Status::Unhealthy if failures.is_empty() => "its health checks fail".to_owned(),
            Status::Unhealthy => format!("{} in a row", failures.join(", ")),
        }
    }
}

/// Returns the nodes whose upstream, name, host, address or status contains `search`. Nodes that do
/// not serve come first.
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
        let (owner, state) = (upstream.state.key(), NodeState::new(upstream, node));
        let view = NodeView { place, owner, node, state };
        row["history"] = history.node_view(&view.key());
        let rows = if view.state.serves() { &mut serving } else { &mut down };
        if rows.len() < ROWS_MAX {
            rows.push(row);
        }
    });
    down.extend(serving);
    down.truncate(ROWS_MAX);
    json!({ "total": total, "rows": down })
}

pub(crate) fn count(snapshot: &Snapshot) -> Counts {
    let mut counts = Counts::default();
    each(snapshot, |_, upstream, node| {
        counts.total += 1;
        let state = NodeState::new(upstream, node);
        let count = match (state.is_resolved, state.streak) {
            (false, _) => &mut counts.unresolved,
            (true, Some(_)) => &mut counts.failing,
            (true, None) if state.serves() => &mut counts.healthy,
            (true, None) => &mut counts.unhealthy,
        };
        *count += 1;
    });
    counts
}

fn each(snapshot: &Snapshot, mut show: impl FnMut(Place<'_>, &UpstreamEntry, &Node)) {
    each_upstream(snapshot, |place, upstream| {
        upstream.state.each_node(|node| show(place, upstream, node));
    });
}

fn each_upstream(snapshot: &Snapshot, mut show: impl FnMut(Place<'_>, &UpstreamEntry)) {
    for upstream in snapshot.upstreams.iter().flatten() {
        let id = upstream.conf.id.as_ref().map_or("", |id| id.as_str());
        show(Place { collection: "upstreams", id }, upstream);
    }
    let routes = snapshot.router.values();
    let routes = routes.map(|entry| ("routes", entry.route.id.as_str(), &entry.target));
    let streams = snapshot.streams.routes();
    let streams = streams.map(|entry| ("stream_routes", entry.route.id.as_str(), &entry.target));
    for (collection, id, target) in routes.chain(streams) {
        if let Target::Inline(upstream) = target {
            show(Place { collection, id }, upstream);
        }
    }
}

fn texts(row: &Value) -> impl Iterator<Item = &str> {
    ["place", "name", "host", "address", "status"].into_iter().filter_map(|it| row[it].as_str())
}

fn row(place: Place<'_>, upstream: &UpstreamEntry, node: &Node) -> Value {
    let address = node.address().map(|address| address.to_string());
    let state = NodeState::new(upstream, node);
    json!({
        "place": place.to_string(),
        "name": upstream.conf.name.as_ref().map(ToString::to_string),
        "host": node.host(),
        "port": node.port(),
        "address": address,
        "weight": node.weight(),
        "priority": node.priority(),
        "share_percent": node.share_percent(),
        "is_checked": state.is_checked,
        "status": state.name(),
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
            (true, false, Status::Healthy, none, "no health checks configured"),
            (false, true, Status::Healthy, none, "its name has no address"),
            (true, true, Status::Unhealthy, counters, "3 refused or broken connections in a row"),
            (true, true, Status::Unhealthy, none, "its health checks fail"),
        ] {
            let state = NodeState { is_resolved, is_checked, status, counters, streak: None };
            assert_eq!(state.reason(), expected);
        }
    }

    #[test]
    fn a_node_that_fails_does_not_serve_whatever_its_checks() {
        let streak = FailureStreak { failures: 7, since_ms: 1, last_ms: 2 };
        for is_checked in [true, false] {
            let state = NodeState {
                is_resolved: true,
                is_checked,
                status: Status::Healthy,
                counters: Counters::default(),
                streak: Some(streak),
            };
            assert_eq!((state.name(), state.serves()), ("failing", false));
            assert_eq!(state.reason(), "7 attempts in a row failed");
        }
    }
}
