//! The keeper: the one future that changes the registry, on any runtime.
//!
//! Its parts:
//!
//! - [`committer`] takes commands in groups and makes each durable in one commit; what cannot be is dropped.
//! - [`applier`] publishes what is durable; nobody else replaces the published version.
//! - Heartbeats arrive on other threads (`registry/heartbeats.rs`); only those of the unhealthy come here.
//! - [`health_owner`] decides who expires and who recovers, for the services that [`Membership`] says are
//!   this process' own: all of them, unless other nodes keep the same registry ([`cluster`](crate::cluster)).
//! - [`log`] is there in that case only: the commits of all nodes.
//!
//! Between two groups time passes, and [`cleaner`] deletes what nobody needs.
//!
//! [`Membership`]: crate::membership::Membership

mod applier;
mod cleaner;
mod committer;
mod group;
mod health_owner;
mod log;
mod reading;
mod session;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tollhouse_stdx::Random;
use tollhouse_store::{Revision, Store, StoreError};

use applier::Applier;
pub use cleaner::CleanUp;
use cleaner::Cleaner;
use committer::Committer;
use group::Group;
use health_owner::HealthOwner;
use log::Log;
use session::Session;

use crate::clock::{Clock, milliseconds};
use crate::cluster::{Cluster, ClusterOptions};
use crate::health::Transition;
use crate::journal::{Before, Journal, Record};
use crate::key::ServiceRef;
use crate::limits::{CLIENTS_SWEEP_INTERVAL, COMMANDS_BATCHED_MAX, HEALTH_TICK, STATE_BYTES_MAX};
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
    /// How it is kept together with other nodes, where the store is shared.
    pub cluster: Option<ClusterOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mass_expiry_threshold: 0.0,
            memory_max: STATE_BYTES_MAX,
            clean_up: CleanUp::default(),
            clock: Clock::system(),
            salt: None,
            cluster: None,
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
    /// What this node has to say to the others, from when it runs.
    session: Option<Session>,
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
        let bounds = (salt, options.memory_max);
        let cluster =
            options.cluster.map(|cluster| Cluster::new(cluster, random_seed(options.salt)));
        let identity = session::OwnIdentity::default();
        let digest = session::OwnDigest::default();
        let (log, state) = match &cluster {
            Some(cluster) => {
                session::join(&*store, cluster, &cluster.options, &identity).await?;
                let own = (Arc::clone(cluster), Arc::clone(&identity), Arc::clone(&digest));
                let now_ms = options.clock.now_ms();
                let (log, state) = Log::open(Arc::clone(&store), own, bounds, now_ms).await?;
                (Some(log), state)
            }
            None => {
                let mut state = State::new(salt, options.memory_max);
                reading::read_back(&*store, &mut state, options.clock.now_ms(), None).await?;
                (None, state)
            }
        };
        let (is_serving, serving) = watch::channel(true);
        let (registry, requests) = Registry::new(state, options.clock, serving, cluster.clone());
        let shared = registry.shared();
        // Asked for the time now: reading a million instances takes longer than the shortest expiry.
        let now_ms = shared.clock.now_ms();
        let mut health = HealthOwner::new(Arc::clone(shared), options.mass_expiry_threshold);
        if let Some(log) = &log {
            health.set_membership(&mut State::clone(&shared.state.load()), log.membership());
        }
        let session = cluster.map(|cluster| {
            Session::new((cluster, identity, digest), Arc::clone(shared), Arc::clone(&store))
        });
        let keeper = Self {
            shared: Arc::clone(shared),
            requests,
            committer: Committer::new(Arc::clone(shared), store, is_serving),
            applier: Applier::new(Arc::clone(shared), log),
            health,
            cleaner: Cleaner::new(options.clean_up, now_ms),
            session,
            sweep_at_ms: now_ms + milliseconds(CLIENTS_SWEEP_INTERVAL),
        };
        Ok((keeper, registry))
    }

    /// Keeps the registry until `stop` is over; what has queued up by then is refused.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let session = self.session.take().map(SessionTask::spawn);
        self.keep(stop).await;
        if let Some(session) = session {
            session.stop().await;
        }
    }

    async fn keep(&mut self, stop: impl Future<Output = ()>) {
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
                event = self.applier.next() => {
                    self.health.look();
                    self.applier.take_in(event, &mut self.health).await;
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
        if recovered.is_empty() {
            return;
        }
        match self.cluster() {
            Some(cluster) => self.agree_on_health(recovered, &cluster).await,
            None => self.health.recover(recovered, &self.applier),
        }
    }

    async fn commit(&mut self, group: Group) {
        self.committer.commit(group, &mut self.applier, &mut self.health).await;
    }

    fn cluster(&self) -> Option<Arc<Cluster>> {
        self.applier.log().map(|log| Arc::clone(log.cluster()))
    }

    /// When something is due next, if nobody asks for anything before: an idle registry sleeps.
    fn wake_at(&mut self) -> Instant {
        let mut health_due_ms = self.health.next_due_ms();
        if let Some(log) = self.applier.log() {
            log.cluster().is_awaited.store(health_due_ms.is_some(), Ordering::Relaxed);
            // Where others have not said yet whom they had heard of, it is looked again and again.
            let soon_ms = self.shared.clock.now_ms() + milliseconds(HEALTH_TICK);
            health_due_ms = health_due_ms.map(|due_ms| due_ms.max(soon_ms));
        }
        let due = [
            health_due_ms,
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
        match self.cluster() {
            Some(cluster) => self.agree_on_health(Vec::new(), &cluster).await,
            None => {
                self.health.expire(&self.applier);
                self.save_health().await;
            }
        }
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
                journal.put(record, Before::Present);
            }
        }
        if journal.is_empty() {
            return;
        }
        let transaction = journal.into_transaction(Revision::ZERO);
        if self.committer.write(transaction, &mut self.health).await.is_err() {
            self.health.save_later(&due);
        }
    }

    /// Commits what is due of the health of this node's services: everybody sees it from then on, and nobody before.
    async fn agree_on_health(&mut self, recovered: Vec<Arc<str>>, cluster: &Cluster) {
        let transitions = self.health.propose(recovered, &self.applier, &cluster.evidence);
        for part in transitions.chunks(COMMANDS_BATCHED_MAX) {
            if self.commit_health(part).await {
                self.health.count_all(part);
            } else {
                self.health.retry(part);
            }
        }
    }

    async fn commit_health(&mut self, transitions: &[Transition]) -> bool {
        let mut journal = Journal::guarded();
        for transition in transitions {
            // What is registered has been small enough before.
            if let Ok(record) = Record::instance(transition.instance()) {
                journal.put(record, Before::Present);
            }
        }
        let transaction = journal.into_transaction(self.applier.since());
        let Some(log) = self.applier.log() else { return false };
        let Some(transaction) = log.fence(transaction) else { return false };
        match self.committer.write(transaction, &mut self.health).await {
            Ok(committed) => {
                // They are made; whoever waits for them in the log reads them there, now or later.
                let _ = self.applier.reach(committed.revision, &mut self.health).await;
                true
            }
            Err(error) => {
                tracing::debug!(%error, "changes of health could not be made");
                false
            }
        }
    }

    /// Deletes what nobody has needed for long, where that is switched on: on one node, where there are several.
    async fn clean_up(&mut self) {
        if self.applier.log().is_some_and(|log| !log.membership().owns(CLEAN_UP)) {
            return;
        }
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

/// Whoever owns this name clears away; no service has it.
const CLEAN_UP: ServiceRef<'static> = ServiceRef { namespace: "", name: "" };

/// What the numbers of this node are made of: no two processes share them, unless a test says so.
fn random_seed(salt: Option<u64>) -> u64 {
    salt.unwrap_or_else(|| {
        let mut bytes = [0; 8];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
        u64::from_ne_bytes(bytes)
    })
}

/// A session at work; ends with the keeper.
struct SessionTask {
    task: tokio::task::JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl SessionTask {
    fn spawn(session: Session) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { task: tokio::spawn(session.run(stopped)), stop: Some(stop) }
    }

    async fn stop(mut self) {
        drop(self.stop.take());
        if (&mut self.task).await.is_err() {
            tracing::error!("the session with the other nodes ended with a panic");
        }
    }
}

impl Drop for SessionTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests;
