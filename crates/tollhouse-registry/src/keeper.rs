//! The keeper: the single future that changes the registry, on any runtime.
//!
//! Its parts:
//!
//! - [`committer`] groups commands and makes each group durable in one commit; a group that
//!   cannot be committed is dropped.
//! - [`applier`] publishes durable versions; no other part replaces the published version.
//! - Heartbeats arrive on other threads (`registry/heartbeats.rs`); only the first heartbeat of
//!   an unhealthy instance reaches the keeper.
//! - [`health_owner`] decides which instances expire and recover, for the services that
//!   [`Membership`] assigns to this process: all of them, unless other nodes share the registry
//!   ([`cluster`](crate::cluster)).
//! - [`log`] exists in a shared registry only: the commits of all nodes.
//!
//! Between two groups the keeper handles timers, and [`cleaner`] deletes unused objects.
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
use log::{Log, StateOptions};
use session::{LocalMember, Session};

use crate::clock::{Clock, milliseconds};
use crate::cluster::{Cluster, ClusterOptions};
use crate::health::Transition;
use crate::journal::{Before, Journal, Record};
use crate::key::ServiceRef;
use crate::limits::{CLIENTS_SWEEP_INTERVAL, COMMANDS_BATCHED_MAX, HEALTH_TICK, STATE_BYTES_MAX};
use crate::registry::{Registry, Request, Shared};
use crate::state::State;

#[derive(Debug, Clone)]
pub struct Options {
    /// Default mass expiry threshold, from 0 to 1. Silent instances of a service are kept if their
    /// expiry would reduce the service's share of healthy instances to this or less. 0 disables
    /// mass expiry.
    pub mass_expiry_threshold: f64,
    /// Maximum memory of all objects in bytes; further objects are refused.
    pub memory_max: usize,
    /// Deletion of objects that have been unused for long.
    pub clean_up: CleanUp,
    pub clock: Clock,
    /// Salt of revisions; `None` uses a random number. Only tests set it.
    pub salt: Option<u64>,
    /// Settings of a shared registry; `None` if this node is alone.
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

/// Owner of the registry: the single future that makes all changes; see the module. [`Self::run`]
/// must be polled for commands to be answered.
pub struct Keeper {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    committer: Committer,
    applier: Applier,
    health: HealthOwner,
    cleaner: Cleaner,
    /// Communication with the other nodes; taken when the keeper starts to run.
    session: Option<Session>,
    /// Time of the next sweep of silent clients.
    sweep_at_ms: u64,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Keeper").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Reads the state back from the store. Every instance that was healthy gets a full expiry
    /// time.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn open(
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<(Self, Registry), StoreError> {
        let entropy = || Random::from_process_entropy().next_u64() ^ options.clock.now_ms();
        let salt = options.salt.unwrap_or_else(entropy);
        let cluster =
            options.cluster.map(|cluster| Cluster::new(cluster, random_seed(options.salt)));
        let member = cluster.clone().map(|cluster| LocalMember {
            cluster,
            identity: session::OwnIdentity::default(),
            digest: session::OwnDigest::default(),
        });
        let (log, state) = match &member {
            Some(member) => {
                let LocalMember { cluster, identity, .. } = member;
                session::join(&*store, cluster, &cluster.options, identity).await?;
                let state = StateOptions { salt, memory_max: options.memory_max };
                let now_ms = options.clock.now_ms();
                let (log, state) =
                    Log::open(Arc::clone(&store), member.clone(), state, now_ms).await?;
                (Some(log), state)
            }
            None => {
                let mut state = State::new(salt, options.memory_max);
                reading::read_back(&*store, &mut state, options.clock.now_ms(), None).await?;
                (None, state)
            }
        };
        let (is_serving, serving) = watch::channel(true);
        let (registry, requests) = Registry::new(state, options.clock, serving, cluster);
        let shared = registry.shared();
        // The clock is read again, because reading a million instances takes longer than the
        // shortest expiry.
        let now_ms = shared.clock.now_ms();
        let mut health = HealthOwner::new(Arc::clone(shared), options.mass_expiry_threshold);
        if let Some(log) = &log {
            health.set_membership(&mut State::clone(&shared.state.load()), log.membership());
        }
        let session =
            member.map(|member| Session::new(member, Arc::clone(shared), Arc::clone(&store)));
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

    /// Runs until `stop` completes. Commands that are still queued are then refused.
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

    /// Executes requests in their order, in as few commits as possible.
    async fn work(&mut self, requests: &mut Vec<Request>) {
        let mut recovered = Vec::new();
        let mut requests = requests.drain(..).peekable();
        while requests.peek().is_some() {
            // Created after the previous commit, so that the group sees its effects.
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

    /// Returns the next time at which the keeper must wake without a request; an idle registry
    /// sleeps.
    fn wake_at(&mut self) -> Instant {
        let mut health_due_ms = self.health.next_due_ms();
        if let Some(log) = self.applier.log() {
            log.cluster().is_awaited.store(health_due_ms.is_some(), Ordering::Relaxed);
            // An overdue expiry may have to wait for other nodes' reports; the keeper then checks
            // once per tick.
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

    /// Runs the periodic work that is due: health, cleaning, and removal of silent clients.
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

    /// Makes changes of health durable that have lasted long enough.
    async fn save_health(&mut self) {
        let due = self.health.due_to_save();
        if due.is_empty() {
            return;
        }
        let state = self.applier.current();
        let mut journal = Journal::default();
        for instance in due.iter().filter_map(|id| state.instance(id)) {
            // Never fails, because the instance fitted when it was registered.
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

    /// Commits due changes of health of this node's services. No node sees a change before its
    /// commit.
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
            // Never fails, because the instance fitted when it was registered.
            if let Ok(record) = Record::instance(transition.instance()) {
                journal.put(record, Before::Present);
            }
        }
        let transaction = journal.into_transaction(self.applier.since());
        let Some(log) = self.applier.log() else { return false };
        let Some(transaction) = log.fence(transaction) else { return false };
        match self.committer.write(transaction, &mut self.health).await {
            Ok(committed) => {
                // The changes are committed. If this node does not read them back now, it will with
                // the log, later.
                let _ = self.applier.reach(committed.revision, &mut self.health).await;
                true
            }
            Err(error) => {
                tracing::debug!(%error, "changes of health could not be made");
                false
            }
        }
    }

    /// Deletes objects that were unused for long, if enabled; in a cluster one node does.
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

/// Key whose owner in a cluster cleans up; no service has this name.
const CLEAN_UP: ServiceRef<'static> = ServiceRef { namespace: "", name: "" };

/// Returns the seed of this node's random ids; `salt` makes it predictable in tests.
fn random_seed(salt: Option<u64>) -> u64 {
    salt.unwrap_or_else(|| {
        let mut bytes = [0; 8];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
        u64::from_ne_bytes(bytes)
    })
}

/// Task of a running session; aborted when the keeper is dropped.
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
