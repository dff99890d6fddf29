//! The handle: submits commands, takes heartbeats, reads what is published.
//!
//! Cheap to clone, usable from any thread. Reading and heartbeats take no lock; a command waits for the
//! keeper.

mod heartbeats;
mod queue;
mod unregistered;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use crate::clients::{Client, Clients};
use crate::clock::Clock;
use crate::cluster::{Cluster, Member};
use crate::command::{Command, Outcome};
use crate::pulse::LastHeartbeat;
use crate::refusal::Refusal;
use crate::state::State;
use crate::timeline::Timeline;

pub use heartbeats::HeartbeatOutcome;
use heartbeats::HeartbeatRouter;
use queue::RequestQueue;
pub(crate) use queue::{Request, Waiter};

/// See the module.
#[derive(Debug, Clone)]
pub struct Registry(Arc<Shared>);

/// What the handles and the keeper share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: ArcSwap<State>,
    pub(crate) published: watch::Sender<u64>,
    pub(crate) clock: Clock,
    pub(crate) statistics: Statistics,
    pub(crate) timeline: Timeline,
    pub(crate) clients: Clients,
    pub(crate) heartbeats: HeartbeatRouter,
    /// The other nodes, where there may be some.
    pub(crate) cluster: Option<Arc<Cluster>>,
    queue: RequestQueue,
    /// Whether changes can be made; its sender is the keeper's and ends with it.
    is_serving: watch::Receiver<bool>,
}

/// Counted since the start.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Instances that fell silent.
    pub expired: AtomicU64,
    /// Instances that beat again.
    pub recovered: AtomicU64,
    /// Heartbeats of instances.
    pub heartbeats: AtomicU64,
    /// Heartbeats of ids that nobody registered.
    pub unregistered_heartbeats: AtomicU64,
    /// Commands done.
    pub commands: AtomicU64,
    /// Commands refused.
    pub refused: AtomicU64,
    /// Groups of commands made durable.
    pub commits: AtomicU64,
    /// Microseconds that all of these took.
    pub commit_us: AtomicU64,
    /// Whether heartbeats go over the store, since the channel for them does not take them.
    pub is_channel_down: AtomicBool,
    /// Times that rounds of another node's heartbeats were missing.
    pub round_losses: AtomicU64,
    /// Times that this node had come to something else than the others, and read everything anew.
    pub differences: AtomicU64,
}

impl Registry {
    /// A handle of this state, and what its keeper reads.
    pub(crate) fn new(
        state: State,
        clock: Clock,
        is_serving: watch::Receiver<bool>,
        cluster: Option<Arc<Cluster>>,
    ) -> (Self, mpsc::Receiver<Request>) {
        let (queue, requests) = RequestQueue::new();
        let shared = Shared {
            published: watch::Sender::new(state.version()),
            state: ArcSwap::from_pointee(state),
            clock,
            statistics: Statistics::default(),
            timeline: Timeline::default(),
            clients: Clients::default(),
            heartbeats: HeartbeatRouter::new(queue.clone(), cluster.clone()),
            cluster,
            queue,
            is_serving,
        };
        (Self(Arc::new(shared)), requests)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// What has happened to instances of late.
    pub fn timeline(&self) -> &Timeline {
        &self.0.timeline
    }

    /// Does a command. When this returns it is durable and everybody sees it. A future that is dropped
    /// takes nothing back.
    ///
    /// # Errors
    /// Why it was not done; nothing has changed then.
    pub async fn submit(&self, command: Command) -> Result<Outcome, Refusal> {
        let outcome = self.0.queue.push_command(command)?;
        outcome.await.unwrap_or(Err(Refusal::Closed))
    }

    /// Takes a heartbeat: a look-up and a few stores.
    pub fn heartbeat(&self, id: &str) -> HeartbeatOutcome {
        let outcome = self.0.heartbeats.record(&self.0.state.load(), id, self.0.clock.now_ms());
        let statistics = &self.0.statistics;
        let counter = match outcome {
            HeartbeatOutcome::Recorded => &statistics.heartbeats,
            HeartbeatOutcome::Tolerated | HeartbeatOutcome::Unknown => {
                &statistics.unregistered_heartbeats
            }
            HeartbeatOutcome::BadId => return outcome,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    /// What is known of the heartbeats of an id, registered or not.
    pub fn last_heartbeat(&self, id: &str) -> Option<LastHeartbeat> {
        self.0.heartbeats.last(&self.0.state.load(), id)
    }

    /// Forgets the heartbeats of an id, registered or not; health goes on to be judged by them.
    pub fn forget_heartbeats(&self, id: &str) {
        self.0.heartbeats.forget(&self.0.state.load(), id);
    }

    /// The newest version. A guard is for a short look; whoever keeps it longer loads it in full.
    #[inline]
    pub fn state(&self) -> Guard<Arc<State>> {
        self.0.state.load()
    }

    /// The newest version, to keep.
    pub fn state_full(&self) -> Arc<State> {
        self.0.state.load_full()
    }

    /// Tells the number of every new version; a slow reader sees the newest only.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.published.subscribe()
    }

    /// Takes the report of a client, unless it is longer than what is remembered of one.
    pub fn report_client(&self, id: &str, body: Bytes) {
        self.0.clients.report(id, body, self.0.clock.now_ms());
    }

    /// The clients that reported themselves lately, by id.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        self.0.clients.list(self.0.clock.now_ms())
    }

    /// How many they are.
    pub fn client_count(&self) -> usize {
        self.0.clients.count(self.0.clock.now_ms())
    }

    /// Whether changes can be made: there is a keeper, and its store takes what it writes. The channel
    /// ends with the keeper.
    pub fn serving(&self) -> watch::Receiver<bool> {
        self.0.is_serving.clone()
    }

    /// The nodes that keep it together, where several can; `None` where this one keeps it alone.
    pub fn members(&self) -> Option<Vec<Member>> {
        self.0.cluster.as_ref().map(|cluster| cluster.members())
    }

    /// Now, in milliseconds of Unix time.
    pub fn now_ms(&self) -> u64 {
        self.0.clock.now_ms()
    }

    /// What was counted since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.0.statistics
    }
}
