//! The upstreams whose nodes change beside requests, and what has changed about them since
//! somebody last asked: so that an answer costs what a change touched, however many there are.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tollhouse_upstream::{UpstreamChange, UpstreamState};

#[derive(Debug, Default)]
pub(super) struct Driven {
    states: HashMap<String, Arc<UpstreamState>>,
    /// Those of them whose owners may go without a word.
    of_plugins: HashSet<String>,
    changed: HashSet<String>,
}

impl Driven {
    /// Sets the state of a key.
    pub(super) fn insert(&mut self, key: &str, state: Arc<UpstreamState>) {
        self.states.insert(key.to_owned(), state);
        self.changed.insert(key.to_owned());
    }

    /// Forgets a key.
    pub(super) fn remove(&mut self, key: &str) {
        if self.states.remove(key).is_some() {
            self.of_plugins.remove(key);
            self.changed.insert(key.to_owned());
        }
    }

    /// Notes whose a key is, if it is driven at all.
    pub(super) fn is_of_plugin(&mut self, key: &str) {
        if self.states.contains_key(key) {
            self.of_plugins.insert(key.to_owned());
        }
    }

    /// Forgets those of plugins that are gone.
    pub(super) fn let_go(&mut self, is_gone: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.of_plugins.extract_if(|key| is_gone(key)).collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    /// What has changed since the last time.
    pub(super) fn take_changes(&mut self) -> Vec<UpstreamChange> {
        let changed = std::mem::take(&mut self.changed);
        let change = |key: String| UpstreamChange { state: self.states.get(&key).cloned(), key };
        changed.into_iter().map(change).collect()
    }
}
