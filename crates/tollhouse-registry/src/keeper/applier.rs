//! The applier: the only one who replaces the published version. What it applies is durable already, but
//! for changes of health, which become so later.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::group::Applied;
use crate::registry::Shared;
use crate::state::State;

pub(super) struct Applier {
    shared: Arc<Shared>,
}

impl Applier {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The published version.
    pub(super) fn current(&self) -> Arc<State> {
        self.shared.state.load_full()
    }

    /// A copy of it, to be changed and then published or dropped.
    pub(super) fn draft(&self) -> State {
        State::clone(&self.shared.state.load())
    }

    /// Replaces the published version by one that was drafted from it.
    pub(super) fn publish(&self, mut state: State) {
        let before = self.shared.state.load().version();
        assert_eq!(state.version, before, "a draft is published before the next one is made");
        state.version += 1;
        let version = state.version;
        self.shared.state.store(Arc::new(state));
        self.shared.published.send_replace(version);
    }

    /// Counts the outcome of a command and answers who waits for it, now that everybody can see it.
    pub(super) fn answer(&self, applied: Applied) {
        let counter = match &applied.outcome {
            Ok(_) => &self.shared.statistics.commands,
            Err(_) => &self.shared.statistics.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(waiter) = applied.waiter {
            waiter.answer(applied.outcome);
        }
    }
}
