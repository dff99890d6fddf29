//! Handle of the registry: submits commands, records heartbeats, reads published versions.
//!
//! Cheap to clone and usable from any thread. Reads and heartbeats take no lock; a command waits
//! for the keeper, the task that makes all changes.

mod config_watches;
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
use crate::config::ConfigFileKey;
use crate::pulse::LastHeartbeat;
use crate::refusal::Refusal;
use crate::state::State;
use crate::timeline::Timeline;

use config_watches::ConfigWatches;
pub use config_watches::{ConfigWatch, ConfigWatcher, WatchedVersion};
pub use heartbeats::HeartbeatOutcome;
use heartbeats::HeartbeatRouter;
use queue::RequestQueue;
pub(crate) use queue::{Request, Waiter};

/// Handle of a registry; see the module.
#[derive(Debug, Clone)]
pub struct Registry(Arc<Shared>);

/// State shared by all handles and by the keeper, the task that makes all changes.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: ArcSwap<State>,
    pub(crate) published: watch::Sender<u64>,
    pub(crate) clock: Clock,
    pub(crate) statistics: Statistics,
    pub(crate) timeline: Timeline,
    pub(crate) clients: Clients,
    pub(crate) heartbeats: HeartbeatRouter,
    pub(crate) config_watches: ConfigWatches,
    /// State of the cluster; `None` if this node is the only one.
    pub(crate) cluster: Option<Arc<Cluster>>,
    queue: RequestQueue,
    /// Whether changes can be made. The keeper owns the sender, so that the channel closes with it.
    is_serving: watch::Receiver<bool>,
}

/// Counters since the start of the process.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Number of instances that expired.
    pub expired: AtomicU64,
    /// Number of instances that recovered.
    pub recovered: AtomicU64,
    /// Number of heartbeats of registered instances.
    pub heartbeats: AtomicU64,
    /// Number of heartbeats of ids that are not registered.
    pub unregistered_heartbeats: AtomicU64,
    pub commands: AtomicU64,
    pub refused: AtomicU64,
    pub commits: AtomicU64,
    /// Total duration of all commits, in microseconds.
    pub commit_us: AtomicU64,
    /// Set while heartbeats go over the store because the channel does not accept them.
    pub is_channel_down: AtomicBool,
    /// Number of times that rounds of another node were missing.
    pub round_losses: AtomicU64,
    /// Number of times that this node's state differed from that of the other nodes and was read
    /// again.
    pub differences: AtomicU64,
}

impl Registry {
    /// Creates a handle, and the receiver from which the keeper reads requests.
    pub(crate) fn new(
        mut state: State,
        clock: Clock,
        is_serving: watch::Receiver<bool>,
        cluster: Option<Arc<Cluster>>,
    ) -> (Self, mpsc::Receiver<Request>) {
        // No client watches yet.
        drop(state.take_changed_files());
        let (queue, requests) = RequestQueue::new();
        let shared = Shared {
            published: watch::Sender::new(state.version()),
            state: ArcSwap::from_pointee(state),
            clock,
            statistics: Statistics::default(),
            timeline: Timeline::default(),
            clients: Clients::default(),
            config_watches: ConfigWatches::default(),
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

    /// Returns the recent events of instances.
    pub fn timeline(&self) -> &Timeline {
        &self.0.timeline
    }

    /// Executes a command. On return the change is durable and visible to all readers. Dropping the
    /// future does not cancel the command.
    ///
    /// # Errors
    /// If the command was refused; nothing has changed then.
    pub async fn submit(&self, command: Command) -> Result<Outcome, Refusal> {
        let outcome = self.0.queue.push_command(command)?;
        outcome.await.unwrap_or(Err(Refusal::Closed))
    }

    /// Records a heartbeat. Costs a look-up and a few stores.
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

    /// Returns the last heartbeat of an id, registered or not; `None` if there was none.
    pub fn last_heartbeat(&self, id: &str) -> Option<LastHeartbeat> {
        self.0.heartbeats.last(&self.0.state.load(), id)
    }

    /// Clears the recorded heartbeats of an id, registered or not; its health does not change.
    pub fn forget_heartbeats(&self, id: &str) {
        self.0.heartbeats.forget(&self.0.state.load(), id);
    }

    /// Returns the newest version for a short read; use [`Self::state_full`] to keep it longer.
    #[inline]
    pub fn state(&self) -> Guard<Arc<State>> {
        self.0.state.load()
    }

    /// Returns the newest version, to keep.
    pub fn state_full(&self) -> Arc<State> {
        self.0.state.load_full()
    }

    /// Returns a receiver of the number of each new version; a slow reader sees the newest only.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.published.subscribe()
    }

    /// Stores the report of a client; a report that is too long is ignored.
    pub fn report_client(&self, id: &str, body: Bytes) {
        self.0.clients.report(id, body, self.0.clock.now_ms());
    }

    /// Returns the clients that reported recently, sorted by id.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        self.0.clients.list(self.0.clock.now_ms())
    }

    /// Returns the number of clients that reported recently.
    pub fn client_count(&self) -> usize {
        self.0.clients.count(self.0.clock.now_ms())
    }

    /// Starts to watch configuration files for a client: the watch wakes when the releases in force
    /// of one of them change, and when rights change. The caller reads the state after this call,
    /// so that no change is missed.
    ///
    /// # Errors
    /// If there are too many watches, or too many files in one.
    pub fn watch_config(
        &self,
        client: &str,
        files: Vec<WatchedVersion>,
    ) -> Result<ConfigWatch, Refusal> {
        self.0.config_watches.add(client, files)
    }

    /// Returns the clients that watch a file at this node, at most `max` of them, and their number.
    pub fn config_watchers(&self, file: &ConfigFileKey, max: usize) -> (Vec<ConfigWatcher>, usize) {
        self.0.config_watches.watchers(file, max)
    }

    /// Returns a number that increases whenever users, groups, roles or policies change. Read it
    /// before the state.
    pub fn rights_epoch(&self) -> u64 {
        self.0.config_watches.rights_epoch()
    }

    /// Returns the number of watches on configuration files.
    pub fn config_watch_count(&self) -> usize {
        self.0.config_watches.count()
    }

    /// Whether changes can be made: the keeper runs and its store accepts commits. The channel
    /// closes with the keeper.
    pub fn serving(&self) -> watch::Receiver<bool> {
        self.0.is_serving.clone()
    }

    /// Returns the nodes that share the registry; `None` if this node keeps it alone.
    pub fn members(&self) -> Option<Vec<Member>> {
        self.0.cluster.as_ref().map(|cluster| cluster.members())
    }

    /// Returns the current time in milliseconds of Unix time.
    pub fn now_ms(&self) -> u64 {
        self.0.clock.now_ms()
    }

    /// Returns the counters since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.0.statistics
    }
}
