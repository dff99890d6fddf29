//! Making a group durable. When the store refuses it, what can still be done of it is: commands that take
//! away where the disk is full, every command by itself where one of them was the reason.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tollhouse_store::{Committed, StoreError, Transaction};

use super::Keeper;
use super::group::{Done, Group};
use crate::limits::HEALTH_TICK;
use crate::refusal::Refusal;

/// Whether commits succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreHealth {
    Takes,
    Refuses,
}

/// Why a store refuses a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// There is no room for what it adds.
    NoRoom,
    /// Something in it cannot be kept.
    Contents,
    /// It takes nothing at all.
    Store,
}

impl Reason {
    fn of_error(error: &StoreError) -> Self {
        match error {
            StoreError::Full { .. } => Self::NoRoom,
            StoreError::TooLarge { .. } | StoreError::EmptyKey | StoreError::Conflict { .. } => {
                Self::Contents
            }
            _ => Self::Store,
        }
    }
}

impl Keeper {
    /// Makes a group durable, publishes it, answers.
    pub(super) async fn commit(&mut self, group: Group) {
        let Err((error, done)) = self.try_commit(group).await else { return };
        match Reason::of_error(&error) {
            Reason::Contents if done.len() > 1 => {
                for command in done {
                    self.commit_again(vec![command]).await;
                }
            }
            Reason::NoRoom if done.iter().any(|done| !done.command.removes()) => {
                let (removing, rest): (Vec<_>, Vec<_>) =
                    done.into_iter().partition(|done| done.command.removes());
                self.refuse(rest, &error);
                self.commit_again(removing).await;
            }
            _ => self.refuse(done, &error),
        }
    }

    /// Does commands of a refused group in one of their own.
    async fn commit_again(&mut self, commands: Vec<Done>) {
        let mut group = self.new_group();
        for Done { command, reply, share, .. } in commands {
            group.apply(command, reply, share);
        }
        if let Err((error, done)) = self.try_commit(group).await {
            self.refuse(done, &error);
        }
    }

    /// Makes a group durable, publishes it and answers; or gives its commands back, and nothing has
    /// changed.
    async fn try_commit(&mut self, group: Group) -> Result<(), (StoreError, Vec<Done>)> {
        let Group { mut state, journal, now_ms, done, touched } = group;
        if !journal.is_empty() {
            if let Err(error) = self.write(journal.into_transaction()).await {
                return Err((error, done));
            }
            for touched in &touched {
                if let Some(instance) = touched.present() {
                    self.shared.strangers.forget(&instance.id);
                }
                self.health.take(&mut state, touched, now_ms);
            }
            self.publish(state);
        }
        for done in done {
            self.answer(done);
        }
        Ok(())
    }

    /// Brings a transaction to the store, awake all the while: beats are heard during a commit, however
    /// long the disk takes.
    pub(super) async fn write(
        &mut self,
        transaction: Transaction,
    ) -> Result<Committed, StoreError> {
        let started = Instant::now();
        let store = Arc::clone(&self.store);
        let mut commit = store.commit(transaction);
        let committed = loop {
            tokio::select! {
                committed = &mut commit => break committed,
                () = tokio::time::sleep(HEALTH_TICK) => self.look(),
            }
        };
        self.log_turn(committed.as_ref().err());
        if committed.is_ok() {
            let statistics = &self.shared.statistics;
            let elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            statistics.commits.fetch_add(1, Ordering::Relaxed);
            statistics.commit_us.fetch_add(elapsed_us, Ordering::Relaxed);
        }
        committed
    }

    fn refuse(&self, commands: Vec<Done>, error: &StoreError) {
        for mut done in commands {
            done.outcome = done.outcome.and_then(|_| Err(Refusal::Store(error.clone())));
            self.answer(done);
        }
    }

    /// Counts what came of a command, and answers who asked, who may be gone.
    fn answer(&self, done: Done) {
        let counter = match &done.outcome {
            Ok(_) => &self.shared.statistics.commands,
            Err(_) => &self.shared.statistics.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(reply) = done.reply {
            let _ = reply.send(done.outcome);
        }
    }

    /// Logs that the store has begun to refuse commits, or takes them again. One that is refused for what
    /// is in it says nothing about the store.
    fn log_turn(&mut self, error: Option<&StoreError>) {
        if let Some(error) = error
            && Reason::of_error(error) == Reason::Contents
        {
            tracing::error!(%error, "a group of changes was refused; each is tried by itself");
            return;
        }
        let before = self.store_health;
        self.store_health = if error.is_some() { StoreHealth::Refuses } else { StoreHealth::Takes };
        match (before, error) {
            (StoreHealth::Takes, Some(error)) => {
                tracing::error!(%error, "registrations cannot be made durable and are refused");
            }
            (StoreHealth::Refuses, None) => {
                tracing::info!("registrations are made durable again");
            }
            _ => {}
        }
    }
}
