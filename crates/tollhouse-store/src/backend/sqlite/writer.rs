//! The writer thread, which commits all queued transactions with one flush of the disk.
//!
//! During a flush further transactions are queued; they form the next group. Each runs in a
//! savepoint, so that a failing one does not affect the others. Watchers and callers are informed
//! once the group is on disk.

use super::error::from_sqlite;
use super::file::{self, FORMAT, StoreFile};
use super::queue::{Command, Group, LeaseAction, LeaseRequest, Request};
use super::reserve::Reserve;
use super::table::{self, Rows};
use crate::backend::apply::{ApplyOutcome, Terms, apply, removal};
use crate::backend::history::History;
use crate::backend::leases::Leases;
use crate::clock::Clock;
use crate::entry::Revision;
use crate::error::StoreError;
use crate::lease::LeaseId;
use crate::limits::{EXPIRED_PER_COMMIT_MAX, EXPIRY_WAIT_MAX};
use crate::options::Options;
use crate::transaction::{Committed, Transaction};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Interval between attempts to expire entries after a failure, such as a full disk.
const EXPIRY_RETRY: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    connection: Connection,
    path: PathBuf,
    commands: Receiver<Command>,
    history: Arc<History>,
    clock: Clock,
    /// Revision of the newest commit on disk.
    newest: Revision,
    /// Time of the next expiry, in milliseconds of Unix time.
    expiry_ms: Option<u64>,
    leases: Leases,
    reserve: Reserve,
    /// Whether the file has the current format number.
    has_format: bool,
    /// Error for every further write, once the disk has failed to confirm one.
    stopped: Option<StoreError>,
}

/// Input and output of a writer.
pub(super) struct WriterPorts {
    /// Queue that the writer reads.
    pub(super) commands: Receiver<Command>,
    /// Publishes the commits.
    pub(super) history: Arc<History>,
}

/// Informs watchers of the end, however the thread ends.
impl Drop for Writer {
    fn drop(&mut self) {
        self.history.close();
    }
}

impl Writer {
    pub(super) fn new(
        file: StoreFile,
        path: PathBuf,
        WriterPorts { commands, history }: WriterPorts,
        options: &Options,
    ) -> Result<Self, StoreError> {
        let mut writer = Self {
            has_format: file.format == i64::from(FORMAT),
            connection: file.connection,
            clock: options.clock.clone(),
            newest: history.newest(),
            expiry_ms: None,
            leases: Leases::default(),
            reserve: Reserve::beside(&path, options.reserve_bytes),
            stopped: None,
            path,
            commands,
            history,
        };
        writer.look_for_expiry()?;
        Ok(writer)
    }

    /// Executes commands until the store is closed.
    pub(super) fn run(mut self) {
        self.reserve.keep();
        loop {
            let group = self.next_group();
            if self.expiry_ms.is_some_and(|at_ms| at_ms <= self.clock.now_ms()) {
                self.expire();
            }
            group.leases.into_iter().for_each(|request| self.change_lease(request));
            if !group.requests.is_empty() {
                self.commit_group(group.requests);
            }
            if group.is_last {
                return;
            }
        }
    }

    /// Waits for a command and takes all queued ones. An empty group means that time has passed.
    fn next_group(&self) -> Group {
        let first = match self.expiry_ms {
            None => self.commands.recv().unwrap_or(Command::Close),
            Some(at_ms) => {
                let wait = Duration::from_millis(at_ms.saturating_sub(self.clock.now_ms()));
                match self.commands.recv_timeout(wait.min(EXPIRY_WAIT_MAX)) {
                    Ok(command) => command,
                    Err(RecvTimeoutError::Timeout) => Command::Wake,
                    Err(RecvTimeoutError::Disconnected) => Command::Close,
                }
            }
        };
        let mut group = Group::default();
        group.add(first);
        while !group.is_full() {
            let Ok(command) = self.commands.try_recv() else {
                break;
            };
            group.add(command);
        }
        group
    }

    /// Removes expired entries, in a separate commit.
    fn expire(&mut self) {
        let now_ms = self.clock.now_ms();
        let keys = table::expired(&self.connection, now_ms, EXPIRED_PER_COMMIT_MAX);
        let keys = keys.map_err(|error| from_sqlite(&self.path, &error));
        let done = keys.and_then(|keys| self.commit_alone(removal(keys)));
        if done.and_then(|_| self.look_for_expiry()).is_err() {
            let retry_ms = u64::try_from(EXPIRY_RETRY.as_millis()).unwrap_or(u64::MAX);
            self.expiry_ms = Some(now_ms.saturating_add(retry_ms));
        }
    }

