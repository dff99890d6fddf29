//! The pulse of an instance: what its heartbeats leave behind. Written without a lock by whoever
//! receives one, read by the keeper's timer wheel. Nothing of it is made durable.
//!
//! A heartbeat writes when it came and then reads whether it is awaited; the keeper writes that it awaits
//! one and then reads when the last came. All four are sequentially consistent: with less, both could read
//! what was there before, and an instance that is alive would stay unhealthy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module. Shared by all versions of an instance from its registration to its end.
#[derive(Debug)]
pub struct Pulse {
    id: Arc<str>,
    /// The later of registration, restart and last heartbeat: what expiry counts from.
    alive_at_ms: AtomicU64,
    /// The last heartbeat, or 0.
    heartbeat_at_ms: AtomicU64,
    heartbeats: AtomicU64,
    /// Whether the keeper waits for the next heartbeat.
    is_awaited: AtomicBool,
    /// Whether it is in the round that this node sends to the others next.
    is_in_round: AtomicBool,
    /// When the timer wheel looks at it next; 0 when it does not.
    due_at_ms: AtomicU64,
}

/// What is known of the heartbeats of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastHeartbeat {
    /// The last one, in milliseconds of Unix time; 0 when there was none.
    pub at_ms: u64,
    /// How many.
    pub count: u64,
}

impl Pulse {
    /// The pulse of an instance that was never heard of.
    pub(crate) fn new(id: Arc<str>, now_ms: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            alive_at_ms: AtomicU64::new(now_ms),
            heartbeat_at_ms: AtomicU64::new(0),
            heartbeats: AtomicU64::new(0),
            is_awaited: AtomicBool::new(false),
            is_in_round: AtomicBool::new(false),
            due_at_ms: AtomicU64::new(0),
        })
    }

    /// The id of its instance.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// When it was heard of last, and how often.
    pub fn last_heartbeat(&self) -> LastHeartbeat {
        LastHeartbeat {
            at_ms: self.heartbeat_at_ms.load(Ordering::Relaxed),
            count: self.heartbeats.load(Ordering::Relaxed),
        }
    }

    /// Forgets when it was heard of and how often. What expiry counts from stays: nobody may make an instance
    /// unhealthy by asking for its record to go.
    pub(crate) fn forget_heartbeats(&self) {
        self.heartbeats.store(0, Ordering::Relaxed);
        self.heartbeat_at_ms.store(0, Ordering::Relaxed);
    }

    /// Notes a heartbeat; whether the keeper waits for it.
    #[inline]
    pub(crate) fn record_heartbeat(&self, now_ms: u64) -> bool {
        self.heartbeat_at_ms.store(now_ms, Ordering::Relaxed);
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
        self.alive_at_ms.store(now_ms, Ordering::SeqCst);
        // Read first: a line that is only read stays shared between cores.
        self.is_awaited.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// Takes note that it is in the round that is sent next; whether it was not yet.
    pub(crate) fn enter_round(&self) -> bool {
        !self.is_in_round.load(Ordering::SeqCst) && !self.is_in_round.swap(true, Ordering::SeqCst)
    }

    /// The round was cut.
    pub(crate) fn leave_round(&self) {
        self.is_in_round.store(false, Ordering::SeqCst);
    }

    /// Counts as alive from now on, without a heartbeat: it was registered again.
    pub(crate) fn revive(&self, now_ms: u64) {
        self.alive_at_ms.store(now_ms, Ordering::SeqCst);
        self.is_awaited.store(false, Ordering::SeqCst);
    }

    /// Has the keeper hear of the next heartbeat.
    pub(crate) fn await_heartbeat(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    /// What expiry counts from.
    pub(crate) fn alive_at_ms(&self) -> u64 {
        self.alive_at_ms.load(Ordering::SeqCst)
    }

    /// When the timer wheel looks at it next; 0 when it does not.
    pub(crate) fn due_at_ms(&self) -> u64 {
        self.due_at_ms.load(Ordering::Relaxed)
    }

    /// Notes when the timer wheel looks at it next.
    pub(crate) fn set_due_at_ms(&self, due_at_ms: u64) {
        self.due_at_ms.store(due_at_ms, Ordering::Relaxed);
    }
}
