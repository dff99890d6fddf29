//! Upstreams whose nodes change outside requests, and their changes since the last query, so that a
//! query costs as much as the changes and not as the number of upstreams.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tollhouse_upstream::{UpstreamChange, UpstreamState};

#[derive(Debug, Default)]
pub(super) struct DrivenUpstreams {
    states: HashMap<String, Arc<UpstreamState>>,
    /// Keys of upstreams that belong to plugins, which may vanish without a removal.
    of_plugins: HashSet<String>,
    changed: HashSet<String>,
}

impl DrivenUpstreams {
    pub(super) fn insert(&mut self, key: &str, state: Arc<UpstreamState>) {
        self.states.insert(key.to_owned(), state);
        self.changed.insert(key.to_owned());
    }

    pub(super) fn remove(&mut self, key: &str) {
        if self.states.remove(key).is_some() {
            self.of_plugins.remove(key);
            self.changed.insert(key.to_owned());
        }
    }

    /// Marks a key as a plugin's, if its upstream is driven.
    pub(super) fn is_of_plugin(&mut self, key: &str) {
        if self.states.contains_key(key) {
            self.of_plugins.insert(key.to_owned());
        }
    }

    /// Removes the upstreams of plugins for which `is_gone` holds.
    pub(super) fn let_go(&mut self, is_gone: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.of_plugins.extract_if(|key| is_gone(key)).collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    /// Returns the changes recorded since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<UpstreamChange> {
        let changed = std::mem::take(&mut self.changed);
        let change = |key: String| UpstreamChange { state: self.states.get(&key).cloned(), key };
        changed.into_iter().map(change).collect()
    }
}
