//! The store: implementation of its requests on the database.

use crate::connection::Connection;
use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::follower::{Follower, FollowerState, bounds};
use crate::group::transaction_bytes;
use crate::leases::LeaseObservations;
use crate::limits::{LIMITS, OWN_READ_WAIT, QUEUE_BYTES_MAX, QUEUE_REQUESTS_MAX};
use crate::listener;
use crate::options::{Engine, SqlOptions};
use crate::readers::{Question, Readers};
use crate::schema;
use crate::writer::{Request, Writer};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollhouse_stdx::{Backoff, Random};
use tollhouse_store::engine::History;
use tollhouse_store::{
    BoxFuture, Committed, Entry, HistoryExtent, LeaseId, Limits, Listing, Revision, Store,
    StoreError, Transaction, Watch,
};

/// A store in a database, shared by several nodes.
pub struct SqlStore {
    place: Box<str>,
    timeout: Duration,
    readers: Arc<Readers>,
    requests: mpsc::Sender<Request>,
    room: Arc<Semaphore>,
    following: Arc<FollowerState>,
    /// Tasks aborted when the store is dropped. The writer is not among them; it ends after its
    /// queued requests.
    followers: Vec<JoinHandle<()>>,
}

impl SqlStore {
    /// Opens the store in this database, and creates missing tables; several nodes may do so
    /// concurrently. Must be called in the runtime that will serve the store.
    ///
    /// # Errors
    ///
    /// If the database is unreachable or refuses, or the tables belong to another program.
    pub async fn open(options: &SqlOptions) -> Result<Self, StoreError> {
        let place = options.place();
        if !options.has_sound_tables() {
            return Err(StoreError::Declined {
                place,
                reason: format!("{:?} cannot begin the name of a table", options.tables),
                remedy: "give at most 48 lower-case letters, digits and underscores",
            });
        }
        let store = Self::open_checked(options).await;
        store.map_err(|failure| failure.to_error(&place))
    }

    async fn open_checked(options: &SqlOptions) -> Result<Self, Failure> {
        let dialect = Dialect { engine: options.engine, tables: options.tables.as_str().into() };
        let mut connection = Connection::open(options, &dialect, Purpose::Writing).await?;
        schema::prepare(&mut connection, &dialect).await?;
        // Closing the connection releases the lock of the migration.
        drop(connection);
        let mut connection = Connection::open(options, &dialect, Purpose::Reading).await?;
        let (_, newest) = bounds(&mut connection, &dialect).await?;
        let history = Arc::new(History::new(newest.revision, HistoryExtent::ForWatchers));
        let following = FollowerState::new(history);
        let (requests, received) = mpsc::channel(QUEUE_REQUESTS_MAX);
        let now = Instant::now();
        let follower = Follower {
            options: options.clone(),
            dialect: dialect.clone(),
            connection: Some(connection),
            following: Arc::clone(&following),
            place: newest,
            observed: LeaseObservations::default(),
            requests: requests.downgrade(),
            leases_due: now,
            prune_due: now,
            backoff: Backoff::default(),
        };
        let writer = Writer {
            options: options.clone(),
            dialect: dialect.clone(),
            connection: None,
            following: Arc::clone(&following),
            random: Random::from_process_entropy(),
        };
        let mut followers = vec![tokio::spawn(follower.run())];
        if options.engine == Engine::PostgreSql {
            let hint = Arc::clone(&following.hint);
            followers.push(tokio::spawn(listener::listen(options.clone(), dialect.clone(), hint)));
        }
        tokio::spawn(writer.run(received));
        Ok(Self {
            place: options.place(),
            timeout: options.timeout,
            readers: Readers::new(options.clone(), dialect),
            requests,
            room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
            following,
            followers,
        })
    }

    /// Returns a receiver of the current reason why the database does not answer; `None` while it
    /// answers.
    #[must_use]
    pub fn outages(&self) -> watch::Receiver<Option<String>> {
        self.following.outage.subscribe()
    }

    /// Reads, and waits until the history has reached the revision read.
    async fn read(&self, question: Question) -> Result<Listing, StoreError> {
        let listing = self.readers.read(question).await?;
        if listing.revision > self.following.history.newest() {
            self.following.hint.notify_one();
            let reached = self.following.history.reached(listing.revision);
            // If the log cannot be read, a watch from this revision is lost and must list again,
            // which is harmless.
            let _ = tokio::time::timeout(OWN_READ_WAIT, reached).await;
        }
        Ok(listing)
    }

    async fn ask<T>(
        &self,
        request: Request,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let sent = tokio::time::timeout(self.timeout, self.requests.send(request)).await;
        match sent {
            Ok(Ok(())) => answer.await.unwrap_or(Err(StoreError::Closed)),
            Ok(Err(_)) => Err(StoreError::Closed),
            Err(_) => Err(self.is_behind()),
        }
    }

    fn is_behind(&self) -> StoreError {
        let reason = format!("the queue before it has not moved for {:?}", self.timeout);
        StoreError::Unreachable { place: self.place.clone(), reason }
    }
}

impl Drop for SqlStore {
    fn drop(&mut self) {
        self.following.history.close();
        // Aborting the tasks closes their connections.
        self.followers.iter().for_each(JoinHandle::abort);
    }
}

impl Store for SqlStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move {
            let listing = self.read(Question::Key(key.into())).await?;
            Ok(listing.entries.into_iter().next())
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        let (prefix, after) = (prefix.into(), "".into());
        Box::pin(self.read(Question::Prefix { prefix, after, entries_max: None }))
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        let (prefix, after) = (prefix.into(), after.into());
        Box::pin(self.read(Question::Prefix { prefix, after, entries_max: Some(entries_max) }))
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(async move {
            transaction.check(&LIMITS)?;
            let until = Instant::now() + self.timeout;
            let bytes = u32::try_from(transaction_bytes(&transaction)).unwrap_or(u32::MAX);
            let room = Arc::clone(&self.room).acquire_many_owned(bytes);
            let Ok(room) = tokio::time::timeout(self.timeout, room).await else {
                return Err(self.is_behind());
            };
            let room = room.map_err(|_| StoreError::Closed)?;
            let (answer, answered) = oneshot::channel();
            self.ask(Request::Commit { transaction, answer, room, until }, answered).await
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        self.following.history.watch(prefix, after)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        // No key is empty, so this only reads the revision.
        Box::pin(async move { Ok(self.read(Question::Key("".into())).await?.revision) })
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.ask(Request::Grant { ttl, answer }, answered).await
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.ask(Request::KeepAlive { lease, answer }, answered).await
        })
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.ask(Request::End { lease, renewals: None, answer: Some(answer) }, answered).await
        })
    }
}

#[cfg(test)]
impl SqlStore {
    /// What the follower shares.
    pub(crate) fn following(&self) -> &FollowerState {
        &self.following
    }
}
