//! The writer: the only task of a node that changes the database.
//!
//! Queued transactions share an engine transaction, which has three steps: lock the counter and
//! read the wanted rows (one packet), compute ([`crate::group`]), write and commit (one packet,
//! except for very large groups). If the engine aborts the transaction, the group is computed
//! again. If a connection is lost during the last packet, the outcome is unknown, and the commit's
//! random number is claimed. If the claim finds the number taken, the commit was made. Otherwise
//! the commit can no longer be made, and is retried.

use crate::connection::Connection;
use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::follower::FollowerState;
use crate::group::{GroupResult, ReadSet, Weight, compute};
use crate::leases;
use crate::limits::{OWN_READ_WAIT, ROOM_TRIES_MAX, TRIES_MAX};
use crate::options::SqlOptions;
use crate::packets::{CommitId, lock_and_find, log_row, writes};
use crate::room;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;
use tollhouse_stdx::{Backoff, Random};
use tollhouse_store::engine::removal;
use tollhouse_store::{Committed, LeaseId, Revision, StoreError, Transaction};

/// Request that waits for the writer.
pub(crate) enum Request {
    Commit {
        transaction: Transaction,
        answer: oneshot::Sender<Result<Committed, StoreError>>,
        /// Share of the queue's size limit, released when the request is done.
        room: OwnedSemaphorePermit,
        /// Time at which the request leaves the queue with an error.
        until: Instant,
    },
    Grant {
        ttl: Duration,
        answer: oneshot::Sender<Result<LeaseId, StoreError>>,
    },
    KeepAlive {
        lease: LeaseId,
        answer: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Ends a lease; with `renewals`, only if the count in its row still equals this number.
    End {
        lease: LeaseId,
        renewals: Option<u64>,
        answer: Option<oneshot::Sender<Result<(), StoreError>>>,
    },
}

type CommitAnswer = oneshot::Sender<Result<Committed, StoreError>>;

pub(crate) struct Writer {
    pub(crate) options: SqlOptions,
    pub(crate) dialect: Dialect,
    pub(crate) connection: Option<Connection>,
    pub(crate) following: Arc<FollowerState>,
    pub(crate) random: Random,
}

/// Outcome of a failed engine transaction.
enum TransactionFailure {
    /// The transaction was not committed.
    Failed(Failure),
    /// The connection broke during the commit, so the outcome is unknown.
    Unknown(Failure),
}

impl Writer {
    /// Serves requests until all senders are dropped.
    pub(crate) async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut waiting = None;
        loop {
            let request = match waiting.take() {
                Some(request) => request,
                None => match requests.recv().await {
                    Some(request) => request,
                    None => return,
                },
            };
            match request {
                Request::Commit { transaction, answer, room, until } => {
                    let mut group = Group::default();
                    let place = self.options.place();
                    group.add(transaction, answer, room, until, &place);
                    // Only requests already queued join. A group never waits for more, so that a
                    // lone commit is not delayed.
                    while !group.weight.is_full()
                        && let Ok(request) = requests.try_recv()
                    {
                        match request {
                            Request::Commit { transaction, answer, room, until } => {
                                group.add(transaction, answer, room, until, &place);
                            }
                            other => {
                                waiting = Some(other);
                                break;
                            }
                        }
                    }
                    self.commit(group).await;
                }
                Request::Grant { ttl, answer } => {
                    let _ = answer.send(self.grant(ttl).await);
                }
                Request::KeepAlive { lease, answer } => {
                    let _ = answer.send(self.keep_alive(lease).await);
                }
                Request::End { lease, renewals, answer } => {
                    let ended = self.end(lease, renewals).await;
                    if let Some(answer) = answer {
                        let _ = answer.send(ended);
                    }
                }
            }
        }
    }

