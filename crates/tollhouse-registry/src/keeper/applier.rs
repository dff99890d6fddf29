//! The applier: the only part that replaces the published version. Published changes are durable
//! already, except changes of health where this process keeps the registry alone: these are saved
//! later. In a cluster the applier applies the commits of all nodes in log order; commits of this
//! node wait for their turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tollhouse_store::{Revision, StoreError};

use super::group::AppliedCommand;
use super::health_owner::HealthOwner;
use super::log::{CommitEffects, Log, LogEvent};
use crate::registry::Shared;
use crate::state::State;

/// Maximum wait for a commit to come back in the log, equal to other timeouts of the store. Without
/// it, a database that hangs after its answer would block all calls of this node.
const READ_BACK_MAX: Duration = Duration::from_secs(3);

pub(super) struct Applier {
    shared: Arc<Shared>,
    /// Commits of all nodes; `None` if this node is alone.
    log: Option<Log>,
}

impl Applier {
    pub(super) fn new(shared: Arc<Shared>, log: Option<Log>) -> Self {
        Self { shared, log }
    }

    pub(super) fn current(&self) -> Arc<State> {
        self.shared.state.load_full()
    }

    /// Returns a copy of the published version, to change and then publish or drop.
    pub(super) fn draft(&self) -> State {
        State::clone(&self.shared.state.load())
    }

    /// Returns the log of all nodes' commits; `None` if this node is alone.
    pub(super) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Returns the revision of the last commit in the published version; zero if this node is
    /// alone.
    pub(super) fn since(&self) -> Revision {
        self.log.as_ref().map_or(Revision::ZERO, Log::revision)
    }

    /// Replaces the published version by a draft that was made from it.
    pub(super) fn publish(&self, mut state: State) {
        let before = self.shared.state.load_full();
        let has_new_rights = state.differs_in_identities(&before);
        let before = before.version();
        assert_eq!(state.version, before, "a draft is published before the next one is made");
        state.version += 1;
        let version = state.version;
        let changed = state.take_changed_files();
        self.shared.state.store(Arc::new(state));
        self.shared.published.send_replace(version);
        self.shared.config_watches.wake(&changed);
        if has_new_rights {
            self.shared.config_watches.wake_for_rights();
        }
    }

    /// Waits for the next commit of any node; never returns if this node is alone. Cancel-safe.
    pub(super) async fn next(&mut self) -> LogEvent {
        match &mut self.log {
            Some(log) => log.next().await,
            None => std::future::pending().await,
        }
    }

    /// Applies an event and all further events that are ready, then publishes once.
    pub(super) async fn take_in(&mut self, event: LogEvent, health: &mut HealthOwner) {
        let mut draft = self.draft();
        let Some(log) = &mut self.log else { return };
        let mut folded = CommitEffects::default();
        let mut next = Some(event);
        while let Some(event) = next {
            match event {
                LogEvent::Commit(events) => {
                    log.fold(&self.shared, &mut draft, &events, &mut folded)
                }
                LogEvent::Nothing => {}
                LogEvent::Reload => return self.reload(health).await,
            }
            next = log.try_next();
        }
        let now_ms = self.shared.clock.now_ms();
        if folded.has_new_members {
            health.set_membership(&mut draft, log.membership());
        }
        for event in &folded.events {
            health.apply(&mut draft, event, now_ms);
        }
        // A commit of nothing but heartbeats makes no new version.
        if draft.is_changed_from(&self.shared.state.load()) {
            self.publish(draft);
        }
    }

    /// Applies all commits up to this revision; meanwhile the keeper counts as awake.
    ///
    /// # Errors
    /// [`StoreError::Unanswered`] if the store does not show the commit in time. The commit is
    /// applied when it appears in the log.
    pub(super) async fn reach(
        &mut self,
        revision: Revision,
        health: &mut HealthOwner,
    ) -> Result<(), StoreError> {
        let until = Instant::now() + READ_BACK_MAX;
        while self.log.as_ref().is_some_and(|log| log.revision() < revision) {
            let event = tokio::select! {
                event = self.next() => event,
                () = sleep_until(until.min(health.look_due())) => {
                    health.look();
                    if Instant::now() >= until {
                        return Err(not_read_back());
                    }
                    continue;
                }
            };
            let is_reload = matches!(event, LogEvent::Reload);
            self.take_in(event, health).await;
            // The reload is repeated later. The commit itself is durable.
            if is_reload && self.since() < revision {
                return Err(not_read_back());
            }
        }
        Ok(())
    }

    /// Applies all commits made until now.
    pub(super) async fn catch_up(&mut self, health: &mut HealthOwner) -> Result<(), StoreError> {
        let Some(log) = &self.log else { return Ok(()) };
        let newest = log.newest().await?;
        self.reach(newest, health).await
    }

    async fn reload(&mut self, health: &mut HealthOwner) {
        let before = self.current();
        let now_ms = self.shared.clock.now_ms();
        let Some(log) = &mut self.log else { return };
        let Some(mut state) = log.reload(&before, now_ms).await else { return };
        state.version = before.version();
        health.restart(&mut state, log.membership());
        self.publish(state);
    }

    /// Counts the outcome of a command and answers its caller. Must follow publication.
    pub(super) fn answer(&self, applied: AppliedCommand) {
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

fn not_read_back() -> StoreError {
    let reason = "it has taken the commit, and does not show it".to_owned();
    StoreError::Unanswered { place: "the registry's store".into(), reason }
}
