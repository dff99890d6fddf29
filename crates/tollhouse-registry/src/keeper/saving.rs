//! Changes of health become durable, lazily: what still stands after a while is written, many together,
//! at most once a second. After a restart who was unhealthy is, until it beats, and revisions mean what
//! they meant before.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;

use super::Keeper;
use crate::clock::milliseconds;
use crate::journal::{Journal, Record};
use crate::limits::{COMMANDS_BATCHED_MAX, HEALTH_SAVED_AFTER, HEALTH_SAVED_INTERVAL};

/// Instances whose health has changed since it was made durable, longest first.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    queue: VecDeque<(Arc<str>, u64)>,
    ids: HashSet<Arc<str>>,
    /// When something is written next.
    due_at_ms: u64,
}

impl Unsaved {
    /// The health of an instance has changed.
    pub(super) fn push(&mut self, id: &Arc<str>, now_ms: u64) {
        if self.ids.insert(Arc::clone(id)) {
            self.queue.push_back((Arc::clone(id), now_ms));
        }
    }

    /// Those that have waited long enough, as many as go into one commit.
    fn due(&mut self, now_ms: u64) -> Vec<Arc<str>> {
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
        due
    }
}

impl Keeper {
    /// Makes durable what is due. What cannot be is tried again later.
    pub(super) async fn save_health(&mut self) {
        let now_ms = self.shared.clock.now_ms();
        let due = self.unsaved.due(now_ms);
        if due.is_empty() {
            return;
        }
        let mut journal = Journal::default();
        let state = self.shared.state.load_full();
        for instance in due.iter().filter_map(|id| state.instance(id)) {
            // What is registered has been small enough before.
            if let Ok(record) = Record::instance(instance) {
                journal.put(record);
            }
        }
        if !journal.is_empty() && self.write(journal.into_transaction()).await.is_err() {
            due.iter().for_each(|id| self.unsaved.push(id, now_ms));
        }
    }
}
