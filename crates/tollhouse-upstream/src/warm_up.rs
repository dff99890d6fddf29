//! Steps the weights of fresh nodes, on the control side's runtime: tables are made anew at most
//! once an interval for each upstream, and never by a request.
//!
//! What a step is worth is in `ramp.rs`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use crate::change::UpstreamChange;
use crate::state::UpstreamState;

/// How often upstreams with slow start are looked at: the shortest interval of a step.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub struct WarmUps {
    started: Instant,
    upstreams: Mutex<HashMap<String, Warming>>,
    /// Wakes the task when there is something to look at again.
    arrived: Notify,
}

#[derive(Debug)]
struct Warming {
    state: Arc<UpstreamState>,
    /// When the next step is due; `None` while no node is fresh.
    due: Option<Instant>,
}

impl Default for WarmUps {
    fn default() -> Self {
        Self::new()
    }
}

impl WarmUps {
    /// None yet; the gateway starts now.
    pub fn new() -> Self {
        Self { started: Instant::now(), upstreams: Mutex::default(), arrived: Notify::new() }
    }

    /// What the snapshot that is about to serve changes; upstreams without slow start are passed
    /// over.
    pub fn change_upstreams(&self, changes: &[UpstreamChange]) {
        let mut held = self.lock();
        for UpstreamChange { key, state } in changes {
            let before = held.remove(key);
            let Some(state) = state.as_ref().filter(|state| state.warm_up().is_some()) else {
                continue;
            };
            let due = before.and_then(|warming| {
                // Another state may have nodes that nobody has looked at.
                if Arc::ptr_eq(&warming.state, state) { warming.due } else { Some(self.started) }
            });
            held.insert(key.clone(), Warming { state: Arc::clone(state), due });
        }
        if !held.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Steps for ever; sleeps while no upstream has slow start.
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

    /// Takes the steps that are due.
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
        // Whole between any two statements; what is left out comes with the next snapshot.
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
