//! Single writer task. It commits the waiting calls in batches and follows commits of other writers
//! to its store.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tollhouse_shenyu::{KEY_PREFIX, Kind};
use tollhouse_store::{
    ErrorKind, Event, InService, Revision, Store, StoreError, Watch, WatchEvent,
};

use crate::answer::{Outcome, Refusal};
use crate::clock;
use crate::draft::Draft;
use crate::limits::{CALLS_PER_COMMIT, CALLS_WAITING_MAX, CHANGES_WAITING_MAX, COMMIT_TRIES_MAX};
use crate::records::{self, Author};
use crate::tables::{RowChange, Tables};
use crate::warnings::{ProblemSource, Warnings, Written};

/// Change of the tables by a call. The function may run more than once, because a conflicting
/// commit causes a retry.
pub(crate) type Call = Box<dyn Fn(&mut Draft<'_>) -> Outcome + Send>;

/// Notification to followers about changed rows.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Changes of one commit.
    Rows(Arc<[RowChange]>),
    /// All rows were read again, so any of them may have changed.
    Everything,
    /// Request of a caller to send these kinds again, although they have not changed.
    Refresh(&'static [Kind]),
}

struct PendingCall {
    call: Call,
    /// Author for the record of the change, if the call is to be recorded.
    author: Option<Arc<Author>>,
    answer: oneshot::Sender<CallResult>,
}

/// Outcome of a call, and the latest commit that the tables included when it was answered. That may
/// be the call's own commit.
struct CallResult {
    outcome: Outcome,
    /// Objects that the call has changed.
    written: Written,
    revision: Revision,
}

/// Outcome of a call that is not committed yet, and the objects that it changes.
struct DraftedCall {
    outcome: Outcome,
    written: Written,
}

/// Read access to the tables, and the channel to their writer.
#[derive(Clone)]
pub(crate) struct Book {
    tables: Arc<RwLock<Tables>>,
    calls: mpsc::Sender<PendingCall>,
    changes: broadcast::Sender<Change>,
    version: watch::Receiver<u64>,
    author: Option<Arc<Author>>,
    in_service: Option<InService>,
    problems: Option<Arc<dyn ProblemSource>>,
}

impl Book {
    /// Reads all rows and starts the writer task.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        mut ending: watch::Receiver<bool>,
    ) -> Result<Self, StoreError> {
        let (calls, waiting) = mpsc::channel(CALLS_WAITING_MAX);
        let (changes, _) = broadcast::channel(CHANGES_WAITING_MAX);
        let (publish, version) = watch::channel(0);
        let tables = Arc::default();
        let mut writer = Writer {
            watch: store.watch(KEY_PREFIX, store.revision().await?),
            store,
            tables: Arc::clone(&tables),
            changes: changes.clone(),
            version: publish,
            newest: Revision::ZERO,
        };
        writer.read_everything().await?;
        // The task ends when the last `Book` is dropped, or when `ending` turns true.
        tokio::spawn(async move {
            tokio::select! {
                () = writer.run(waiting) => {}
                _ = ending.wait_for(|is_ending| *is_ending) => {}
            }
        });
        Ok(Self { tables, calls, changes, version, author: None, in_service: None, problems: None })
    }

    /// Returns a handle that records each write with `author` in its commit.
    pub(crate) fn by(&self, author: Arc<Author>) -> Self {
        Self { author: Some(author), ..self.clone() }
    }

    /// Returns a handle that answers each call only after its write is in service.
    pub(crate) fn answering_once(self, in_service: Option<InService>) -> Self {
        Self { in_service, ..self }
    }

    /// Returns a handle that adds the data plane's problems with a call's objects to its answer.
    pub(crate) fn warning_of(self, problems: Option<Arc<dyn ProblemSource>>) -> Self {
        Self { problems, ..self }
    }

    /// Locks the tables for reading. The guard must not be held across an await.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call. On success its change is stored, and in service if this handle waits for that.
    /// Only this caller waits; the writer continues with other calls meanwhile.
    pub(crate) async fn write(
        &self,
        call: impl Fn(&mut Draft<'_>) -> Outcome + Send + 'static,
    ) -> Outcome {
        let (answer, done) = oneshot::channel();
        let waiting = PendingCall { call: Box::new(call), author: self.author.clone(), answer };
        let closed = || Refusal::error("the store is closed; ask again");
        self.calls.send(waiting).await.map_err(|_| closed())?;
        let CallResult { outcome, written, revision } = done.await.map_err(|_| closed())?;
        let mut success = outcome?;
        if let Some(in_service) = &self.in_service {
            in_service.meets_write(revision).await;
        }
        if let Some(problems) = self.problems.as_deref().filter(|_| !written.is_empty()) {
            success.warnings = Warnings::find(problems, &self.read(), &written);
        }
        Ok(success)
    }

    /// Sends the groups of these kinds again to all followers.
    pub(crate) fn refresh(&self, kinds: &'static [Kind]) {
        // An error only means that no gateway follows.
        let _ = self.changes.send(Change::Refresh(kinds));
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Returns a counter that rises with every change.
    pub(crate) fn version(&self) -> watch::Receiver<u64> {
        self.version.clone()
    }
}

struct Writer {
    store: Arc<dyn Store>,
    watch: Watch,
    tables: Arc<RwLock<Tables>>,
    changes: broadcast::Sender<Change>,
    version: watch::Sender<u64>,
    /// Latest commit in the tables. Progress that the watch reports without a commit does not
    /// count, because the data plane never sees it and could not confirm it.
    newest: Revision,
}

impl Writer {
    async fn run(mut self, mut calls: mpsc::Receiver<PendingCall>) {
        loop {
            tokio::select! {
                event = self.watch.next() => if self.follow(event).await.is_err() {
                    // Callers are told that the store is closed. The listener is restarted together
                    // with the store.
                    return;
                },
                first = calls.recv() => {
                    let Some(first) = first else { return };
                    let mut batch = vec![first];
                    while batch.len() < CALLS_PER_COMMIT && let Ok(next) = calls.try_recv() {
                        batch.push(next);
                    }
                    self.write(batch).await;
                }
            }
        }
    }

    async fn read_everything(&mut self) -> Result<(), StoreError> {
        let listing = self.store.list(KEY_PREFIX).await?;
        let tables = Tables::from_listing(&listing);
        let revisions = listing.entries.iter().map(|entry| entry.mod_revision);
        self.newest = revisions.max().unwrap_or_default();
        self.watch = self.store.watch(KEY_PREFIX, listing.revision);
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = tables;
        self.publish(Change::Everything);
        Ok(())
    }

    /// Applies an event of the store.
    async fn follow(&mut self, event: WatchEvent) -> Result<(), StoreError> {
        match event {
            WatchEvent::Commit(changes) => {
                self.newest = changes.revision;
                let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
                let take = |event: &Event| match event {
                    Event::Put(entry) => tables.put(entry),
                    Event::Delete { key, .. } => tables.delete(key),
                };
                let written: Vec<RowChange> = changes.events.iter().filter_map(take).collect();
                drop(tables);
                self.publish(Change::Rows(written.into()));
                Ok(())
            }
            WatchEvent::Progress(_) => Ok(()),
            WatchEvent::Lost(tollhouse_store::Lost::Closed) => Err(StoreError::Closed),
            WatchEvent::Lost(lost) => {
                tracing::warn!(%lost, "everything of ShenYu's is read anew");
                self.read_everything().await
            }
        }
    }

    fn publish(&self, change: Change) {
        // An error only means that no gateway follows.
        let _ = self.changes.send(change);
        self.version.send_modify(|version| *version += 1);
    }

    async fn write(&mut self, batch: Vec<PendingCall>) {
        for _ in 0..COMMIT_TRIES_MAX {
            let (outcomes, transaction) = self.draft(&batch);
            let transaction = match transaction {
                Ok(transaction) => transaction,
                Err(error) => return refuse_all(batch, &error.to_string()),
            };
            if transaction.operations.is_empty() {
                return answer_all(batch, outcomes, self.newest);
            }
            match self.store.commit(transaction).await {
                Ok(committed) => {
                    // Applies the own commit first, so that callers read their own writes after the
                    // answer.
                    while self.watch.revision() < committed.revision {
                        let event = self.watch.next().await;
                        if self.follow(event).await.is_err() {
                            break;
                        }
                    }
                    return answer_all(batch, outcomes, committed.revision);
                }
                Err(StoreError::Conflict { .. }) => {
                    let event = self.watch.next().await;
                    if self.follow(event).await.is_err() {
                        break;
                    }
                }
                // The batch may exceed the store's limits although each call alone does not.
                Err(error) if error.kind() == ErrorKind::Refused && batch.len() > 1 => {
                    for waiting in batch {
                        Box::pin(self.write(vec![waiting])).await;
                    }
                    return;
                }
                Err(error) => return refuse_all(batch, &error.to_string()),
            }
        }
        refuse_all(batch, "others change the same objects; ask again");
    }

    fn draft(
        &self,
        batch: &[PendingCall],
    ) -> (Vec<DraftedCall>, serde_json::Result<tollhouse_store::Transaction>) {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let mut draft = Draft::new(&tables, clock::now_text());
        let mut outcomes = Vec::with_capacity(batch.len());
        for waiting in batch {
            let outcome = (waiting.call)(&mut draft);
            if outcome.is_ok()
                && let Some(author) = &waiting.author
            {
                records::note(&mut draft, author);
            }
            let written = draft.written();
            outcomes.push(DraftedCall { outcome: draft.end_call(outcome), written });
        }
        (outcomes, draft.into_transaction())
    }
}

fn answer_all(batch: Vec<PendingCall>, calls: Vec<DraftedCall>, revision: Revision) {
    for (waiting, DraftedCall { outcome, written }) in batch.into_iter().zip(calls) {
        // The caller may have disconnected.
        let _ = waiting.answer.send(CallResult { outcome, written, revision });
    }
}

fn refuse_all(batch: Vec<PendingCall>, reason: &str) {
    tracing::warn!(reason, "ShenYu's admin cannot write");
    for waiting in batch {
        let outcome = Err(Refusal::error(reason));
        let (written, revision) = (Written::new(), Revision::ZERO);
        let _ = waiting.answer.send(CallResult { outcome, written, revision });
    }
}
