//! The follower: reads the growing log for all watchers of this node.
//!
//! Every read starts at the last row seen and compares its random number. If it differs or the row
//! is missing, the engine has lost commits that were visible before (a crash before they were on
//! disk, or the promotion of a standby without them). All watches are then lost, and watchers list
//! again.

use crate::body;
use crate::connection::Connection;
use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::leases::LeaseObservations;
use crate::limits::{
    LEASES_INTERVAL, LOG_COMMITS_KEPT, LOG_ROWS_MAX, LOG_SECONDS_KEPT, OUTAGE_WAIT_MAX,
    POLL_INTERVAL, PRUNE_INTERVAL,
};
use crate::listener;
use crate::options::{Engine, SqlOptions};
use crate::schema;
use crate::writer::Request;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tollhouse_stdx::Backoff;
use tollhouse_store::engine::History;
use tollhouse_store::{LeaseId, Revision};

/// State shared between the follower and the store.
pub(crate) struct FollowerState {
    /// History of commits for watchers.
    pub(crate) history: Arc<History>,
    /// Wakes the follower because there may be new commits.
    pub(crate) hint: Arc<Notify>,
    /// Set if this node has committed since the last read.
    has_written: AtomicBool,
    /// Why the log cannot be read; `None` while it can.
    pub(crate) outage: watch::Sender<Option<String>>,
}

impl FollowerState {
    pub(crate) fn new(history: Arc<History>) -> Arc<Self> {
        let outage = watch::Sender::new(None);
        let (hint, has_written) = (Arc::default(), AtomicBool::default());
        Arc::new(Self { history, hint, has_written, outage })
    }

    /// Makes the follower read at once, and notify the other nodes if the engine supports it.
    pub(crate) fn has_written(&self) {
        self.has_written.store(true, Ordering::Release);
        self.hint.notify_one();
    }
}

/// Position in the log: the last row read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPosition {
    /// Revision of the last commit in the row; zero before the first.
    pub(crate) revision: Revision,
    /// Random number that identifies the commit.
    pub(crate) id: Bytes,
}

pub(crate) struct Follower {
    pub(crate) options: SqlOptions,
    pub(crate) dialect: Dialect,
    pub(crate) connection: Option<Connection>,
    pub(crate) following: Arc<FollowerState>,
    pub(crate) place: LogPosition,
    pub(crate) observed: LeaseObservations,
    /// Channel to the writer, for leases to end. Weak, so that it does not keep the writer alive.
    pub(crate) requests: mpsc::WeakSender<Request>,
    pub(crate) leases_due: Instant,
    pub(crate) prune_due: Instant,
    pub(crate) backoff: Backoff,
}

impl Follower {
    /// Follows the log while the store is open.
    pub(crate) async fn run(mut self) {
        loop {
            match self.follow().await {
                Ok(()) => {
                    self.backoff.reset();
                    self.following.outage.send_if_modified(|outage| outage.take().is_some());
                    let hinted = self.following.hint.notified();
                    let _ = tokio::time::timeout(POLL_INTERVAL, hinted).await;
                }
                Err(failure) => {
                    let reason = failure.reason().to_owned();
                    self.following
                        .outage
                        .send_if_modified(|outage| outage.replace(reason).is_none());
                    // A new request triggers another attempt before the wait is over.
                    let hinted = self.following.hint.notified();
                    let wait = self.backoff.next_wait().min(OUTAGE_WAIT_MAX);
                    let _ = tokio::time::timeout(wait, hinted).await;
                }
            }
        }
    }

