//! The keeper: the one owner of the newest version.
//!
//! Commands that have queued up are applied to a copy in their order, made durable in one commit,
//! published together, and answered; what cannot be made durable is dropped with the copy
//! ([`group`], [`commit`]). Between two groups the keeper lets time pass, makes changes of health
//! durable ([`saving`]) and clears away what nobody needs ([`clean_up`]). It is one future, on any
//! runtime.

mod clean_up;
mod commit;
mod group;
mod reading;
mod saving;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tollhouse_stdx::Random;
use tollhouse_store::{Store, StoreError};

pub use clean_up::CleanUp;
use clean_up::Cleaner;
use commit::StoreHealth;
use group::Group;
use saving::Unsaved;

use crate::clock::{Clock, milliseconds};
use crate::health::{Health, Transition};
use crate::limits::{
    CLIENTS_SWEEP_INTERVAL, COMMANDS_BATCHED_MAX, COMMANDS_QUEUED_MAX, HEALTH_TICK, PAUSE_MIN,
    STATE_BYTES_MAX,
};
use crate::registry::{Registry, Request, Shared};
use crate::state::State;

/// How the registry behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The part of a service's instances, from 0 to 1, that must be left for silent ones to expire,
    /// where the service sets none; 0 lets all expire.
    pub mass_expiry_threshold: f64,
    /// Bytes of memory that all objects together may take; more are refused.
    pub memory_max: usize,
    /// What is deleted when nobody has needed it for long.
    pub clean_up: CleanUp,
    /// Where the time comes from.
    pub clock: Clock,
    /// What revisions are made of; `None` is a number of this process' own.
    pub salt: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mass_expiry_threshold: 0.0,
            memory_max: STATE_BYTES_MAX,
            clean_up: CleanUp::default(),
            clock: Clock::system(),
            salt: None,
        }
    }
}

/// See the module.
pub struct Keeper {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    store: Arc<dyn Store>,
    health: Health,
    /// The last look at the time, by the runtime's own clock.
    looked_at: Instant,
    unsaved: Unsaved,
    cleaner: Cleaner,
    /// When clients that fell silent are looked for next.
    sweep_at_ms: u64,
    /// How the last commit ended: a disk that stays full is logged once.
    store_health: StoreHealth,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Keeper").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Reads everything back from the store. Every instance that was healthy is from now on.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<(Self, Registry), StoreError> {
        let entropy = || Random::from_process_entropy().next_u64() ^ options.clock.now_ms();
        let salt = options.salt.unwrap_or_else(entropy);
        let mut state = State::new(salt, options.memory_max);
        reading::read_back(&*store, &mut state, &options.clock).await?;
        // Reading a million instances takes longer than the shortest expiry.
        let now_ms = options.clock.now_ms();
        let mut health = Health::new(now_ms, options.mass_expiry_threshold);
        state.instances().for_each(|instance| health.resume(instance, now_ms));
        let (sender, requests) = mpsc::channel(COMMANDS_QUEUED_MAX);
        let registry = Registry::new(state, options.clock, sender);
        let keeper = Self {
            shared: Arc::clone(registry.shared()),
            requests,
            store,
            health,
            looked_at: Instant::now(),
            unsaved: Unsaved::default(),
            cleaner: Cleaner::new(options.clean_up, now_ms),
            sweep_at_ms: now_ms,
            store_health: StoreHealth::Takes,
        };
        Ok((keeper, registry))
    }

    /// Keeps the registry until `stop` is over; what has queued up by then is refused.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut ticks = tokio::time::interval(HEALTH_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut requests = Vec::with_capacity(COMMANDS_BATCHED_MAX);
        loop {
            tokio::select! {
                count = self.requests.recv_many(&mut requests, COMMANDS_BATCHED_MAX) => {
                    if count == 0 {
                        return;
                    }
                    self.look();
                    self.work(&mut requests).await;
                }
                _ = ticks.tick() => self.tick().await,
                () = &mut stop => return,
            }
        }
    }

    /// Does what was asked, in its order, in as few commits as fit.
    async fn work(&mut self, requests: &mut Vec<Request>) {
        let mut beats = Vec::new();
        let mut group = self.new_group();
        for request in requests.drain(..) {
            match request {
                Request::Beats(id) => beats.push(id),
                Request::Command(command, reply, share) => {
                    group.apply(command, Some(reply), Some(share));
                    if group.is_full() {
                        self.commit(group).await;
                        group = self.new_group();
                    }
                }
            }
        }
        self.commit(group).await;
        if !beats.is_empty() {
            self.change_health(|health, state, now_ms| health.recover(state, beats, now_ms));
        }
    }

    fn new_group(&self) -> Group {
        Group::new(State::clone(&self.shared.state.load()), self.shared.clock.now_ms())
    }

    /// Takes note that this process is awake: if it was not, nobody expires for that.
    fn look(&mut self) {
        let now = Instant::now();
        let late = now.duration_since(self.looked_at).saturating_sub(HEALTH_TICK);
        self.looked_at = now;
        let late_ms = if late >= PAUSE_MIN { milliseconds(late) } else { 0 };
        if late_ms > 0 {
            tracing::warn!(late_ms, "the registry was held up; nobody expires for that time");
        }
        self.health.look(self.shared.clock.now_ms(), late_ms);
    }

    /// What is due: expiry at every tick, the rest once in a while.
    async fn tick(&mut self) {
        self.look();
        self.change_health(Health::advance);
        self.save_health().await;
        self.clean_up().await;
        let now_ms = self.shared.clock.now_ms();
        if now_ms >= self.sweep_at_ms {
            self.sweep_at_ms = now_ms + milliseconds(CLIENTS_SWEEP_INTERVAL);
            self.shared.clients.sweep(now_ms);
        }
    }

    fn change_health(
        &mut self,
        change: impl FnOnce(&mut Health, &mut State, u64) -> Vec<Transition>,
    ) {
        let current = self.shared.state.load_full();
        let mut state = State::clone(&current);
        let now_ms = self.shared.clock.now_ms();
        let transitions = change(&mut self.health, &mut state, now_ms);
        for transition in &transitions {
            self.count_transition(transition);
            self.unsaved.push(&transition.instance().id, now_ms);
        }
        if !transitions.is_empty() || state.differs_in_mass_expiry(&current) {
            self.publish(state);
        }
    }

    fn count_transition(&self, transition: &Transition) {
        let statistics = &self.shared.statistics;
        let (counter, what) = match transition {
            Transition::Expired(_) => (&statistics.expired, "unhealthy"),
            Transition::Recovered(_) => (&statistics.recovered, "healthy"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let instance = transition.instance();
        tracing::debug!(service = %instance.service, host = %instance.host, port = instance.port,
            "instance is {what}");
    }

    fn publish(&self, mut state: State) {
        state.version += 1;
        let version = state.version;
        self.shared.state.store(Arc::new(state));
        self.shared.published.send_replace(version);
    }
}

#[cfg(test)]
mod tests;
