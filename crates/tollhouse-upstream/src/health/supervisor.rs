//! Starts and stops active checkers: one per upstream that has checks and was used by a request. A
//! checker is kept across snapshots while its checks stay the same.
//!
//! Runs on the control side's runtime. `checker.rs` contains the checker itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tollhouse_model::upstream::Checks;
use tollhouse_stdx::random::Random;

use super::checker::Checker;
use super::probe::{Prober, SocketProber};
use super::report::HealthReport;
use crate::change::UpstreamChange;
use crate::state::UpstreamState;

/// Interval between checks for upstreams that came into use.
const START_PERIOD: Duration = Duration::from_secs(1);

pub struct HealthSupervisor {
    prober: Arc<dyn Prober>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Random generator that seeds those of the checkers.
    random: Random,
    /// Upstreams with checks, by key.
    upstreams: HashMap<String, Arc<UpstreamState>>,
    checkers: HashMap<String, Running>,
}

/// A running checker; dropping it stops the task.
struct Running {
    upstream: Arc<ArcSwap<UpstreamState>>,
    checks: Arc<Checks>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Default for HealthSupervisor {
    fn default() -> Self {
        Self::new()
    }
}

impl HealthSupervisor {
    /// Creates a supervisor whose checkers probe over sockets.
    pub fn new() -> Self {
        Self::with_prober(Arc::new(SocketProber::default()), Random::from_process_entropy())
    }

    /// Creates a supervisor with another prober; `random` determines the jitter.
    pub fn with_prober(prober: Arc<dyn Prober>, random: Random) -> Self {
        let inner = Inner { random, upstreams: HashMap::new(), checkers: HashMap::new() };
        Self { prober, inner: Mutex::new(inner) }
    }

    /// Applies the changes of the next snapshot. Checkers of removed upstreams, or with changed
    /// checks, stop at once; the others continue with the new nodes.
    pub fn change_upstreams(&self, changes: &[UpstreamChange]) {
        let mut inner = self.lock();
        let Inner { upstreams, checkers, .. } = &mut *inner;
        for UpstreamChange { key, state } in changes {
            let checked = state.as_ref().and_then(|state| Some((state, state.checks()?)));
            let Some((state, checks)) = checked else {
                upstreams.remove(key);
                checkers.remove(key);
                continue;
            };
            upstreams.insert(key.clone(), Arc::clone(state));
            if let Some(running) = checkers.get(key) {
                running.upstream.store(Arc::clone(state));
                if *checks != running.checks {
                    checkers.remove(key);
                }
            }
        }
    }

    /// Starts checkers as upstreams come into use; never returns. Stops all checkers when dropped.
    pub async fn run(&self) {
        let _stop = StopAll(self);
        let mut ticks = tokio::time::interval(START_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.start_used();
        }
    }

    /// Returns the health of all upstreams that are being checked, sorted by name.
    pub fn report(&self) -> Vec<HealthReport> {
        let inner = self.lock();
        let checked = inner.checkers.values();
        let mut reports: Vec<HealthReport> =
            checked.filter_map(|running| HealthReport::new(&running.upstream.load())).collect();
        reports.sort_by(|one, other| one.name.cmp(&other.name));
        reports
    }

    /// Returns the health of the upstream with a key such as `routes/1`; `None` if it is not being
    /// checked.
    pub fn report_of(&self, key: &str) -> Option<HealthReport> {
        let inner = self.lock();
        HealthReport::new(&inner.checkers.get(key)?.upstream.load())
    }

    fn start_used(&self) {
        let mut inner = self.lock();
        let Inner { upstreams, checkers, random } = &mut *inner;
        for (key, upstream) in upstreams {
            let Some(checks) = upstream.checks() else { continue };
            if !upstream.is_used() || checkers.contains_key(key) {
                continue;
            }
            let slot = Arc::new(ArcSwap::new(Arc::clone(upstream)));
            let checker = Checker {
                upstream: Arc::clone(&slot),
                checks: Arc::clone(checks),
                prober: Arc::clone(&self.prober),
                random: Random::seeded(random.next_u64()),
            };
            let task = Handle::current().spawn(checker.run());
            let running = Running { upstream: slot, checks: Arc::clone(checks), task };
            checkers.insert(key.clone(), running);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere cannot leave the maps inconsistent, so a poisoned lock is usable.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for HealthSupervisor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HealthSupervisor").finish_non_exhaustive()
    }
}

/// Stops the checkers when `run` is cancelled.
struct StopAll<'a>(&'a HealthSupervisor);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.lock().checkers.clear();
    }
}