    async fn commit(&mut self, group: Group) {
        let Group { transactions, answers, rooms, .. } = group;
        if transactions.is_empty() {
            return;
        }
        let outcomes = match self.commit_all(&transactions).await {
            Ok(outcomes) => outcomes,
            Err(error) if error.is_without_room() => {
                self.commit_removals(&transactions, &error).await
            }
            Err(error) => vec![Err(error); transactions.len()],
        };
        drop(rooms);
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            // An error means that the caller has given up; the commit remains.
            let _ = answer.send(outcome);
        }
    }

    /// Commits those transactions of a group that only remove, after the engine had no space for
    /// the whole group.
    async fn commit_removals(
        &mut self,
        transactions: &[Transaction],
        error: &StoreError,
    ) -> Vec<Result<Committed, StoreError>> {
        let removals: Vec<_> =
            transactions.iter().filter(|it| it.only_removes()).cloned().collect();
        let mut outcomes = match removals.is_empty() {
            true => Vec::new(),
            false => self.commit_in_made_room(&removals).await,
        }
        .into_iter();
        let refused = || Err(error.clone());
        let outcomes = transactions.iter().map(|transaction| match transaction.only_removes() {
            true => outcomes.next().unwrap_or_else(refused),
            false => refused(),
        });
        outcomes.collect()
    }

    async fn commit_in_made_room(
        &mut self,
        removals: &[Transaction],
    ) -> Vec<Result<Committed, StoreError>> {
        let mut tries = Retries::up_to(ROOM_TRIES_MAX);
        loop {
            self.make_room().await;
            match self.commit_all(removals).await {
                Ok(outcomes) => return outcomes,
                Err(error) if error.is_without_room() && tries.is_left() => {
                    tokio::time::sleep(tries.backoff.next_wait()).await;
                }
                Err(error) => return vec![Err(error); removals.len()],
            }
        }
    }

    /// Makes space for removals. Success is only visible in the next attempt.
    async fn make_room(&mut self) {
        let dialect = self.dialect.clone();
        let Ok(mut connection) = self.connected().await else { return };
        let made = room::make(&mut connection, &dialect).await;
        let _ = self.keep(connection, made);
    }

    /// Commits the transactions and returns their outcomes, after this node has read them from the
    /// log.
    async fn commit_all(
        &mut self,
        transactions: &[Transaction],
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        let wanted = ReadSet::by(transactions);
        let mut tries = Retries::new();
        let outcomes = loop {
            let id = self.commit_id();
            match self.try_commit(transactions, &wanted, &id).await {
                Ok(outcomes) => break outcomes,
                Err(undone) => self.recover(undone, &mut tries).await?,
            }
        };
        let newest = outcomes.iter().flatten().map(|committed| committed.revision).max();
        self.wait_until_read(newest).await;
        Ok(outcomes)
    }

    async fn try_commit(
        &mut self,
        transactions: &[Transaction],
        wanted: &ReadSet<'_>,
        id: &CommitId,
    ) -> Result<Vec<Result<Committed, StoreError>>, TransactionFailure> {
        let dialect = self.dialect.clone();
        let mut connection = self.connected().await.map_err(TransactionFailure::Failed)?;
        let found = lock_and_find(&mut connection, &dialect, wanted).await;
        let computed = compute(transactions, found.map_err(TransactionFailure::Failed)?);
        self.write(connection, &computed, id).await?;
        Ok(computed.outcomes)
    }

    /// Writes a computed group and commits; keeps the connection for later use.
    async fn write(
        &mut self,
        mut connection: Connection,
        computed: &GroupResult,
        id: &CommitId,
    ) -> Result<(), TransactionFailure> {
        let mut packets = writes(&self.dialect, computed, id);
        let last = match packets.pop() {
            Some(last) => last,
            None => "ROLLBACK".to_owned(),
        };
        for packet in packets {
            connection.run(packet).await.map_err(TransactionFailure::Failed)?;
        }
        match connection.run(last).await {
            Ok(_) => {
                self.connection = Some(connection);
                Ok(())
            }
            Err(failure @ Failure::Lost(_)) if !computed.commits.is_empty() => {
                drop(connection);
                self.claim(id, failure).await
            }
            Err(failure) => Err(TransactionFailure::Failed(failure)),
        }
    }

    /// Determines the outcome of a commit that was not confirmed.
    async fn claim(&mut self, id: &CommitId, failure: Failure) -> Result<(), TransactionFailure> {
        let until = Instant::now() + self.options.timeout;
        let mut backoff = Backoff::default();
        while Instant::now() < until {
            match self.try_claim(id).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(TransactionFailure::Failed(failure)),
                // Either the database is not reachable, or the commit is still in progress and its
                // number locked.
                Err(_) => tokio::time::sleep(backoff.next_wait()).await,
            }
        }
        Err(TransactionFailure::Unknown(failure))
    }

    /// Returns whether the commit with this number was made. If not, it can no longer be made.
    pub(crate) async fn try_claim(&mut self, id: &CommitId) -> Result<bool, Failure> {
        let dialect = self.dialect.clone();
        let mut connection = self.connected().await?;
        // Numbers of claims have no meaning. They are negative, unlike those of commits, and
        // random.
        let number = -(self.random.next_u64() >> 2).cast_signed() - 1;
        match connection.run(log_row(&dialect, number, Revision::ZERO, id, b"")).await {
            Ok(_) => {
                self.connection = Some(connection);
                return Ok(false);
            }
            Err(Failure::Duplicate(_)) => drop(connection),
            Err(failure) => return Err(failure),
        }
        let mut connection = self.connected().await?;
        let mut sql = format!("SELECT last_rev FROM {} WHERE id = ", dialect.table("commits"));
        dialect.push_key(&mut sql, id);
        let rows = connection.run_one(sql).await?.rows;
        let number = rows.first().map(|row| row.number(0)).transpose()?.flatten();
        self.connection = Some(connection);
        Ok(number.is_some_and(|number| number > 0))
    }

    async fn grant(&mut self, ttl: Duration) -> Result<LeaseId, StoreError> {
        let lease = LeaseId((self.random.next_u64() >> 2) | 1);
        // A lease of zero duration has ended at once and needs no row.
        if ttl.is_zero() {
            return Ok(lease);
        }
        let dialect = self.dialect.clone();
        let mut tries = Retries::new();
        loop {
            // A grant whose confirmation is lost expires by itself.
            let granted = match self.connected().await {
                Ok(mut connection) => {
                    let granted = leases::grant(&mut connection, &dialect, lease, ttl).await;
                    self.keep(connection, granted)
                }
                Err(failure) => Err(failure),
            };
            match granted {
                Ok(true) | Err(Failure::Duplicate(_)) => return Ok(lease),
                Ok(false) => {
                    let what = "the number of leases";
                    return Err(StoreError::TooLarge { what, actual: 65_537, max: 65_536 });
                }
                Err(failure) => {
                    self.recover(TransactionFailure::Failed(failure), &mut tries).await?
                }
            }
        }
    }

    async fn keep_alive(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        let dialect = self.dialect.clone();
        let mut tries = Retries::new();
        loop {
            let renewed = match self.connected().await {
                Ok(mut connection) => {
                    let renewed = leases::renew(&mut connection, &dialect, lease).await;
                    self.keep(connection, renewed)
                }
                Err(failure) => Err(failure),
            };
            match renewed {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(StoreError::Fenced { lease }),
                Err(failure) => {
                    self.recover(TransactionFailure::Failed(failure), &mut tries).await?
                }
            }
        }
    }

    async fn end(&mut self, lease: LeaseId, renewals: Option<u64>) -> Result<(), StoreError> {
        let mut tries = Retries::new();
        let newest = loop {
            match self.try_end(lease, renewals).await {
                Ok(newest) => break newest,
                // Ending a lease removes its entries, which would not be removed otherwise.
                Err(TransactionFailure::Failed(Failure::NoRoom(_))) if tries.is_left() => {
                    self.make_room().await;
                    tokio::time::sleep(tries.backoff.next_wait()).await;
                }
                // On a retry the lease may be missing already, which counts as success.
                Err(undone) => self.recover(undone, &mut tries).await?,
            }
        };
        self.wait_until_read(newest).await;
        Ok(())
    }

    async fn try_end(
        &mut self,
        lease: LeaseId,
        renewals: Option<u64>,
    ) -> Result<Option<Revision>, TransactionFailure> {
        let dialect = self.dialect.clone();
        let mut connection = self.connected().await.map_err(TransactionFailure::Failed)?;
        let found = leases::lock_and_end(&mut connection, &dialect, lease, renewals).await;
        let Some(found) = found.map_err(TransactionFailure::Failed)? else {
            let ended = connection.run("ROLLBACK".to_owned()).await;
            return self.keep(connection, ended).map(|_| None).map_err(TransactionFailure::Failed);
        };
        let keys = found.keys.clone();
        let computed = match keys.is_empty() {
            true => GroupResult::default(),
            // The removals have no conditions, because each key is under the lease and therefore
            // exists.
            false => compute(&[removal(keys)], found),
        };
        let Some(newest) = computed.commits.last().map(|changes| changes.revision) else {
            let ended = connection.run("COMMIT".to_owned()).await;
            return self.keep(connection, ended).map(|_| None).map_err(TransactionFailure::Failed);
        };
        let id = self.commit_id();
        self.write(connection, &computed, &id).await?;
        Ok(Some(newest))
    }

    /// Waits before a retry if the failure may pass; otherwise returns its error.
    async fn recover(
        &mut self,
        undone: TransactionFailure,
        tries: &mut Retries,
    ) -> Result<(), StoreError> {
        let place = self.options.place();
        match undone {
            TransactionFailure::Failed(failure) if failure.is_passing() && tries.is_left() => {
                tokio::time::sleep(tries.backoff.next_wait()).await;
                Ok(())
            }
            TransactionFailure::Failed(failure) => Err(failure.to_error(&place)),
            TransactionFailure::Unknown(failure) => {
                Err(StoreError::Unanswered { place, reason: failure.reason().to_owned() })
            }
        }
    }

    /// Takes the kept connection, or opens one. A connection that is not put back is closed.
    async fn connected(&mut self) -> Result<Connection, Failure> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => Connection::open(&self.options, &self.dialect, Purpose::Writing).await,
        }
    }

    fn keep<T>(
        &mut self,
        connection: Connection,
        result: Result<T, Failure>,
    ) -> Result<T, Failure> {
        if result.is_ok() {
            self.connection = Some(connection);
        }
        result
    }

    /// Waits until this node has read its own commit, so that the caller finds the commit in every
    /// watch.
    async fn wait_until_read(&self, revision: Option<Revision>) {
        let Some(revision) = revision.filter(|it| *it > self.following.history.newest()) else {
            return;
        };
        self.following.has_written();
        let reached = self.following.history.reached(revision);
        // On timeout the follower has a problem, but the answer is still correct.
        let _ = tokio::time::timeout(OWN_READ_WAIT, reached).await;
    }

    fn commit_id(&mut self) -> CommitId {
        let halves = [self.random.next_u64().to_be_bytes(), self.random.next_u64().to_be_bytes()];
        let mut id = CommitId::default();
        id[..8].copy_from_slice(&halves[0]);
        id[8..].copy_from_slice(&halves[1]);
        id
    }
}

/// Requests that share an engine transaction.
#[derive(Default)]
struct Group {
    transactions: Vec<Transaction>,
    answers: Vec<CommitAnswer>,
    rooms: Vec<OwnedSemaphorePermit>,
    weight: Weight,
}

impl Group {
    fn add(
        &mut self,
        transaction: Transaction,
        answer: CommitAnswer,
        room: OwnedSemaphorePermit,
        until: Instant,
        place: &str,
    ) {
        if Instant::now() > until {
            let reason = "the queue before it is too long".to_owned();
            let _ = answer.send(Err(StoreError::Unreachable { place: place.into(), reason }));
            return;
        }
        self.weight.add(&transaction);
        self.transactions.push(transaction);
        self.answers.push(answer);
        self.rooms.push(room);
    }
}

/// Remaining attempts, with their backoff.
struct Retries {
    left: u32,
    backoff: Backoff,
}

impl Retries {
    fn new() -> Self {
        Self::up_to(TRIES_MAX)
    }

    fn up_to(tries_max: u32) -> Self {
        Self { left: tries_max - 1, backoff: Backoff::default() }
    }

    fn is_left(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}
