//! The committer: makes groups of commands durable and passes them to the applier. If the store
//! refuses a group, the committer saves what it can. If the disk is full, it commits the deletions
//! alone. If the contents were refused, it commits every command by itself. If another node has
//! changed an object that the group depends on, it applies the group again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;
use tokio::time::Instant;
use tollhouse_store::{Committed, ErrorKind, Store, StoreError, Transaction};

use super::applier::Applier;
use super::group::{AppliedCommand, Group};
use super::health_owner::HealthOwner;
use crate::clock::milliseconds;
use crate::journal::Journal;
use crate::limits::{COMMAND_TRIES_MAX, GROUP_TRIES_MAX, STORE_PROBE_INTERVAL};
use crate::refusal::Refusal;
use crate::registry::Shared;

pub(super) struct Committer {
    shared: Arc<Shared>,
    /// Whether the store accepted the last commit, so that a full disk is logged once. Declared
    /// before `store` and therefore dropped first: a task that sees the store close can tell that
    /// the keeper has ended.
    is_serving: watch::Sender<bool>,
    store: Arc<dyn Store>,
    /// Time at which a refusing store is tried again.
    probe_at_ms: u64,
}

/// Key of the test write; it is deleted at once.
pub(super) const PROBE_KEY: &str = "/probe";

/// Size of the test write: larger than a usual registration, and larger than the gaps that
/// deletions leave in the file.
const PROBE_BYTES: usize = 64 * 1024;

/// Cause for which the store refused a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The store's disk is full.
    NoRoom,
    /// The store does not accept the contents of the group.
    Contents,
    /// The store accepts nothing at present.
    Store,
}

impl From<&StoreError> for Reason {
    fn from(error: &StoreError) -> Self {
        match (error, error.kind()) {
            (error, _) if error.is_without_room() => Self::NoRoom,
            (_, ErrorKind::Refused) => Self::Contents,
            (_, ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::Fenced) => Self::Store,
        }
    }
}

impl Committer {
    pub(super) fn new(
        shared: Arc<Shared>,
        store: Arc<dyn Store>,
        is_serving: watch::Sender<bool>,
    ) -> Self {
        Self { shared, store, is_serving, probe_at_ms: 0 }
    }

    /// Returns an empty group on top of the published version.
    pub(super) fn new_group(&self, applier: &Applier) -> Group {
        let (journal, is_alone) = match applier.log() {
            Some(_) => (Journal::guarded(), false),
            None => (Journal::default(), true),
        };
        let group = Group::new(applier.draft(), journal, self.shared.clock.now_ms());
        Group { is_current: is_alone, ..group }
    }

    /// Commits a group, publishes it and answers its callers.
    pub(super) async fn commit(
        &mut self,
        group: Group,
        applier: &mut Applier,
        health: &mut HealthOwner,
    ) {
        let committed = self.commit_in_tries(group, GROUP_TRIES_MAX, applier, health).await;
        let Err((error, applied)) = committed else { return };
        match Reason::from(&error) {
            Reason::Contents if applied.len() > 1 => {
                for one in applied {
                    self.commit_again(vec![one], applier, health).await;
                }
            }
            Reason::NoRoom if applied.iter().any(|applied| !applied.command.removes()) => {
                let (removing, rest): (Vec<_>, Vec<_>) =
                    applied.into_iter().partition(|applied| applied.command.removes());
                // These are answered first, so that their callers do not wait for a second commit.
                refuse(rest, &error, applier);
                self.commit_again(removing, applier, health).await;
            }
            _ => refuse(applied, &error, applier),
        }
    }

    /// Commits commands of a refused group in a new group. They are applied again, because their
    /// outcomes may depend on the refused ones.
    async fn commit_again(
        &mut self,
        commands: Vec<AppliedCommand>,
        applier: &mut Applier,
        health: &mut HealthOwner,
    ) {
        let group = self.group_again(commands, applier);
        let committed = self.commit_in_tries(group, COMMAND_TRIES_MAX, applier, health).await;
        if let Err((error, applied)) = committed {
            refuse(applied, &error, applier);
        }
    }

    /// Applies commands again in a new group on top of the published version.
    fn group_again(&self, commands: Vec<AppliedCommand>, applier: &Applier) -> Group {
        let mut group = self.new_group(applier);
        group.is_current = true;
        for AppliedCommand { command, waiter, .. } in commands {
            group.apply(command, waiter);
        }
        group
    }

