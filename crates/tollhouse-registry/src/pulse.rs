//! The pulse of an instance: the record of its heartbeats. Threads that receive heartbeats write it
//! without a lock; the keeper's timer wheel reads it. A pulse is never stored.
//!
//! A heartbeat writes its time, then reads whether the keeper awaits one. The keeper writes that it
//! awaits one, then reads the time of the last. All four accesses are sequentially consistent:
//! under a weaker ordering both sides could read the old value, and a live instance would stay
//! unhealthy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Heartbeats of an instance; see the module. Shared by all versions of an instance while it is
/// registered.
#[derive(Debug)]
pub struct Pulse {
    id: Arc<str>,
    /// Latest of registration, restart and last heartbeat; expiry counts from here.
    alive_at_ms: AtomicU64,
    /// Time of the last heartbeat; 0 before the first.
    heartbeat_at_ms: AtomicU64,
    heartbeats: AtomicU64,
    /// Set if the next heartbeat must be reported to the keeper, the task that changes the
    /// registry.
    is_awaited: AtomicBool,
    /// Set while the instance is in this node's next round.
    is_in_round: AtomicBool,
    /// Time of the next examination by the timer wheel; 0 if it is not armed.
    due_at_ms: AtomicU64,
}

/// Summary of the heartbeats of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastHeartbeat {
    /// Time of the last heartbeat, in milliseconds of Unix time; 0 before the first.
    pub at_ms: u64,
    /// Number of heartbeats since registration.
    pub count: u64,
}

impl Pulse {
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

    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub fn last_heartbeat(&self) -> LastHeartbeat {
        LastHeartbeat {
            at_ms: self.heartbeat_at_ms.load(Ordering::Relaxed),
            count: self.heartbeats.load(Ordering::Relaxed),
        }
    }

    /// Clears time and count of heartbeats. The time from which expiry counts stays, so that
    /// deleting the record cannot make an instance unhealthy.
    pub(crate) fn forget_heartbeats(&self) {
        self.heartbeats.store(0, Ordering::Relaxed);
        self.heartbeat_at_ms.store(0, Ordering::Relaxed);
    }

    /// Records a heartbeat. Returns whether this is the first heartbeat of an instance marked
    /// unhealthy, so that the registry's main task must mark it healthy again.
    #[inline]
    pub(crate) fn record_heartbeat(&self, now_ms: u64) -> bool {
        self.heartbeat_at_ms.store(now_ms, Ordering::Relaxed);
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
        self.alive_at_ms.store(now_ms, Ordering::SeqCst);
        // The load comes first, because a cache line that is only read stays shared between cores.
        self.is_awaited.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// Marks the instance as part of the next round. Returns whether it was not marked before.
    pub(crate) fn enter_round(&self) -> bool {
        !self.is_in_round.load(Ordering::SeqCst) && !self.is_in_round.swap(true, Ordering::SeqCst)
    }

    /// Clears the mark, after the round was cut.
    pub(crate) fn leave_round(&self) {
        self.is_in_round.store(false, Ordering::SeqCst);
    }

    /// Makes the instance count as alive now, without a heartbeat, because it was registered again.
    pub(crate) fn revive(&self, now_ms: u64) {
        self.alive_at_ms.store(now_ms, Ordering::SeqCst);
        self.is_awaited.store(false, Ordering::SeqCst);
    }

    /// Requests that the next heartbeat is reported to the keeper, the task that changes the
    /// registry.
    pub(crate) fn await_heartbeat(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    /// Returns the time from which expiry counts.
    pub(crate) fn alive_at_ms(&self) -> u64 {
        self.alive_at_ms.load(Ordering::SeqCst)
    }

    /// Returns the time of the next examination by the timer wheel; 0 if it is not armed.
    pub(crate) fn due_at_ms(&self) -> u64 {
        self.due_at_ms.load(Ordering::Relaxed)
    }

    /// Sets the time of the next examination by the timer wheel.
    pub(crate) fn set_due_at_ms(&self, due_at_ms: u64) {
        self.due_at_ms.store(due_at_ms, Ordering::Relaxed);
    }
}