    fn change_lease(&mut self, request: LeaseRequest) {
        let LeaseRequest { action, reply, share } = request;
        let changed = match action {
            LeaseAction::Grant(ttl) => self.leases.grant(ttl, self.clock.now_ms()),
            LeaseAction::KeepAlive(lease) => self.keep_alive(lease).map(|()| lease),
            LeaseAction::Revoke(lease) => self.revoke(lease).map(|()| lease),
        };
        drop(share);
        // The caller may have given up.
        let _ = reply.send(changed);
    }

    /// Extends a lease and the entries under it.
    fn keep_alive(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        let (expires_at_ms, keys) = self.leases.renewal(lease, self.clock.now_ms())?;
        if !keys.is_empty() {
            self.in_transaction(|writer| {
                let moved = table::set_expiry(&writer.connection, &keys, expires_at_ms);
                moved.map_err(|error| from_sqlite(&writer.path, &error))
            })?;
            self.look_for_expiry()?;
        }
        self.leases.renew(lease, expires_at_ms);
        Ok(())
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        let keys = self.leases.keys(lease);
        if !keys.is_empty() {
            self.commit_alone(removal(keys))?;
        }
        self.leases.revoke(lease);
        Ok(())
    }

    /// Commits a group and answers each caller.
    fn commit_group(&mut self, requests: Vec<Request>) {
        let mut transactions = Vec::with_capacity(requests.len());
        let mut authors = Vec::with_capacity(requests.len());
        for Request { transaction, reply, share } in requests {
            transactions.push(transaction);
            authors.push((reply, share));
        }
        let results = self.commit_all(transactions);
        for ((reply, share), result) in authors.into_iter().zip(results) {
            drop(share);
            // The caller may have given up.
            let _ = reply.send(result);
        }
        // If the next expiry cannot be read, entries could not be removed either; the former value
        // is kept.
        let _ = self.look_for_expiry();
    }

    fn commit_all(&mut self, transactions: Vec<Transaction>) -> Vec<Result<Committed, StoreError>> {
        if transactions.len() > 1 {
            match self.try_group(transactions.clone()) {
                Ok(outcomes) => return self.publish(outcomes),
                // Transactions are not retried one by one after these errors. After a lock conflict
                // each would wait as long again. After a failed flush the disk may report the next
                // one as successful although nothing was written.
                Err(
                    error @ (StoreError::InUse { .. }
                    | StoreError::Unconfirmed { .. }
                    | StoreError::Stopped { .. }),
                ) => {
                    return transactions.iter().map(|_| Err(error.clone())).collect();
                }
                Err(_) => {}
            }
        }
        // The group may have failed because of one transaction, for example if only that one does
        // not fit on the disk. The others are committed separately.
        transactions.into_iter().map(|transaction| self.commit_alone(transaction)).collect()
    }

    /// Commits one transaction. If the disk is full and the transaction only removes, it is
    /// repeated with the space of the reserve.
    fn commit_alone(&mut self, transaction: Transaction) -> Result<Committed, StoreError> {
        let again = transaction.only_removes().then(|| transaction.clone());
        let committed = self.try_alone(transaction);
        let Some(again) = again.filter(|_| matches!(committed, Err(StoreError::Full { .. })))
        else {
            if committed.is_ok() {
                self.reserve.keep();
            }
            return committed;
        };
        self.reserve.release();
        // Folding the log into the file lets the log restart within its existing space, so that
        // removals succeed even without a reserve. If this fails, the reserve alone may suffice.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
        self.try_alone(again)
    }

    fn try_alone(&mut self, transaction: Transaction) -> Result<Committed, StoreError> {
        let outcomes = self.try_group(vec![transaction])?;
        self.publish(outcomes).pop().expect("one transaction has one outcome")
    }

    /// Publishes the changes that are now on disk, and returns the results for the callers.
    fn publish(
        &mut self,
        outcomes: Vec<Result<ApplyOutcome, StoreError>>,
    ) -> Vec<Result<Committed, StoreError>> {
        let mut publish = |ApplyOutcome { committed, changes, leased }: ApplyOutcome| {
            if let Some(changes) = changes {
                self.leases.follow(&changes, leased);
                self.newest = changes.revision;
                self.history.publish(changes);
            }
            committed
        };
        outcomes.into_iter().map(|outcome| outcome.map(&mut publish)).collect()
    }

