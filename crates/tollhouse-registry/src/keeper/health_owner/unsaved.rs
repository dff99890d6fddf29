//! Instances with an unsaved change of health, oldest first.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;

use crate::clock::milliseconds;
use crate::limits::{COMMANDS_BATCHED_MAX, HEALTH_SAVED_AFTER, HEALTH_SAVED_INTERVAL};

/// Queue of unsaved changes. Each instance is queued once, however often its health changes,
/// because its state at the time of saving is written.
#[derive(Debug, Default)]
pub(super) struct SaveQueue {
    queue: VecDeque<(Arc<str>, u64)>,
    ids: HashSet<Arc<str>>,
    /// Earliest time of the next save.
    due_at_ms: u64,
}

impl SaveQueue {
    /// Queues an instance whose health has changed.
    pub(super) fn push(&mut self, id: &Arc<str>, now_ms: u64) {
        if self.ids.insert(Arc::clone(id)) {
            self.queue.push_back((Arc::clone(id), now_ms));
        }
    }

    /// Returns the time of the next save; `None` if the queue is empty.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        let (_, since_ms) = self.queue.front()?;
        Some((since_ms + milliseconds(HEALTH_SAVED_AFTER)).max(self.due_at_ms))
    }

    /// Takes out the instances whose change is old enough, at most as many as fit into one commit.
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
