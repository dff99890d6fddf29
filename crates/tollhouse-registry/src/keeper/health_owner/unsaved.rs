//! Instances whose health has changed since it was made durable, longest first.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;

use crate::clock::milliseconds;
use crate::limits::{COMMANDS_BATCHED_MAX, HEALTH_SAVED_AFTER, HEALTH_SAVED_INTERVAL};

/// See the module. Each is there once, however often its health changes: what counts is how it stands
/// when it is written.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    queue: VecDeque<(Arc<str>, u64)>,
    ids: HashSet<Arc<str>>,
    /// When something is written next, at the earliest.
    due_at_ms: u64,
}

impl Unsaved {
    /// The health of an instance has changed.
    pub(super) fn push(&mut self, id: &Arc<str>, now_ms: u64) {
        if self.ids.insert(Arc::clone(id)) {
            self.queue.push_back((Arc::clone(id), now_ms));
        }
    }

    /// When some have waited long enough; `None` while none wait.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        let (_, since_ms) = self.queue.front()?;
        Some((since_ms + milliseconds(HEALTH_SAVED_AFTER)).max(self.due_at_ms))
    }

    /// Takes out those that have waited long enough, as many as go into one commit.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<Arc<str>> {
        if now_ms < self.due_at_ms {
            return Vec::new();
        }
        let oldest_ms = now_ms.saturating_sub(milliseconds(HEALTH_SAVED_AFTER));
        let due = self.queue.iter().take_while(|(_, since_ms)| *since_ms <= oldest_ms);
        let count = due.take(COMMANDS_BATCHED_MAX).count();
        let due: Vec<_> = self.queue.drain(..count).map(|(id, _)| id).collect();
        for id in &due {
            self.ids.remove(id);
        }
        if !due.is_empty() {
            self.due_at_ms = now_ms + milliseconds(HEALTH_SAVED_INTERVAL);
        }
        debug_assert_eq!(self.queue.len(), self.ids.len(), "each is queued once");
        due
    }
}
