//! The handle: submits commands, takes heartbeats, reads what is published.
//!
//! Cheap to clone, usable from any thread. Reading and beating take no lock; a command waits for the
//! keeper.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clients::{Client, Clients};
use crate::clock::Clock;
use crate::command::{Command, Outcome};
use crate::limits::STRANGER_BEATS_TOLERATED;
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
    clients: Clients,
    requests: mpsc::Sender<Request>,
}

/// What the keeper is asked.
#[derive(Debug)]
pub(crate) enum Request {
    /// Do this, and say what came of it.
    Command(Command, oneshot::Sender<Result<Outcome, Refusal>>),
    /// An unhealthy instance beats again.
    Beats(Arc<str>),
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
        let (reply, answer) = oneshot::channel();
        let request = Request::Command(command, reply);
        self.0.requests.send(request).await.map_err(|_| Refusal::Closed)?;
        answer.await.unwrap_or(Err(Refusal::Closed))
    }

    /// Takes a heartbeat: a look-up and a few stores.
    pub fn heartbeat(&self, id: &str) -> Beat {
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

    /// Takes the report of a client.
    pub fn report_client(&self, id: &str, body: Bytes) {
        self.0.clients.report(id, body, self.0.clock.now_ms());
    }

    /// The clients that reported themselves lately, by id.
    pub fn clients(&self) -> Vec<Client> {
        self.0.clients.list(self.0.clock.now_ms())
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
