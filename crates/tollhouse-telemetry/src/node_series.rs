//! Answers of each node on one core, by its address.
//!
//! A connection to a node holds the counts of the node, so that an answer costs no look-up. The
//! core lists the nodes that it uses; the number is bounded, and nodes that are no longer used are
//! removed. Readers hold the counts too, which end when only readers hold them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use hashbrown::HashMap;
use tollhouse_stdx::Endpoint;

use crate::counters::Counter;
use crate::histogram::{Histogram, Observation};
use crate::labels::StatusClass;
use crate::route_series::{Classes, RequestTotals};

/// Memory of the counts of all nodes of a core.
const NODES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Nodes with counts of their own on a core.
const NODES_MAX: usize = NODES_BYTES_MAX / size_of::<NodeCounts>();

/// Time after which a node without connections and requests is removed.
const IDLE_MS: u64 = 10 * 60 * 1000;

/// References to the counts of a node without a connection: of the list, and of readers.
const REFERENCES_IDLE: usize = 2;

/// Counts of one node on one core.
#[derive(Debug)]
pub struct NodeCounts {
    /// Address of the node; `None` for all nodes beyond the bound.
    address: Option<Endpoint>,
    classes: Classes,
    /// Attempts without an answer.
    failed: Counter,
    durations: Histogram,
}

impl NodeCounts {
    fn new(address: Option<Endpoint>) -> Arc<Self> {
        Arc::new(Self {
            address,
            classes: Classes::default(),
            failed: Counter::default(),
            durations: Histogram::default(),
        })
    }

    /// Counts an answer, and the time until its head.
    #[inline]
    pub fn answered(&self, status: u16, time: Observation) {
        self.classes.increment(StatusClass::from_status(status));
        self.durations.observe(time);
    }

    /// Counts an attempt that the node did not answer.
    pub fn fail(&self) {
        self.failed.increment();
    }

    /// Attempts at the node.
    fn attempts(&self) -> u64 {
        let mut totals = RequestTotals::default();
        totals.add_classes(&self.classes);
        totals.classes.iter().sum::<u64>() + self.failed.value()
    }
}

/// Nodes that a core uses.
#[derive(Debug)]
pub struct CoreNodes {
    /// Counts with the attempts at the last sweep.
    by_address: RefCell<HashMap<Endpoint, (Arc<NodeCounts>, u64)>>,
    other: RefCell<Option<Arc<NodeCounts>>>,
    fresh: Sender<Arc<NodeCounts>>,
    next_sweep_ms: Cell<u64>,
}

impl CoreNodes {
    /// Counts of the node at `address`. Called when a connection is opened or an attempt fails.
    #[cold]
    pub fn counts(&self, address: Endpoint) -> Arc<NodeCounts> {
        let mut by_address = self.by_address.borrow_mut();
        if let Some((counts, _)) = by_address.get(&address) {
            return Arc::clone(counts);
        }
        if by_address.len() >= NODES_MAX {
            by_address.retain(|_, (counts, _)| Arc::strong_count(counts) > REFERENCES_IDLE);
        }
        if by_address.len() >= NODES_MAX {
            let mut other = self.other.borrow_mut();
            return Arc::clone(other.get_or_insert_with(|| self.publish(None)));
        }
        let counts = self.publish(Some(address));
        by_address.insert(address, (Arc::clone(&counts), 0));
        counts
    }

    /// Creates counts that readers know.
    fn publish(&self, address: Option<Endpoint>) -> Arc<NodeCounts> {
        let counts = NodeCounts::new(address);
        // Fails only after the last reader has gone.
        let _ = self.fresh.send(Arc::clone(&counts));
        counts
    }

    /// Removes nodes without connections that got no requests since the last sweep.
    pub fn sweep(&self, now_ms: u64) {
        if now_ms < self.next_sweep_ms.get() {
            return;
        }
        self.next_sweep_ms.set(now_ms + IDLE_MS);
        self.by_address.borrow_mut().retain(|_, (counts, before)| {
            let attempts = counts.attempts();
            let is_used = Arc::strong_count(counts) > REFERENCES_IDLE || attempts != *before;
            *before = attempts;
            is_used
        });
    }
}

