//! Writing: one thread that commits all that is queued with one flush of the disk.
//!
//! While the disk is flushed, further transactions queue up; they are the next group. Each runs in a
//! savepoint, so that one that fails takes nothing of the others with it. Only when the group is on
//! the disk do watchers and authors learn of it.

use super::error::from_sqlite;
use super::reserve::Reserve;
use super::table::{self, Rows};
use crate::backend::Options;
use crate::backend::apply::{Applied, apply, expiry_of};
use crate::clock::Clock;
use crate::entry::Revision;
use crate::error::StoreError;
use crate::limits::{EXPIRED_PER_COMMIT_MAX, EXPIRY_WAIT_MAX, OPERATIONS_MAX};
use crate::transaction::{Committed, Transaction};
use crate::watch::History;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// KiB of transactions that wait for the disk, all together: two of the largest there may be.
const QUEUED_KIB_MAX: usize = 128 * 1024;

/// What a transaction counts for at least in that sum, in KiB, so that their number is bounded too.
const QUEUED_KIB_MIN: usize = 64;

/// Most transactions that can be queued, and the room of the channel; a few places more, for those
/// that only wake or end the thread.
const QUEUED_MAX: usize = QUEUED_KIB_MAX / QUEUED_KIB_MIN + 16;

/// A group takes no further transaction once it has this many operations, so that its first author
/// does not wait for the work of everybody behind.
const GROUP_OPERATIONS_MAX: usize = OPERATIONS_MAX;

/// How long to wait after entries could not be expired (the disk is full), before trying again.
const EXPIRY_RETRY: Duration = Duration::from_secs(1);

/// What the thread is told.
enum Command {
    Commit(Request),
    /// The time has jumped.
    Wake,
    Close,
}

struct Request {
    transaction: Transaction,
    reply: oneshot::Sender<Result<Committed, StoreError>>,
    /// Its share of what may be queued.
    share: OwnedSemaphorePermit,
}

/// The writing thread, from outside.
pub(super) struct WriterHandle {
    commands: SyncSender<Command>,
    shares: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl WriterHandle {
    /// Starts the thread.
    pub(super) fn start(
        connection: Connection,
        path: PathBuf,
        history: Arc<History>,
        options: &Options,
    ) -> Result<Self, StoreError> {
        let (commands, receiver) = sync_channel(QUEUED_MAX);
        let waker = commands.clone();
        // A full queue wakes the thread just as well. Only a clock that is moved by hand does this.
        options.clock.on_jump(move || drop(waker.try_send(Command::Wake)));
        let newest = history.newest();
        let clock = options.clock.clone();
        let reserve = Reserve::beside(&path, options.reserve_bytes);
        let mut writer = Writer {
            connection,
            path,
            commands: receiver,
            history,
            clock,
            newest,
            expiry_ms: None,
            reserve,
        };
        writer.look_for_expiry()?;
        let path = writer.path.clone();
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::from_io(&path, &error))?;
        let shares = Arc::new(Semaphore::new(QUEUED_KIB_MAX));
        Ok(Self { commands, shares, thread: Some(thread) })
    }

    /// Queues a transaction and waits until it is on the disk, or refused.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<Committed, StoreError> {
        transaction.check()?;
        let kib = (transaction.bytes() / 1024).clamp(QUEUED_KIB_MIN, QUEUED_KIB_MAX);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let shares = Arc::clone(&self.shares);
        let share = shares.acquire_many_owned(kib).await.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let request = Request { transaction, reply, share };
        // There is room for as many transactions as shares are given out.
        self.commands.try_send(Command::Commit(request)).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        // What is queued is still committed: it stands before this command. An error means that the
        // thread has ended already.
        let _ = self.commands.send(Command::Close);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported by it; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

/// The writing thread, from inside.
struct Writer {
    connection: Connection,
    path: PathBuf,
    commands: Receiver<Command>,
    history: Arc<History>,
    clock: Clock,
    /// The newest revision on the disk.
    newest: Revision,
    /// When to look for expired entries next.
    expiry_ms: Option<u64>,
    reserve: Reserve,
}

/// Transactions that are committed together.
#[derive(Default)]
struct Group {
    requests: Vec<Request>,
    operations: usize,
    is_last: bool,
}

impl Group {
    fn is_full(&self) -> bool {
        self.is_last || self.operations >= GROUP_OPERATIONS_MAX
    }

    fn add(&mut self, command: Command) {
        match command {
            Command::Commit(request) => {
                let transaction = &request.transaction;
                // A transaction without operations costs its place in the queue at least.
                self.operations += 1 + transaction.operations.len() + transaction.conditions.len();
                self.requests.push(request);
            }
            Command::Wake => {}
            Command::Close => self.is_last = true,
        }
    }
}

/// However the thread ends, watchers learn that nothing more comes.
impl Drop for Writer {
    fn drop(&mut self) {
        self.history.close();
    }
}

impl Writer {
    fn run(mut self) {
        self.reserve.keep();
        loop {
            let group = self.next_group();
            if self.expiry_ms.is_some_and(|at_ms| at_ms <= self.clock.now_ms()) {
                self.expire();
            }
            if !group.requests.is_empty() {
                self.commit_group(group.requests);
            }
            if group.is_last {
                return;
            }
        }
    }

