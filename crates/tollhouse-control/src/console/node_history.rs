//! Recent state changes of upstream nodes, with reasons. A poll every second detects them, so that
//! requests and health checks carry no extra work. Changes that revert within a second are missed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollhouse_proxy::{Snapshot, SnapshotCell};

use super::nodes;

/// Interval between two looks at the nodes.
const INTERVAL: Duration = Duration::from_secs(1);

/// Limit of recorded changes per node.
const KEPT_MAX: usize = 20;

/// Limit of followed nodes, because a poll must stay short. Only nodes with health checks, without
/// an address or with failures are followed, because no other node changes its state.
const NODES_MAX: usize = 5_000;

/// Recent state changes of all nodes.
#[derive(Debug, Default)]
pub struct NodeHistory(Mutex<HashMap<Box<str>, Node>>);

#[derive(Debug)]
struct Node {
    state: &'static str,
    since_ms: u64,
    changes: VecDeque<Change>,
    /// Whether the last poll found the node.
    is_there: bool,
}

#[derive(Debug)]
struct Change {
    at_ms: u64,
    from: &'static str,
    to: &'static str,
    reason: String,
}

impl NodeHistory {
    pub async fn run(self: Arc<Self>, snapshots: Arc<SnapshotCell>) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            interval.tick().await;
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.look(&snapshots.load(), u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        }
    }

    fn look(&self, snapshot: &Snapshot, now_ms: u64) {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.values_mut().for_each(|node| node.is_there = false);
        nodes::each_changeable(snapshot, NODES_MAX, |view| {
            let seen = Sighting { state: view.state.name(), now_ms };
            note(&mut states, &view.key(), seen, || view.state.reason());
        });
        states.retain(|_, node| node.is_there);
    }

    /// Returns the start time of the node's current state, in milliseconds since 1970; `None` for
    /// an unknown node.
    pub(crate) fn since_ms(&self, key: &str) -> Option<u64> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(key).map(|node| node.since_ms)
    }

    /// Returns the start time of the node's current state, and its earlier states, newest first.
    pub(super) fn node_view(&self, key: &str) -> Value {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = states.get(key) else { return Value::Null };
        let changes = node.changes.iter().rev().map(|change| {
            json!({
                "at_ms": change.at_ms,
                "from": change.from,
                "to": change.to,
                "reason": change.reason,
            })
        });
        json!({ "since_ms": node.since_ms, "changes": changes.collect::<Value>() })
    }
}

/// State of a node at the time of a poll.
struct Sighting {
    state: &'static str,
    now_ms: u64,
}

/// Notes the state of a node; `reason` is asked only for a change.
fn note(
    states: &mut HashMap<Box<str>, Node>,
    key: &str,
    Sighting { state, now_ms }: Sighting,
    reason: impl FnOnce() -> String,
) {
    let Some(node) = states.get_mut(key) else {
        if states.len() < NODES_MAX {
            let changes = VecDeque::new();
            let node = Node { state, since_ms: now_ms, changes, is_there: true };
            states.insert(key.into(), node);
        }
        return;
    };
    node.is_there = true;
    if node.state == state {
        return;
    }
    if node.changes.len() == KEPT_MAX {
        node.changes.pop_front();
    }
    let change = Change { at_ms: now_ms, from: node.state, to: state, reason: reason() };
    node.changes.push_back(change);
    (node.state, node.since_ms) = (state, now_ms);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(states: &mut HashMap<Box<str>, Node>, state: &'static str, now_ms: u64) {
        let reason = || "3 time-outs in a row".to_owned();
        note(states, "upstreams/1 a:1", Sighting { state, now_ms }, reason);
    }

    #[test]
    fn what_stays_is_no_change_and_what_changes_is_told_with_its_reason() {
        let history = NodeHistory::default();
        {
            let mut states = history.0.lock().expect("no holder of the lock panics");
            for (state, at) in [("healthy", 1), ("healthy", 2), ("unhealthy", 3), ("healthy", 9)] {
                see(&mut states, state, at);
            }
        }
        let told = history.node_view("upstreams/1 a:1");
        assert_eq!(told["since_ms"], 9);
        let changes = told["changes"].as_array().expect("a list");
        assert_eq!(changes.len(), 2);
        assert_eq!(
            (&changes[0]["to"], &changes[1]["to"]),
            (&json!("healthy"), &json!("unhealthy"))
        );
        assert_eq!(changes[1]["reason"], "3 time-outs in a row");
        assert_eq!(history.node_view("another"), Value::Null);
    }

    #[test]
    fn a_node_that_flaps_keeps_its_last_changes_alone() {
        let mut states = HashMap::new();
        for at in 0..100 {
            see(&mut states, if at % 2 == 0 { "healthy" } else { "unhealthy" }, at);
        }
        let node = states.values().next().expect("one node");
        assert_eq!(
            (node.changes.len(), node.changes.back().map(|it| it.at_ms)),
            (KEPT_MAX, Some(99))
        );
    }
}
