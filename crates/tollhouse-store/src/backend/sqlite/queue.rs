//! Queue of the writer thread: its commands, its bounds, and the grouping of commands.

use super::file::StoreFile;
use super::writer::{Writer, WriterPorts};
use crate::backend::history::History;
use crate::error::StoreError;
use crate::lease::LeaseId;
use crate::limits::{Limits, OPERATIONS_MAX};
use crate::options::Options;
use crate::transaction::{Committed, Transaction};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Largest total size of queued transactions, in KiB: two of the largest possible transactions.
const QUEUED_KIB_MAX: usize = 128 * 1024;

/// Smallest size that a transaction counts for, in KiB. It bounds the number of transactions too.
const QUEUED_KIB_MIN: usize = 64;

/// Capacity of the channel: the most transactions that can be queued, and some places for commands
/// that only wake or end the thread.
const QUEUED_MAX: usize = QUEUED_KIB_MAX / QUEUED_KIB_MIN + 16;

/// Number of operations from which a group accepts no further transaction, so that the first caller
/// does not wait too long for the others.
const GROUP_OPERATIONS_MAX: usize = OPERATIONS_MAX;

/// Command to the writer thread.
pub(super) enum Command {
    Commit(Request),
    Lease(LeaseRequest),
    /// The clock of a test was moved, so entries may have expired.
    Wake,
    Close,
}

/// Transaction that waits for the writer thread.
pub(super) struct Request {
    pub(super) transaction: Transaction,
    pub(super) reply: oneshot::Sender<Result<Committed, StoreError>>,
    /// Share of the queue's size limit.
    pub(super) share: OwnedSemaphorePermit,
}

/// Operation on a lease that waits for the writer thread.
pub(super) struct LeaseRequest {
    pub(super) action: LeaseAction,
    pub(super) reply: oneshot::Sender<Result<LeaseId, StoreError>>,
    pub(super) share: OwnedSemaphorePermit,
}

/// Kind of operation on a lease.
#[derive(Clone, Copy)]
pub(super) enum LeaseAction {
    Grant(Duration),
    KeepAlive(LeaseId),
    Revoke(LeaseId),
}

pub(super) struct WriterHandle {
    commands: SyncSender<Command>,
    shares: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl WriterHandle {
    pub(super) fn start(
        file: StoreFile,
        path: PathBuf,
        history: Arc<History>,
        options: &Options,
    ) -> Result<Self, StoreError> {
        let (commands, receiver) = sync_channel(QUEUED_MAX);
        let ports = WriterPorts { commands: receiver, history };
        let waker = commands.clone();
        // A full queue wakes the thread as well. Only a manual clock calls this.
        options.clock.on_jump(move || drop(waker.try_send(Command::Wake)));
        let writer = Writer::new(file, path.clone(), ports, options)?;
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::from_io(&path, &error))?;
        let shares = Arc::new(Semaphore::new(QUEUED_KIB_MAX));
        Ok(Self { commands, shares, thread: Some(thread) })
    }

    /// Queues a transaction and waits until it is on disk or refused.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<Committed, StoreError> {
        transaction.check(&Limits::EMBEDDED)?;
        let share = self.share(transaction.bytes() / 1024).await?;
        let (reply, answer) = oneshot::channel();
        self.send(Command::Commit(Request { transaction, reply, share }))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    pub(super) async fn grant(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        self.lease(LeaseAction::Grant(ttl)).await
    }

    pub(super) async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.lease(LeaseAction::KeepAlive(lease)).await.map(drop)
    }

    pub(super) async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.lease(LeaseAction::Revoke(lease)).await.map(drop)
    }

    async fn lease(&self, action: LeaseAction) -> Result<LeaseId, StoreError> {
        let share = self.share(0).await?;
        let (reply, answer) = oneshot::channel();
        self.send(Command::Lease(LeaseRequest { action, reply, share }))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    async fn share(&self, kib: usize) -> Result<OwnedSemaphorePermit, StoreError> {
        let kib = kib.clamp(QUEUED_KIB_MIN, QUEUED_KIB_MAX);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        Arc::clone(&self.shares).acquire_many_owned(kib).await.map_err(|_| StoreError::Closed)
    }

    fn send(&self, command: Command) -> Result<(), StoreError> {
        // The channel has as many places as the semaphore has shares.
        self.commands.try_send(command).map_err(|_| StoreError::Closed)
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        // Transactions queued before this command are still committed. An error means that the
        // thread has already ended.
        let _ = self.commands.send(Command::Close);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been reported.
            let _ = thread.join();
        }
    }
}

/// Commands that the writer executes in one transaction of SQLite.
#[derive(Default)]
pub(super) struct Group {
    pub(super) requests: Vec<Request>,
    pub(super) leases: Vec<LeaseRequest>,
    pub(super) is_last: bool,
    operations: usize,
}

impl Group {
    pub(super) fn is_full(&self) -> bool {
        self.is_last || self.operations >= GROUP_OPERATIONS_MAX
    }

    pub(super) fn add(&mut self, command: Command) {
        match command {
            Command::Commit(request) => {
                let transaction = &request.transaction;
                // A transaction counts as at least one operation, for its place in the queue.
                self.operations += 1 + transaction.operations.len() + transaction.conditions.len();
                self.requests.push(request);
            }
            Command::Lease(request) => {
                self.operations += 1;
                self.leases.push(request);
            }
            Command::Wake => {}
            Command::Close => self.is_last = true,
        }
    }
}