    /// Waits for something to do and takes all that has queued up; an empty group means that the
    /// time has moved.
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

    /// Removes what has expired, in commits of its own.
    fn expire(&mut self) {
        let now_ms = self.clock.now_ms();
        let keys = table::expired(&self.connection, now_ms, EXPIRED_PER_COMMIT_MAX);
        let keys = keys.map_err(|error| from_sqlite(&self.path, &error));
        let done = keys.and_then(|keys| self.commit_alone(expiry_of(keys)));
        if done.and_then(|_| self.look_for_expiry()).is_err() {
            let retry_ms = u64::try_from(EXPIRY_RETRY.as_millis()).unwrap_or(u64::MAX);
            self.expiry_ms = Some(now_ms.saturating_add(retry_ms));
        }
    }

    /// Commits a group and tells each author how it went.
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
            // An author who has gone away does not want to know.
            let _ = reply.send(result);
        }
        // When this cannot be read, nor could the entries be removed: the last time known stands.
        let _ = self.look_for_expiry();
    }

    fn commit_all(&mut self, transactions: Vec<Transaction>) -> Vec<Result<Committed, StoreError>> {
        if transactions.len() > 1 {
            match self.try_group(transactions.clone()) {
                Ok(outcomes) => return self.publish(outcomes),
                // Each would wait for the lock as long again, and those behind them longer still.
                Err(error @ StoreError::InUse { .. }) => {
                    return transactions.iter().map(|_| Err(error.clone())).collect();
                }
                Err(_) => {}
            }
        }
        // What failed together may have failed for one of them, as when only that does not fit on the
        // disk; the others must not suffer for it.
        transactions.into_iter().map(|transaction| self.commit_alone(transaction)).collect()
    }

    /// Commits one transaction; if it only takes away and the disk is full, with the room kept for that.
    fn commit_alone(&mut self, transaction: Transaction) -> Result<Committed, StoreError> {
        let again =
            (self.reserve.is_held() && transaction.only_removes()).then(|| transaction.clone());
        let committed = self.try_alone(transaction);
        let Some(again) = again.filter(|_| matches!(committed, Err(StoreError::Full { .. })))
        else {
            if committed.is_ok() {
                self.reserve.keep();
            }
            return committed;
        };
        self.reserve.release();
        // What the log holds goes into the file, so that the log begins anew in the room that it has.
        // Where that fails, the room alone may do.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
        self.try_alone(again)
    }

    fn try_alone(&mut self, transaction: Transaction) -> Result<Committed, StoreError> {
        let outcomes = self.try_group(vec![transaction])?;
        self.publish(outcomes).pop().expect("one transaction has one outcome")
    }

    /// Tells the watchers of what is on the disk now, and returns what the authors are told.
    fn publish(
        &mut self,
        outcomes: Vec<Result<Applied, StoreError>>,
    ) -> Vec<Result<Committed, StoreError>> {
        let mut publish = |Applied { committed, changes }: Applied| {
            if let Some(changes) = changes {
                self.newest = changes.revision;
                self.history.publish(changes);
            }
            committed
        };
        outcomes.into_iter().map(|outcome| outcome.map(&mut publish)).collect()
    }

    /// Runs transactions and brings them to the disk together. After an error the file is as before,
    /// unless the error says that the disk did not confirm.
    fn try_group(
        &self,
        transactions: Vec<Transaction>,
    ) -> Result<Vec<Result<Applied, StoreError>>, StoreError> {
        self.execute("BEGIN IMMEDIATE")?;
        let outcomes = self.run_all(transactions);
        if outcomes.is_err() && !self.connection.is_autocommit() {
            self.execute("ROLLBACK")?;
        }
        outcomes
    }

    fn run_all(
        &self,
        transactions: Vec<Transaction>,
    ) -> Result<Vec<Result<Applied, StoreError>>, StoreError> {
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
            table::set_revision(&self.connection, newest)
                .map_err(|error| from_sqlite(&self.path, &error))?;
        }
        self.execute("COMMIT").map_err(unconfirmed)?;
        Ok(outcomes)
    }

    /// Runs one transaction in a savepoint. The outer error is the group's: what the savepoint held
    /// could not be undone, so that none of the group may be committed.
    fn run_one(
        &self,
        transaction: Transaction,
        newest: Revision,
    ) -> Result<Result<Applied, StoreError>, StoreError> {
        self.execute("SAVEPOINT one")?;
        let mut rows = Rows { connection: &self.connection, path: &self.path };
        let outcome = apply(&mut rows, transaction, newest, self.clock.now_ms());
        if let Err(error) = &outcome {
            // Some failures make SQLite give up the whole transaction, with all others in it.
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

/// A commit that could not be flushed may be found by whoever opens the file next: until the next
/// one overwrites it in the log, nobody knows.
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
