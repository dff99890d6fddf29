//! The one task that writes: calls that wait are written in one commit, and what others commit to the same
//! store is followed.

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
use crate::tables::{Tables, Written};

/// What a call does to the tables. It may run more than once: where somebody else came before.
pub(crate) type Call = Box<dyn Fn(&mut Draft<'_>) -> Outcome + Send>;

/// What is told to those who follow.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// What one commit did.
    Rows(Arc<[Written]>),
    /// Everything may have changed.
    Everything,
    /// Nothing has changed, but somebody wants these sent anew.
    Refresh(&'static [Kind]),
}

struct Waiting {
    call: Call,
    /// Whose call it is, where it is to be noted.
    author: Option<Arc<Author>>,
    answer: oneshot::Sender<Done>,
}

/// What came of a call, and up to which commit it has seen the tables, its own included.
struct Done {
    outcome: Outcome,
    revision: Revision,
}

/// The tables, and the way to write them.
#[derive(Clone)]
pub(crate) struct Book {
    tables: Arc<RwLock<Tables>>,
    calls: mpsc::Sender<Waiting>,
    changes: broadcast::Sender<Change>,
    version: watch::Receiver<u64>,
    author: Option<Arc<Author>>,
    in_service: Option<InService>,
}

impl Book {
    /// Reads everything and starts to follow.
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
        // Ends with the last of the calls' senders, or when it has to.
        tokio::spawn(async move {
            tokio::select! {
                () = writer.run(waiting) => {}
                _ = ending.wait_for(|is_ending| *is_ending) => {}
            }
        });
        Ok(Self { tables, calls, changes, version, author: None, in_service: None })
    }

    /// The same book in the hands of somebody: what is written is noted with it, in one commit.
    pub(crate) fn by(&self, author: Arc<Author>) -> Self {
        Self { author: Some(author), ..self.clone() }
    }

    /// The same book whose calls are answered once what they wrote serves.
    pub(crate) fn answering_once(self, in_service: Option<InService>) -> Self {
        Self { in_service, ..self }
    }

    /// The tables as they are; not to be held across an await.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a call; it is in the store once this answers a success, and in service where that is waited for. Each call
    /// waits by itself, so that others are written meanwhile.
    pub(crate) async fn write(
        &self,
        call: impl Fn(&mut Draft<'_>) -> Outcome + Send + 'static,
    ) -> Outcome {
        let (answer, done) = oneshot::channel();
        let waiting = Waiting { call: Box::new(call), author: self.author.clone(), answer };
        let closed = || Refusal::error("the store is closed; ask again");
        self.calls.send(waiting).await.map_err(|_| closed())?;
        let Done { outcome, revision } = done.await.map_err(|_| closed())?;
        if outcome.is_ok()
            && let Some(in_service) = &self.in_service
        {
            in_service.meets_write(revision).await;
        }
        outcome
    }

    /// Has groups sent anew to all who follow.
    pub(crate) fn refresh(&self, kinds: &'static [Kind]) {
        // Nobody follows most of the time.
        let _ = self.changes.send(Change::Refresh(kinds));
    }

    /// Changes from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Counts changes.
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
    /// The newest commit that is in the tables. What a watch tells beside commits is not counted: whoever puts commits
    /// into service never hears of it.
    newest: Revision,
}

impl Writer {
    async fn run(mut self, mut calls: mpsc::Receiver<Waiting>) {
        loop {
            tokio::select! {
                event = self.watch.next() => if self.follow(event).await.is_err() {
                    // Whoever asks is answered that the store is closed; the listener is made anew with it.
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

    /// Takes over what has come from the store.
    async fn follow(&mut self, event: WatchEvent) -> Result<(), StoreError> {
        match event {
            WatchEvent::Commit(changes) => {
                self.newest = changes.revision;
                let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
                let take = |event: &Event| match event {
                    Event::Put(entry) => tables.put(entry),
                    Event::Delete { key, .. } => tables.delete(key),
                };
                let written: Vec<Written> = changes.events.iter().filter_map(take).collect();
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
        // Nobody follows most of the time.
        let _ = self.changes.send(change);
        self.version.send_modify(|version| *version += 1);
    }

    async fn write(&mut self, batch: Vec<Waiting>) {
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
                    // Whoever is answered reads what it has written.
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
                // Together they are too much, but perhaps not each alone.
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
        batch: &[Waiting],
    ) -> (Vec<Outcome>, serde_json::Result<tollhouse_store::Transaction>) {
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
            outcomes.push(draft.end_call(outcome));
        }
        (outcomes, draft.into_transaction())
    }
}

fn answer_all(batch: Vec<Waiting>, outcomes: Vec<Outcome>, revision: Revision) {
    for (waiting, outcome) in batch.into_iter().zip(outcomes) {
        // The caller may have gone.
        let _ = waiting.answer.send(Done { outcome, revision });
    }
}

fn refuse_all(batch: Vec<Waiting>, reason: &str) {
    tracing::warn!(reason, "ShenYu's admin cannot write");
    for waiting in batch {
        let outcome = Err(Refusal::error(reason));
        let _ = waiting.answer.send(Done { outcome, revision: Revision::ZERO });
    }
}