    /// Runs transactions and flushes them together. After an error the file is unchanged, unless
    /// the error is that the disk did not confirm.
    fn try_group(
        &mut self,
        transactions: Vec<Transaction>,
    ) -> Result<Vec<Result<ApplyOutcome, StoreError>>, StoreError> {
        let outcomes = self.in_transaction(|writer| writer.run_all(transactions))?;
        // A commit also writes the format number.
        let newest = self.newest;
        self.has_format |= outcomes.iter().flatten().any(|it| it.committed.revision > newest);
        Ok(outcomes)
    }

    /// Runs a function in one transaction of the file. After the disk has failed to confirm a
    /// transaction, all further ones are refused, because a later flush may succeed although the
    /// system has discarded earlier pages.
    fn in_transaction<T>(
        &mut self,
        run: impl FnOnce(&Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone());
        }
        self.execute("BEGIN IMMEDIATE")?;
        let done =
            run(self).and_then(|done| self.execute("COMMIT").map(|()| done).map_err(unconfirmed));
        let Err(error) = done else { return done };
        if let StoreError::Unconfirmed { path, reason } = &error {
            self.stopped = Some(StoreError::Stopped { path: path.clone(), reason: reason.clone() });
            // Watchers learn that the store must be opened again.
            self.history.close();
        }
        if !self.connection.is_autocommit() {
            self.execute("ROLLBACK")?;
        }
        Err(error)
    }

    fn run_all(
        &self,
        transactions: Vec<Transaction>,
    ) -> Result<Vec<Result<ApplyOutcome, StoreError>>, StoreError> {
        let mut newest = self.newest;
        let mut outcomes = Vec::with_capacity(transactions.len());
        for transaction in transactions {
            let outcome = self.run_one(transaction, newest)?;
            if let Ok(applied) = &outcome {
                newest = applied.committed.revision;
            }
            outcomes.push(outcome);
        }
        if newest != self.newest {
            let mut marked = table::set_revision(&self.connection, newest);
            if !self.has_format {
                marked = marked.and_then(|()| file::set_format(&self.connection));
            }
            marked.map_err(|error| from_sqlite(&self.path, &error))?;
        }
        Ok(outcomes)
    }

    /// Runs one transaction in a savepoint. The outer error concerns the whole group: the savepoint
    /// could not be rolled back, so nothing of the group may be committed.
    fn run_one(
        &self,
        transaction: Transaction,
        newest: Revision,
    ) -> Result<Result<ApplyOutcome, StoreError>, StoreError> {
        self.execute("SAVEPOINT one")?;
        let mut rows = Rows { connection: &self.connection, path: &self.path };
        let now_ms = self.clock.now_ms();
        let expiry_ms = |lease| self.leases.expiry_ms(lease, now_ms);
        let terms = Terms { expiry_ms: &expiry_ms, newest };
        let outcome = apply(&mut rows, transaction, &terms);
        if let Err(error) = &outcome {
            // Some failures make SQLite roll back the whole transaction, including all other
            // savepoints.
            if self.connection.is_autocommit() {
                return Err(error.clone());
            }
            self.execute("ROLLBACK TO one")?;
        }
        self.execute("RELEASE one")?;
        Ok(outcome)
    }

    fn look_for_expiry(&mut self) -> Result<(), StoreError> {
        self.expiry_ms = table::first_expiry_ms(&self.connection)
            .map_err(|error| from_sqlite(&self.path, &error))?;
        Ok(())
    }

    fn execute(&self, statement: &str) -> Result<(), StoreError> {
        let run = || self.connection.prepare_cached(statement)?.execute([]);
        run().map(|_| ()).map_err(|error| from_sqlite(&self.path, &error))
    }
}

/// Converts an error of a commit. A commit that could not be flushed may appear when the file is
/// opened next, until a later one overwrites it in the log.
fn unconfirmed(error: StoreError) -> StoreError {
    match error {
        StoreError::Io { path, reason } => StoreError::Unconfirmed { path, reason },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_commit_that_the_disk_failed_is_of_unknown_outcome() {
        let path = || PathBuf::from("store.db");
        let failed = unconfirmed(StoreError::Io { path: path(), reason: "disk I/O error".into() });
        assert!(matches!(failed, StoreError::Unconfirmed { .. }), "{failed}");
        let full = StoreError::Full { path: path() };
        assert_eq!(unconfirmed(full.clone()), full, "nothing was written");
    }
}
