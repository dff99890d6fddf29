//! The handle: submits commands, takes heartbeats, reads what is published.
//!
//! Cheap to clone, usable from any thread. Reading and beating take no lock; a command waits for the
//! keeper.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::check::is_instance_id;
use crate::clients::{Client, Clients};
use crate::clock::Clock;
use crate::command::{Command, Outcome};
use crate::limits::{COMMANDS_QUEUED_BYTES_MAX, STRANGER_BEATS_TOLERATED};
use crate::pulse::LastBeat;
use crate::refusal::Refusal;
use crate::state::State;
use crate::strangers::Strangers;

/// See the module.
#[derive(Debug, Clone)]
pub struct Registry(Arc<Shared>);

/// What the handles and the keeper share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: ArcSwap<State>,
    pub(crate) published: watch::Sender<u64>,
    pub(crate) strangers: Strangers,
    pub(crate) clock: Clock,
    pub(crate) statistics: Statistics,
    pub(crate) clients: Clients,
    requests: mpsc::Sender<Request>,
    /// Bytes of commands that wait for the keeper.
    queued_bytes: Arc<AtomicUsize>,
}

/// What the keeper is asked.
#[derive(Debug)]
pub(crate) enum Request {
    /// Do this, and say what came of it.
    Command(Command, oneshot::Sender<Result<Outcome, Refusal>>, QueueShare),
    /// An unhealthy instance beats again.
    Beats(Arc<str>),
}

/// The bytes of a command among those that wait; given back when dropped.
#[derive(Debug)]
pub(crate) struct QueueShare {
    queued_bytes: Arc<AtomicUsize>,
    bytes: usize,
}

impl QueueShare {
    /// A share of so many bytes, if that many are left.
    fn take(queued_bytes: &Arc<AtomicUsize>, bytes: usize) -> Result<Self, Refusal> {
        let before = queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let share = Self { queued_bytes: Arc::clone(queued_bytes), bytes };
        if before + bytes > COMMANDS_QUEUED_BYTES_MAX { Err(Refusal::Busy) } else { Ok(share) }
    }
}

impl Drop for QueueShare {
    fn drop(&mut self) {
        self.queued_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Counted since the start.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Instances that fell silent.
    pub expired: AtomicU64,
    /// Instances that beat again.
    pub recovered: AtomicU64,
    /// Heartbeats of instances.
    pub beats: AtomicU64,
    /// Heartbeats of ids that nobody registered.
    pub stranger_beats: AtomicU64,
    /// Commands done.
    pub commands: AtomicU64,
    /// Commands refused.
    pub refused: AtomicU64,
    /// Groups of commands made durable.
    pub commits: AtomicU64,
    /// Microseconds that took, together.
    pub commit_us: AtomicU64,
}

/// What came of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// The instance is registered.
    Taken,
    /// It is not; but it may be about to be, and is told so only when it goes on.
    Tolerated,
    /// It is not registered.
    Unknown,
    /// No instance can have such an id.
    BadId,
}

impl Registry {
    pub(crate) fn new(state: State, clock: Clock, requests: mpsc::Sender<Request>) -> Self {
        Self(Arc::new(Shared {
            published: watch::Sender::new(state.version()),
            state: ArcSwap::from_pointee(state),
            strangers: Strangers::default(),
            clock,
            statistics: Statistics::default(),
            clients: Clients::default(),
            requests,
            queued_bytes: Arc::default(),
        }))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// Does a command. When this returns it is durable and everybody sees it. A future that is dropped
    /// takes nothing back.
    ///
    /// # Errors
    /// Why it was not done; nothing has changed then.
    pub async fn submit(&self, command: Command) -> Result<Outcome, Refusal> {
        let share = QueueShare::take(&self.0.queued_bytes, command.bytes())?;
        let (reply, answer) = oneshot::channel();
        self.0.requests.try_send(Request::Command(command, reply, share)).map_err(|error| {
            match error {
                TrySendError::Full(_) => Refusal::Busy,
                TrySendError::Closed(_) => Refusal::Closed,
            }
        })?;
        answer.await.unwrap_or(Err(Refusal::Closed))
    }

    /// Takes a heartbeat: a look-up and a few stores.
    pub fn heartbeat(&self, id: &str) -> Beat {
        if !is_instance_id(id) {
            return Beat::BadId;
        }
        let now_ms = self.0.clock.now_ms();
        if let Some(instance) = self.0.state.load().instance(id) {
            self.0.statistics.beats.fetch_add(1, Ordering::Relaxed);
            if instance.pulse.beat(now_ms)
                && self.0.requests.try_send(Request::Beats(Arc::clone(&instance.id))).is_err()
            {
                // The keeper has much to do; the next beat tells it.
                instance.pulse.await_beat();
            }
            return Beat::Taken;
        }
        self.0.statistics.stranger_beats.fetch_add(1, Ordering::Relaxed);
        let count = self.0.strangers.beat(id, now_ms);
        if count <= u64::from(STRANGER_BEATS_TOLERATED) { Beat::Tolerated } else { Beat::Unknown }
    }

    /// What is known of the heartbeats of an id, registered or not.
    pub fn last_beat(&self, id: &str) -> Option<LastBeat> {
        if let Some(instance) = self.0.state.load().instance(id) {
            return Some(instance.pulse.last_beat()).filter(|beat| beat.count > 0);
        }
        self.0.strangers.get(id)
    }

    /// Forgets the heartbeats of an id that is not registered.
    pub fn forget_beats(&self, id: &str) {
        self.0.strangers.forget(id);
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

    /// Whether there is a keeper, without which nothing changes any more.
    pub fn is_kept(&self) -> bool {
        !self.0.requests.is_closed()
    }

    /// Waits until there is no keeper any more.
    pub async fn until_left(&self) {
        self.0.requests.closed().await;
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
