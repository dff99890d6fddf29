//! The keeper: the one owner of the newest version.
//!
//! Commands that have queued up are applied to a copy in their order, made durable in one commit,
//! published together, and answered; what cannot be made durable is dropped with the copy. Between two
//! groups the keeper lets time pass. It is one future, on any runtime.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};
use tollhouse_stdx::Random;
use tollhouse_store::{Store, StoreError};

use crate::clock::Clock;
use crate::command::{Command, Outcome};
use crate::health::{Health, Transition};
use crate::instance::Instance;
use crate::journal::Journal;
use crate::limits::{COMMANDS_BATCHED_MAX, COMMANDS_QUEUED_MAX, HEALTH_TICK};
use crate::refusal::Refusal;
use crate::registry::{Registry, Request, Shared};
use crate::state::{Change, State};

/// How the registry behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The part of a service's instances, from 0 to 1, that must be left for silent ones to expire,
    /// where the service sets none; 0 lets all expire.
    pub mass_expiry_threshold: f64,
    /// Where the time comes from.
    pub clock: Clock,
    /// What revisions are made of; `None` is a number of this process' own.
    pub salt: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { mass_expiry_threshold: 0.0, clock: Clock::system(), salt: None }
    }
}

/// Bytes of writes after which a group is committed although more commands wait: a fraction of what
/// the store takes in one transaction.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// See the module.
pub struct Keeper {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    store: Arc<dyn Store>,
    health: Health,
    /// How the last commit ended: a disk that stays full is told of once.
    disk: Disk,
}

/// Whether commits succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Takes,
    Refuses,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Keeper").field("shared", &self.shared).finish_non_exhaustive()
    }
}

type Reply = oneshot::Sender<Result<Outcome, Refusal>>;

/// Commands on their way into one commit. Refusals wait with the rest: they may rest on what the commit
/// makes true.
struct Group {
    state: State,
    journal: Journal,
    now_ms: u64,
    done: Vec<(Reply, Result<Outcome, Refusal>)>,
    changed: Vec<Touched>,
}

/// An instance that the wheel has to hear of.
enum Touched {
    Here(Arc<Instance>),
    Gone(Arc<Instance>),
}

impl Keeper {
    /// Reads everything back from the store. Every instance is alive from now on.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<(Self, Registry), StoreError> {
        let now_ms = options.clock.now_ms();
        let entropy = || Random::from_process_entropy().next_u64() ^ now_ms;
        let mut state = State::new(options.salt.unwrap_or_else(entropy));
        let listing = store.list("").await?;
        let count = listing.entries.len();
        for unreadable in state.load(listing.entries, now_ms) {
            tracing::error!(key = %unreadable.key, reason = %unreadable.reason,
                "an entry of the registry cannot be read; it was left as it is");
        }
        let mut health = Health::new(now_ms, options.mass_expiry_threshold);
        state.instances().for_each(|instance| health.follow(instance));
        if count > 0 {
            let totals = state.totals();
            tracing::info!(
                services = totals.services,
                instances = totals.instances.total,
                "registry read back; every instance has its full time"
            );
        }
        let (sender, requests) = mpsc::channel(COMMANDS_QUEUED_MAX);
        let registry = Registry::new(state, options.clock, sender);
        let shared = Arc::clone(registry.shared());
        Ok((Self { shared, requests, store, health, disk: Disk::Takes }, registry))
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
                    self.work(&mut requests).await;
                }
                _ = ticks.tick() => self.pass_time(),
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
                Request::Command(command, reply) => {
                    group.apply(command, reply);
                    if group.journal.bytes() >= GROUP_BYTES_MAX {
                        self.commit(std::mem::replace(&mut group, self.new_group())).await;
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
        Group {
            state: State::clone(&self.shared.state.load()),
            journal: Journal::default(),
            now_ms: self.shared.clock.now_ms(),
            done: Vec::new(),
            changed: Vec::new(),
        }
    }

    /// Makes a group durable, publishes it, answers.
    async fn commit(&mut self, group: Group) {
        let Group { mut state, journal, done, changed, .. } = group;
        if !journal.is_empty() {
            let started = Instant::now();
            let committed = self.store.commit(journal.into_transaction()).await;
            self.tell_turn(committed.as_ref().err());
            if let Err(error) = committed {
                for (reply, outcome) in done {
                    self.answer(reply, outcome.and_then(|_| Err(Refusal::Store(error.clone()))));
                }
                return;
            }
            let statistics = &self.shared.statistics;
            let elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            statistics.commits.fetch_add(1, Ordering::Relaxed);
            statistics.commit_us.fetch_add(elapsed_us, Ordering::Relaxed);
            for touched in &changed {
                match touched {
                    Touched::Here(instance) => {
                        self.shared.strangers.forget(&instance.id);
                        self.health.follow(instance);
                    }
                    Touched::Gone(instance) => self.health.forget(&mut state, instance),
                }
            }
            self.publish(state);
        }
        for (reply, outcome) in done {
            self.answer(reply, outcome);
        }
    }

    /// Counts what came of a command, and tells who asked, who may be gone.
    fn answer(&self, reply: Reply, outcome: Result<Outcome, Refusal>) {
        let counter = match &outcome {
            Ok(_) => &self.shared.statistics.commands,
            Err(_) => &self.shared.statistics.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let _ = reply.send(outcome);
    }

    /// Logs that the disk has begun to refuse commits, or takes them again.
    fn tell_turn(&mut self, error: Option<&StoreError>) {
        let before = self.disk;
        self.disk = if error.is_some() { Disk::Refuses } else { Disk::Takes };
        match (before, error) {
            (Disk::Takes, Some(error)) => {
                tracing::error!(%error, "registrations cannot be made durable and are refused");
            }
            (Disk::Refuses, None) => tracing::info!("registrations are made durable again"),
            _ => {}
        }
    }

    /// Expires who has been silent for too long.
    fn pass_time(&mut self) {
        self.change_health(Health::advance);
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
            self.tell(transition);
        }
        if !transitions.is_empty() || state.differs_in_mass_expiry(&current) {
            self.publish(state);
        }
    }

    fn tell(&self, transition: &Transition) {
        let statistics = &self.shared.statistics;
        let (instance, counter, what) = match transition {
            Transition::Expired(instance) => (instance, &statistics.expired, "unhealthy"),
            Transition::Recovered(instance) => (instance, &statistics.recovered, "healthy"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
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

impl Group {
    fn apply(&mut self, command: Command, reply: Reply) {
        let mut change = Change { now_ms: self.now_ms, journal: &mut self.journal };
        let outcome = self.state.apply(command, &mut change);
        match &outcome {
            Ok(Outcome::Instance(instance)) => {
                self.changed.push(Touched::Here(Arc::clone(instance)));
            }
            Ok(Outcome::Deregistered(Some(instance))) => {
                self.changed.push(Touched::Gone(Arc::clone(instance)));
            }
            _ => {}
        }
        self.done.push((reply, outcome));
    }
}

#[cfg(test)]
mod tests;