    /// Reads new rows, ends expired leases, and prunes the log.
    async fn follow(&mut self) -> Result<(), Failure> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.options, &self.dialect, Purpose::Reading).await?,
        };
        let has_written = self.following.has_written.swap(false, Ordering::AcqRel);
        while self.read_some(&mut connection).await? {}
        if has_written && self.options.engine == Engine::PostgreSql {
            // Sent after the commit, from a separate connection, because within the commit it would
            // serialise all writers.
            let channel = listener::channel(&self.dialect);
            connection.run(format!("NOTIFY {channel}")).await?;
        }
        let now = Instant::now();
        if now >= self.leases_due {
            self.leases_due = now + LEASES_INTERVAL;
            self.end_leases(&mut connection).await?;
        }
        if now >= self.prune_due {
            self.prune_due = now + PRUNE_INTERVAL;
            self.prune(&mut connection).await?;
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// Reads a limited number of rows; returns whether there may be more.
    async fn read_some(&mut self, connection: &mut Connection) -> Result<bool, Failure> {
        let rows_max = LOG_ROWS_MAX + 1;
        let after = self.place.revision.0.max(1);
        let sql = format!(
            "SELECT last_rev, id, body FROM {} WHERE last_rev >= {after} ORDER BY last_rev LIMIT \
             {rows_max}",
            self.dialect.table("commits")
        );
        let rows = connection.run_one(sql).await?.rows;
        let is_all = rows.len() < rows_max;
        let mut rows = rows.into_iter();
        if self.place.revision > Revision::ZERO {
            let seen = rows.next().map(|row| Ok::<_, Failure>((row.count(0)?, row.bytes(1)?)));
            let seen = seen
                .transpose()?
                .map(|(revision, id)| LogPosition { revision: Revision(revision), id });
            if seen.as_ref() != Some(&self.place) {
                return self.start_over(connection).await.map(|()| false);
            }
        }
        for row in rows {
            let place = LogPosition { revision: Revision(row.count(0)?), id: row.bytes(1)? };
            match body::decode(row.bytes(2)?) {
                Some(commits) => {
                    let history = &self.following.history;
                    let newer = commits.into_iter().filter(|it| it.revision > history.newest());
                    newer.for_each(|changes| history.publish(changes));
                }
                // The commit is too large for the log, or written by a newer version, so watchers
                // must list again.
                None => self.following.history.restart(place.revision),
            }
            self.place = place;
        }
        Ok(!is_all)
    }

    /// Continues at the newest commit, because intermediate ones were pruned or lost by the engine.
    async fn start_over(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let (oldest, newest) = bounds(connection, &self.dialect).await?;
        let seen = self.place.revision;
        if oldest.is_some_and(|oldest| oldest > seen) {
            tracing::warn!(%seen, newest = %newest.revision, "fell behind the log of the database");
        } else {
            tracing::error!(
                %seen,
                newest = %newest.revision,
                "the database has lost commits that it had confirmed: it crashed before they were on the \
                 disk, or a standby without them took over; check the most recent changes"
            );
        }
        self.following.history.restart(newest.revision);
        self.place = newest;
        Ok(())
    }

    async fn end_leases(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        // Taken before the read, so that an unchanged count is known to be unchanged at least until
        // now.
        let now = Instant::now();
        let sql = format!("SELECT id, ttl_ms, renewals FROM {}", self.dialect.table("leases"));
        let rows = connection.run_one(sql).await?.rows;
        let read =
            rows.iter().map(|row| Ok((LeaseId(row.count(0)?), row.count(1)?, row.count(2)?)));
        let read = read.collect::<Result<Vec<_>, Failure>>()?;
        let Some(requests) = self.requests.upgrade() else { return Ok(()) };
        for (lease, renewals) in self.observed.note(&read, now) {
            let end = Request::End { lease, renewals: Some(renewals), answer: None };
            // If the queue is full, the leases are ended after a later read.
            if requests.try_send(end).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Removes old rows, including claims, from the log.
    async fn prune(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let Some(until) = self.place.revision.0.checked_sub(LOG_COMMITS_KEPT) else {
            return Ok(());
        };
        let sql = format!(
            "DELETE FROM {} WHERE last_rev <= {until} AND at < CURRENT_TIMESTAMP - INTERVAL \
             '{LOG_SECONDS_KEPT}' SECOND AND {}",
            self.dialect.table("commits"),
            schema::format_condition(&self.dialect),
        );
        connection.run(sql).await.map(|_| ())
    }
}

/// Returns the oldest revision in the log, and the newest row.
pub(crate) async fn bounds(
    connection: &mut Connection,
    dialect: &Dialect,
) -> Result<(Option<Revision>, LogPosition), Failure> {
    let commits = dialect.table("commits");
    let sql = format!(
        "{}; SELECT MIN(last_rev) FROM {commits} WHERE last_rev > 0; SELECT last_rev, id FROM {commits} \
         WHERE last_rev > 0 ORDER BY last_rev DESC LIMIT 1; COMMIT",
        dialect.begin_reading()
    );
    let mut sets = connection.run(sql).await?.into_iter().skip(1);
    let oldest = sets.next().unwrap_or_default();
    let oldest = oldest.rows.first().map(|row| row.number(0)).transpose()?.flatten();
    let oldest = oldest.and_then(|oldest| u64::try_from(oldest).ok()).map(Revision);
    let newest = sets.next().unwrap_or_default();
    let place = newest.rows.first().map(|row| {
        Ok::<_, Failure>(LogPosition { revision: Revision(row.count(0)?), id: row.bytes(1)? })
    });
    Ok((oldest, place.transpose()?.unwrap_or_default()))
}