    /// Commits a group. If another node changed what the group depends on, the group is applied
    /// again, at most `tries_max` times.
    async fn commit_in_tries(
        &mut self,
        mut group: Group,
        tries_max: u32,
        applier: &mut Applier,
        health: &mut HealthOwner,
    ) -> Result<(), (StoreError, Vec<AppliedCommand>)> {
        let mut tries = 1;
        loop {
            let again = match self.try_commit(group, applier, health).await {
                Ok(left) if left.is_empty() => return Ok(()),
                Ok(left) => left,
                Err((error, applied)) if tries < tries_max && is_overtaken(&error) => applied,
                Err(failed) => return Err(failed),
            };
            tries += 1;
            if let Err(error) = applier.catch_up(health).await {
                return Err((error, again));
            }
            group = self.group_again(again, applier);
        }
    }

    /// Commits a group, publishes it and answers. On failure nothing has changed and the commands
    /// are returned. Commands that wrote nothing are returned as well unless the state is current:
    /// such an outcome, for example a refusal, may rest on a state that another node has changed
    /// before the command came.
    async fn try_commit(
        &mut self,
        group: Group,
        applier: &mut Applier,
        health: &mut HealthOwner,
    ) -> Result<Vec<AppliedCommand>, (StoreError, Vec<AppliedCommand>)> {
        let Group { mut state, journal, now_ms, applied, events, is_current } = group;
        if journal.is_empty() {
            assert!(events.is_empty(), "whatever is done to an instance is written down");
        } else {
            let transaction = journal.into_transaction(applier.since());
            let committed = match self.write(transaction, health).await {
                Ok(committed) => committed,
                Err(error) => return Err((error, applied)),
            };
            if applier.log().is_some() {
                // Other nodes' commits may precede this one, so that the draft cannot be published.
                if let Err(error) = applier.reach(committed.revision, health).await {
                    return Err((error, applied));
                }
            } else {
                for event in &events {
                    health.apply(&mut state, event, now_ms);
                }
                applier.publish(state);
            }
        }
        let (answered, left): (Vec<_>, Vec<_>) =
            applied.into_iter().partition(|one| one.has_written || is_current);
        answered.into_iter().for_each(|one| applier.answer(one));
        Ok(left)
    }

    /// Commits a transaction. Meanwhile the keeper counts as awake: heartbeats still arrive however
    /// long the disk takes, so that a slow commit is not a pause.
    pub(super) async fn write(
        &mut self,
        transaction: Transaction,
        health: &mut HealthOwner,
    ) -> Result<Committed, StoreError> {
        let started = Instant::now();
        let mut commit = self.store.commit(transaction);
        let committed = loop {
            tokio::select! {
                committed = &mut commit => break committed,
                () = tokio::time::sleep_until(health.look_due()) => health.look(),
            }
        };
        drop(commit);
        self.note(committed.as_ref().err());
        if committed.is_ok() {
            let statistics = &self.shared.statistics;
            let elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            statistics.commits.fetch_add(1, Ordering::Relaxed);
            statistics.commit_us.fetch_add(elapsed_us, Ordering::Relaxed);
        }
        committed
    }

    /// Returns the time of the next test write; `None` while the store accepts commits.
    pub(super) fn probe_due_ms(&self) -> Option<u64> {
        (!*self.is_serving.borrow()).then_some(self.probe_at_ms)
    }

    /// Tries a refusing store with a write of usual size, and deletes it again.
    pub(super) async fn probe(&mut self, health: &mut HealthOwner) {
        let now_ms = self.shared.clock.now_ms();
        if self.probe_due_ms().is_none_or(|due_ms| now_ms < due_ms) {
            return;
        }
        self.probe_at_ms = now_ms + milliseconds(STORE_PROBE_INTERVAL);
        let put = Transaction::new().put(PROBE_KEY, vec![0; PROBE_BYTES]);
        if self.write(put, health).await.is_ok() {
            // `write` noted the result. If the deletion fails, the next test write overwrites the
            // value.
            let _ = self.write(Transaction::new().delete(PROBE_KEY), health).await;
        }
    }

    /// Notes whether the store accepts commits, and logs each change once. A commit that was
    /// refused for its contents says nothing about the store.
    fn note(&mut self, error: Option<&StoreError>) {
        if let Some(error) = error
            && Reason::from(error) == Reason::Contents
        {
            if is_overtaken(error) {
                return;
            }
            tracing::error!(%error, "a group of changes was refused; each is tried by itself");
            return;
        }
        let was_serving = self.is_serving.send_replace(error.is_none());
        match error {
            Some(error) if was_serving => {
                tracing::error!(%error, "registrations cannot be made durable and are refused");
            }
            None if !was_serving => tracing::info!("registrations are made durable again"),
            _ => {}
        }
    }
}

/// Whether a group was refused because another node changed an object that it depends on.
fn is_overtaken(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict { .. } | StoreError::Outdated { .. })
}

fn refuse(commands: Vec<AppliedCommand>, error: &StoreError, applier: &Applier) {
    for mut applied in commands {
        applied.outcome = applied.outcome.and_then(|_| Err(Refusal::Store(error.clone())));
        applier.answer(applied);
    }
}
