//! Clearing away what nobody has needed for long, where that is switched on: instances that stay
//! unhealthy, and services that came into being with an instance and have none any more.

use std::time::Duration;

use hashbrown::HashMap;

use crate::clock::milliseconds;
use crate::command::Command;
use crate::key::ServiceKey;
use crate::limits::{CLEAN_UP_INTERVAL, COMMANDS_BATCHED_MAX, HEALTH_TICK};
use crate::state::State;

/// What is deleted, and after how long; `None` keeps it, as Polaris does unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CleanUp {
    /// Instances that have not become healthy again.
    pub unhealthy_after: Option<Duration>,
    /// Services without instances and aliases of which nobody has written anything.
    pub empty_services_after: Option<Duration>,
}

/// What is looked at, and when.
#[derive(Debug)]
pub(super) struct Cleaner {
    what: CleanUp,
    due_at_ms: u64,
    /// Empty services, since when each was seen to be.
    empty_since_ms: HashMap<ServiceKey, u64>,
}

impl Cleaner {
    pub(super) fn new(what: CleanUp, now_ms: u64) -> Self {
        let due_at_ms = now_ms + milliseconds(CLEAN_UP_INTERVAL);
        Self { what, due_at_ms, empty_since_ms: HashMap::new() }
    }

    /// When it is looked next what is to be deleted; `None` where nothing ever is.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        (self.what != CleanUp::default()).then_some(self.due_at_ms)
    }

    /// What is to be deleted now, as much as goes into one commit.
    pub(super) fn due(&mut self, state: &State, now_ms: u64) -> Vec<Command> {
        if now_ms < self.due_at_ms || self.what == CleanUp::default() {
            return Vec::new();
        }
        self.due_at_ms = now_ms + milliseconds(CLEAN_UP_INTERVAL);
        let mut commands = Vec::new();
        if let Some(after) = self.what.unhealthy_after {
            commands.extend(long_unhealthy(state, now_ms, after));
        }
        if let Some(after) = self.what.empty_services_after {
            commands.extend(self.long_empty(state, now_ms, after));
        }
        if commands.len() > COMMANDS_BATCHED_MAX {
            // The rest follows soon, and what was asked meanwhile goes before it.
            commands.truncate(COMMANDS_BATCHED_MAX);
            self.due_at_ms = now_ms + milliseconds(HEALTH_TICK);
        }
        commands
    }

    fn long_empty(&mut self, state: &State, now_ms: u64, after: Duration) -> Vec<Command> {
        let before = std::mem::take(&mut self.empty_since_ms);
        for view in state.services().filter(|view| view.counts.total == 0) {
            let service = &view.service;
            if service.is_written_by_nobody() && !state.has_aliases(&service.key) {
                let since_ms = before.get(&service.key).copied().unwrap_or(now_ms);
                self.empty_since_ms.insert(service.key.clone(), since_ms);
            }
        }
        let is_due = |since_ms: u64| since_ms.saturating_add(milliseconds(after)) <= now_ms;
        let due = self.empty_since_ms.iter().filter(|(_, since_ms)| is_due(**since_ms));
        due.map(|(key, _)| Command::DeleteService(key.clone())).collect()
    }
}

/// Who has been unhealthy for so long: health is checked, and nothing has changed since.
fn long_unhealthy(state: &State, now_ms: u64, after: Duration) -> impl Iterator<Item = Command> {
    let silent = state.instances().filter(move |instance| {
        let changed_ms = instance.modified_at.saturating_mul(1_000);
        instance.awaits_heartbeat() && changed_ms.saturating_add(milliseconds(after)) <= now_ms
    });
    silent.map(|instance| Command::Deregister(instance.id.clone()))
}