/// Counts of the nodes of all cores, for readers.
#[derive(Debug)]
pub(crate) struct NodeReadings {
    sender: Sender<Arc<NodeCounts>>,
    /// New counts. Bounded by the limit of a core, which sends each once.
    fresh: Receiver<Arc<NodeCounts>>,
    all: Vec<Arc<NodeCounts>>,
}

impl Default for NodeReadings {
    fn default() -> Self {
        let (sender, fresh) = channel();
        Self { sender, fresh, all: Vec::new() }
    }
}

/// A node with its counts on all cores; the address is `None` for the nodes beyond the bound.
pub(crate) type NodeRow = (Option<Endpoint>, Vec<Arc<NodeCounts>>);

impl NodeReadings {
    /// The list for a new core.
    pub(crate) fn for_core(&self) -> CoreNodes {
        CoreNodes {
            by_address: RefCell::default(),
            other: RefCell::default(),
            fresh: self.sender.clone(),
            next_sweep_ms: Cell::new(IDLE_MS),
        }
    }

    /// Nodes in use, sorted by address.
    pub(crate) fn rows(&mut self) -> Vec<NodeRow> {
        self.all.extend(self.fresh.try_iter());
        // Counts that only this list holds are of nodes that were removed, or of ended cores.
        self.all.retain(|counts| Arc::strong_count(counts) > 1);
        let mut rows: HashMap<Option<Endpoint>, Vec<Arc<NodeCounts>>> = HashMap::new();
        for counts in &self.all {
            rows.entry(counts.address).or_default().push(Arc::clone(counts));
        }
        let mut rows: Vec<NodeRow> = rows.into_iter().collect();
        rows.sort_by_cached_key(|(address, _)| address.map(|address| address.to_string()));
        rows
    }
}

/// Sums the counts of a node over the cores; the second figure is attempts without an answer.
pub(crate) fn sum(row: &[Arc<NodeCounts>]) -> (RequestTotals, u64) {
    let mut totals = RequestTotals::default();
    let mut failed = 0;
    for counts in row {
        totals.add_classes(&counts.classes);
        counts.durations.add_to(&mut totals.durations);
        failed += counts.failed.value();
    }
    (totals, failed)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn address(number: u32) -> Endpoint {
        let [_, a, b, c] = number.to_be_bytes();
        Endpoint::Ip(SocketAddr::from(([10, a, b, c], 80)))
    }

    #[test]
    fn cores_are_added_up_by_address() {
        let mut readings = NodeReadings::default();
        let (one, other) = (readings.for_core(), readings.for_core());
        let counts = [one.counts(address(1)), other.counts(address(1)), one.counts(address(2))];
        counts.iter().for_each(|counts| counts.answered(200, Observation::from_ms(4)));
        counts[1].answered(503, Observation::from_ms(4));
        one.counts(address(1)).fail();
        let rows = readings.rows();
        assert_eq!(rows.len(), 2);
        let (totals, failed) = sum(&rows[0].1);
        assert_eq!((rows[0].0, totals.classes, failed), (Some(address(1)), [0, 2, 0, 0, 1, 0], 1));
        assert_eq!(totals.durations.count(), 3);
    }

    #[test]
    fn a_node_without_connections_and_requests_ends() {
        let mut readings = NodeReadings::default();
        let core = readings.for_core();
        let (held, _) = (core.counts(address(1)), core.counts(address(2)).fail());
        assert_eq!(readings.rows().len(), 2);
        core.sweep(IDLE_MS - 1);
        core.sweep(IDLE_MS);
        assert_eq!(readings.rows().len(), 2, "both got something since the start, or are held");
        core.sweep(2 * IDLE_MS);
        let rows = readings.rows();
        assert_eq!((rows.len(), rows[0].0), (1, Some(address(1))));
        held.fail();
    }

    #[test]
    fn nodes_beyond_the_bound_are_counted_as_one() {
        let mut readings = NodeReadings::default();
        let core = readings.for_core();
        let held: Vec<_> =
            (0..NODES_MAX as u32 + 2).map(|node| core.counts(address(node))).collect();
        let rows = readings.rows();
        assert_eq!((rows.len(), rows[0].0, rows[0].1.len()), (NODES_MAX + 1, None, 1));
        drop((rows, held));
        core.counts(address(NODES_MAX as u32 + 9));
        assert_eq!(readings.rows().len(), 2, "room is made, and the rest is still one");
    }
}
