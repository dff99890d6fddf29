//! Active checker of one upstream: schedules the probes and records their outcomes.
//!
//! The checker follows the upstream through its snapshots. Remaining nodes keep their schedule; new
//! ones wait one interval for their first probe. `supervisor.rs` starts and stops checkers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollhouse_model::upstream::Checks;
use tollhouse_stdx::random::Random;

use super::probe::{Probe, ProbeOutcome, Prober, host_text};
use super::state::Signal;
use crate::node::{Node, NodeAddress};
use crate::node_set::NodeSet;
use crate::pick::NodeIndex;
use crate::state::UpstreamState;

/// Maximum delay until a change of the nodes or of their health affects the schedule.
const ATTENTION: Duration = Duration::from_secs(1);

/// Minimum interval between two probes of a node, so that a configuration cannot cause a busy loop.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Divisor of the probe interval that yields the period over which first probes are spread, so that
/// gateways that start together do not probe together.
const JITTER_DIVISOR: u64 = 10;

pub(crate) struct Checker {
    pub(crate) upstream: Arc<ArcSwap<UpstreamState>>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) prober: Arc<dyn Prober>,
    /// Source of jitter, and of the choice among the addresses of a name.
    pub(crate) random: Random,
}

/// Node of the set, with its pending or next probe.
struct Seat {
    node: SeatName,
    index: NodeIndex,
    /// Start of the last probe; for a new node, start of its first interval.
    since: Instant,
    probing: Probing,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct SeatName {
    host: String,
    port: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Probing {
    No,
    Yes,
}

/// A completed probe.
struct ProbeResult {
    set: Arc<NodeSet>,
    index: NodeIndex,
    name: SeatName,
    outcome: ProbeOutcome,
}

/// Probe schedule for the nodes of one set.
#[derive(Default)]
struct Seats {
    set: Option<Arc<NodeSet>>,
    seats: Vec<Seat>,
}

// === impl Checker ===

impl Checker {
    pub(crate) async fn run(mut self) {
        let mut seats = Seats::default();
        let mut probes: JoinSet<ProbeResult> = JoinSet::new();
        loop {
            let upstream = self.upstream.load_full();
            self.follow(&mut seats, upstream.node_set());
            let wake = self.start_due(&mut seats, &mut probes, &upstream);
            drop(upstream);
            tokio::select! {
                Some(done) = probes.join_next() => {
                    match done {
                        Ok(done) => self.record(&mut seats, done),
                        // It is unknown whose probe panicked, so every node may be probed again.
                        Err(_) => seats.free_all(),
                    }
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Replaces the schedule if the node set has changed; remaining nodes keep their times.
    fn follow(&mut self, seats: &mut Seats, set: Option<Arc<NodeSet>>) {
        let revision = |set: &Option<Arc<NodeSet>>| set.as_ref().map(|set| set.revision());
        if revision(&seats.set) == revision(&set) {
            return;
        }
        let now = Instant::now();
        let earlier = std::mem::take(&mut seats.seats).into_iter();
        let mut earlier: HashMap<SeatName, Seat> =
            earlier.map(|seat| (seat.node.clone(), seat)).collect();
        for (node, index) in set.iter().flat_map(|set| set.nodes()).zip(0..) {
            let name = SeatName { host: node.host().to_owned(), port: node.port() };
            let index = NodeIndex(index);
            let seat = match earlier.remove(&name) {
                Some(seat) => Seat { index, ..seat },
                None => {
                    let since = now + self.jitter(interval(&self.checks, node));
                    Seat { node: name, index, since, probing: Probing::No }
                }
            };
            seats.seats.push(seat);
        }
        seats.set = set;
    }

    /// Starts the probes that are due, as far as the concurrency limit allows; returns the time of
    /// the next check.
    fn start_due(
        &mut self,
        seats: &mut Seats,
        probes: &mut JoinSet<ProbeResult>,
        upstream: &UpstreamState,
    ) -> Instant {
        let now = Instant::now();
        let mut wake = now + ATTENTION;
        let Some(set) = &seats.set else { return wake };
        let concurrency = (self.checks.active.concurrency as usize).max(1);
        // Longest wait first, so that all nodes get their turn if there are more than concurrent
        // probes.
        seats.seats.sort_by_key(|seat| seat.since);
        for seat in &mut seats.seats {
            let node = &set.nodes()[seat.index.as_usize()];
            let due = seat.since + interval(&self.checks, node);
            if seat.probing == Probing::Yes {
                continue;
            }
            if due > now {
                wake = wake.min(due);
                continue;
            }
            if probes.len() >= concurrency {
                // The end of a probe wakes the checker.
                break;
            }
            seat.since = now;
            let located = node.locate(self.random.next_u64());
            let Some(probe) = self.probe(upstream, node, located) else { continue };
            seat.probing = Probing::Yes;
            let (set, index, name) = (Arc::clone(set), seat.index, seat.node.clone());
            let prober = Arc::clone(&self.prober);
            probes.spawn(async move {
                let outcome = match probe {
                    Some(probe) => prober.probe(probe).await,
                    None => ProbeOutcome::Failed,
                };
                ProbeResult { set, index, name, outcome }
            });
        }
        wake
    }

    /// Returns the probe of a node. The outer `None` means that its name is still being resolved,
    /// the inner one that the name has no address.
    fn probe(
        &self,
        upstream: &UpstreamState,
        node: &Node,
        located: NodeAddress,
    ) -> Option<Option<Probe>> {
        let active = &self.checks.active;
        let address = match located {
            NodeAddress::At(address) => address,
            NodeAddress::Pending => return None,
            NodeAddress::Failed => return Some(None),
        };
        let address = active.port.map_or(address, |port| address.at_port(port));
        let named = active.host.as_deref().or(node.domain()).or(upstream.probe_host());
        let host = named.map_or_else(|| host_text(node.name_or_address()), str::to_owned);
        let (checks, authorities) = (Arc::clone(&self.checks), upstream.authorities());
        let proxy_protocol = upstream.proxy_protocol();
        Some(Some(Probe { address, host, checks, authorities, proxy_protocol }))
    }

    fn record(&self, seats: &mut Seats, done: ProbeResult) {
        if let Some(seat) = seats.seats.iter_mut().find(|seat| seat.node == done.name) {
            seat.probing = Probing::No;
        }
        let thresholds = &self.checks.active.thresholds;
        let signal = match done.outcome {
            ProbeOutcome::Connected => Some(Signal::Success),
            ProbeOutcome::Answered(status) => Signal::from_status(status, thresholds),
            ProbeOutcome::Failed => Some(Signal::TcpFailure),
            ProbeOutcome::TimedOut => Some(Signal::TimeoutFailure),
        };
        if let Some(signal) = signal {
            done.set.observe(done.index, signal, thresholds);
        }
    }

    fn jitter(&mut self, interval: Duration) -> Duration {
        let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX) / JITTER_DIVISOR;
        Duration::from_millis(self.random.below(u32::try_from(millis).unwrap_or(u32::MAX)).into())
    }
}

// === impl Seats ===

impl Seats {
    fn free_all(&mut self) {
        self.seats.iter_mut().for_each(|seat| seat.probing = Probing::No);
    }
}

/// Returns the interval between two probes of a node, depending on whether it serves.
fn interval(checks: &Checks, node: &Node) -> Duration {
    let active = &checks.active;
    let is_serving = node.health().status.serves();
    let interval = if is_serving { active.healthy_interval } else { active.unhealthy_interval };
    interval.max(INTERVAL_MIN)
}
