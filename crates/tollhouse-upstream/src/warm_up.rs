//! Advances the slow start of new nodes on the control side's runtime. Tables are rebuilt at most
//! once per interval and upstream, and never by a request.
//!
//! `ramp.rs` defines the value of a step.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use crate::change::UpstreamChange;
use crate::state::UpstreamState;

/// Interval at which due steps of slow start are performed, and thus the minimum duration of a
/// step.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Upstreams with nodes in slow start, and the task that raises their weights.
#[derive(Debug)]
pub struct WarmUps {
    started: Instant,
    upstreams: Mutex<HashMap<String, Warming>>,
    /// Wakes the task when upstreams are added.
    arrived: Notify,
}

#[derive(Debug)]
struct Warming {
    state: Arc<UpstreamState>,
    /// Time of the next step; `None` while no node is new.
    due: Option<Instant>,
}

impl Default for WarmUps {
    fn default() -> Self {
        Self::new()
    }
}

impl WarmUps {
    /// Creates an empty set; the gateway's uptime starts now.
    pub fn new() -> Self {
        Self { started: Instant::now(), upstreams: Mutex::default(), arrived: Notify::new() }
    }

    /// Applies the changes of the next snapshot; upstreams without slow start are ignored.
    pub fn change_upstreams(&self, changes: &[UpstreamChange]) {
        let mut held = self.lock();
        for UpstreamChange { key, state } in changes {
            let before = held.remove(key);
            let Some(state) = state.as_ref().filter(|state| state.warm_up().is_some()) else {
                continue;
            };
            let due = before.and_then(|warming| {
                // A new state may contain new nodes.
                if Arc::ptr_eq(&warming.state, state) { warming.due } else { Some(self.started) }
            });
            held.insert(key.clone(), Warming { state: Arc::clone(state), due });
        }
        if !held.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Advances the upstreams; never returns. Sleeps while no upstream has slow start.
    pub async fn run(&self) {
        let mut ticks = tokio::time::interval(LOOK_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.lock().is_empty() {
                self.arrived.notified().await;
            }
            ticks.tick().await;
            self.step(Instant::now());
        }
    }

    /// Performs the steps of slow start that are due at `now`.
    pub(crate) fn step(&self, now: Instant) {
        let uptime = now.saturating_duration_since(self.started);
        for warming in self.lock().values_mut() {
            let is_due = warming.due.is_some_and(|due| due <= now);
            if warming.state.take_fresh() || is_due {
                warming.due = warming.state.warm(now, uptime);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Warming>> {
        // A panic elsewhere cannot leave the map inconsistent; a lost change is repaired by the
        // next snapshot.
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
