//! The keeper: the one future that changes the registry, on any runtime.
//!
//! Its parts are those that several processes would need to keep one registry together, each local:
//!
//! - [`committer`] takes commands in groups and makes each durable in one commit; what cannot be is dropped.
//! - [`applier`] publishes what is durable; nobody else replaces the published version.
//! - Heartbeats arrive on other threads (`registry/heartbeats.rs`); only those of the unhealthy come here.
//! - [`health_owner`] decides who expires and who recovers, for the services that [`Membership`] says are
//!   this process' own: all of them.
//!
//! Between two groups time passes, and [`cleaner`] deletes what nobody needs.
//!
//! [`Membership`]: crate::membership::Membership

mod applier;
mod cleaner;
mod committer;
mod group;
mod health_owner;
mod reading;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tollhouse_stdx::Random;
use tollhouse_store::{Store, StoreError};

use applier::Applier;
pub use cleaner::CleanUp;
use cleaner::Cleaner;
use committer::Committer;
use group::Group;
use health_owner::HealthOwner;

use crate::clock::{Clock, milliseconds};
use crate::journal::{Journal, Record};
use crate::limits::{CLIENTS_SWEEP_INTERVAL, COMMANDS_BATCHED_MAX, STATE_BYTES_MAX};
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
    committer: Committer,
    applier: Applier,
    health: HealthOwner,
    cleaner: Cleaner,
    /// When clients that fell silent are looked for next.
    sweep_at_ms: u64,
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
        let (is_serving, serving) = watch::channel(true);
        let (registry, requests) = Registry::new(state, options.clock, serving);
        let shared = registry.shared();
        // Asked for the time now: reading a million instances takes longer than the shortest expiry.
        let now_ms = shared.clock.now_ms();
        let keeper = Self {
            shared: Arc::clone(shared),
            requests,
            committer: Committer::new(Arc::clone(shared), store, is_serving),
            applier: Applier::new(Arc::clone(shared)),
            health: HealthOwner::new(Arc::clone(shared), options.mass_expiry_threshold),
            cleaner: Cleaner::new(options.clean_up, now_ms),
            sweep_at_ms: now_ms + milliseconds(CLIENTS_SWEEP_INTERVAL),
        };
        Ok((keeper, registry))
    }

    /// Keeps the registry until `stop` is over; what has queued up by then is refused.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut timer = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        let mut requests = Vec::with_capacity(COMMANDS_BATCHED_MAX);
        loop {
            timer.as_mut().reset(self.wake_at());
            tokio::select! {
                count = self.requests.recv_many(&mut requests, COMMANDS_BATCHED_MAX) => {
                    if count == 0 {
                        return;
                    }
                    self.health.look();
                    self.work(&mut requests).await;
                }
                () = &mut timer => self.tick().await,
                () = &mut stop => return,
            }
        }
    }

    /// Does what was asked, in its order, in as few commits as fit.
    async fn work(&mut self, requests: &mut Vec<Request>) {
        let mut recovered = Vec::new();
        let mut requests = requests.drain(..).peekable();
        while requests.peek().is_some() {
            // Made after the commit before it, and so on top of what that made true.
            let mut group = self.committer.new_group(&self.applier);
            while !group.is_full()
                && let Some(request) = requests.next()
            {
                match request {
                    Request::Command(command, waiter) => group.apply(command, Some(waiter)),
                    Request::Recover(id) => recovered.push(id),
                }
            }
            self.commit(group).await;
        }
        if !recovered.is_empty() {
            self.health.recover(recovered, &self.applier);
        }
    }

    async fn commit(&mut self, group: Group) {
        self.committer.commit(group, &self.applier, &mut self.health).await;
    }

    /// When something is due next, if nobody asks for anything before: an idle registry sleeps.
    fn wake_at(&mut self) -> Instant {
        let due = [
            self.health.next_due_ms(),
            self.committer.probe_due_ms(),
            self.cleaner.next_due_ms(),
            Some(self.sweep_at_ms),
        ];
        let due_ms = due.into_iter().flatten().min().unwrap_or(self.sweep_at_ms);
        let wait_ms = due_ms.saturating_sub(self.shared.clock.now_ms());
        self.health.sleep_until(Instant::now() + Duration::from_millis(wait_ms))
    }

    /// Does what is due.
    async fn tick(&mut self) {
        self.health.look();
        self.health.expire(&self.applier);
        self.save_health().await;
        self.committer.probe(&mut self.health).await;
        self.clean_up().await;
        let now_ms = self.shared.clock.now_ms();
        if now_ms >= self.sweep_at_ms {
            self.sweep_at_ms = now_ms + milliseconds(CLIENTS_SWEEP_INTERVAL);
            self.shared.clients.sweep(now_ms);
        }
    }

    /// Makes changes of health durable that have stood for long enough.
    async fn save_health(&mut self) {
        let due = self.health.due_to_save();
        if due.is_empty() {
            return;
        }
        let state = self.applier.current();
        let mut journal = Journal::default();
        for instance in due.iter().filter_map(|id| state.instance(id)) {
            // What is registered has been small enough before.
            if let Ok(record) = Record::instance(instance) {
                journal.put(record);
            }
        }
        if journal.is_empty() {
            return;
        }
        let transaction = journal.into_transaction();
        if self.committer.write(transaction, &mut self.health).await.is_err() {
            self.health.save_later(&due);
        }
    }

    /// Deletes what nobody has needed for long, where that is switched on.
    async fn clean_up(&mut self) {
        let commands = self.cleaner.due(&self.applier.current(), self.shared.clock.now_ms());
        if commands.is_empty() {
            return;
        }
        let objects = commands.len();
        tracing::info!(
            objects,
            "deleting instances that stay unhealthy and services that stay empty"
        );
        let mut group = self.committer.new_group(&self.applier);
        commands.into_iter().for_each(|command| group.apply(command, None));
        self.commit(group).await;
    }
}

#[cfg(test)]
mod tests;
