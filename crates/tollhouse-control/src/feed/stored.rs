//! Follower of a store: reads all objects once, then each change.
//!
//! A task follows the store. During failures the configuration in service stays, and reading is
//! retried. The receiver of a full listing detects which objects disappeared during a gap. The
//! module `vigil` has the additional checks for stores that others write too.

mod import;
mod seen;
mod vigil;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tollhouse_config::store_keys::parse_store_key;
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Catalogue;
use tollhouse_proxy::{Change, ShenyuChange};
use tollhouse_stdx::Backoff;
use tollhouse_store::{
    Changes, Entry, Event, Lost, Revision, Store, StoreError, Watch, WatchEvent,
};

pub use self::vigil::SharedStore;
use self::vigil::{FollowedKeys, Judgement, Verdict, Vigil};
use super::event::Event as FeedEvent;
use super::objects::{ObjectReader, Objects};
use super::store_copy::CopyKeeper;
use crate::metrics::ModifyIndexes;
use crate::outages::{Outages, Part};
use crate::secrets::shenyu_store;

/// Limit of changes per batch; changes queue up while the previous batch is compiled.
const CHANGES_BATCHED_MAX: usize = 10_000;

/// Dependencies of a store's follower.
pub struct StoredParts {
    pub store: Arc<dyn Store>,
    /// Known plugins, which define the encrypted fields.
    pub catalogue: Arc<Catalogue>,
    pub keyring: Arc<Keyring>,
    /// Receives the newest revision per kind.
    pub indexes: Arc<ModifyIndexes>,
    /// Receives reports about an unreadable store.
    pub outages: Arc<Outages>,
    /// Checks for a store that others write too.
    pub shared: Option<SharedStore>,
}

/// The API that objects belong to: APISIX's and ShenYu's are followed separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Apisix,
    Shenyu,
}

/// Changes read from the store, with the revision that includes them.
#[derive(Debug)]
pub struct StoreReading {
    /// Event to put into service; it may contain no change.
    pub event: FeedEvent,
    pub dialect: Dialect,
    /// Revision up to which the objects of this dialect have been read.
    pub revision: Revision,
}

/// Key layout of the followed objects.
enum Layout {
    /// Objects of APISIX, under the reader's prefix.
    Apisix(Arc<ObjectReader>),
    Shenyu,
}

impl Layout {
    const fn dialect(&self) -> Dialect {
        match self {
            Self::Apisix(_) => Dialect::Apisix,
            Self::Shenyu => Dialect::Shenyu,
        }
    }

    /// Returns a predicate that accepts the keys of objects and rejects the gateways' internal
    /// keys.
    fn is_object(&self) -> Box<dyn Fn(&str) -> bool + Send + Sync> {
        match self {
            Self::Apisix(reader) => {
                let prefix = reader.prefix.clone();
                Box::new(move |key| parse_store_key(&prefix, key).is_some())
            }
            Self::Shenyu => Box::new(|key| tollhouse_shenyu::parse_key(key).is_some()),
        }
    }
}

/// A followed store.
pub struct StoreFollower {
    parts: StoredParts,
    layout: Layout,
    /// Prefix of the followed keys: the configured prefix, or a longer one.
    folder: String,
    watch: Watch,
    /// Revision up to which everything has been read.
    revision: Revision,
    /// Wait before the next full reading, if the previous one failed.
    backoff: Option<Backoff>,
    /// Checks for a store that others write too.
    vigil: Option<Vigil>,
    /// Local copy of a shared store, for starts during an outage.
    copy: Option<CopyKeeper>,
}

/// Result of waiting for changes.
enum Step {
    /// Changes; empty if they belong to an incomplete import.
    Changes(Vec<Change>),
    /// Changes are missing, so that all objects must be read again.
    ReadAnew,
}

/// Result of a full reading.
enum ListingOutcome {
    /// All objects.
    Everything(Objects),
    /// An incomplete import, which is followed but not served.
    Held,
    /// An implausible listing; read again after this time.
    Doubted(Duration),
}

/// Result of starting over.
enum StartedOver {
    /// All objects of the store.
    Everything(Objects),
    /// No objects to put into service yet, because an import is incomplete.
    Held,
    Closed,
}

impl StoreFollower {
    /// Reads all of APISIX's objects, and starts watching.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn open(parts: StoredParts, prefix: &str) -> Result<(Self, Objects), StoreError> {
        Self::open_folder(parts, prefix, format!("{prefix}/")).await
    }

    /// Like [`StoreFollower::open`], for keys that begin with `folder`, which must begin with the
    /// prefix.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn open_folder(
        parts: StoredParts,
        prefix: &str,
        folder: String,
    ) -> Result<(Self, Objects), StoreError> {
        let reader = ObjectReader {
            prefix: prefix.to_owned(),
            catalogue: Arc::clone(&parts.catalogue),
            keyring: Arc::clone(&parts.keyring),
            indexes: Arc::clone(&parts.indexes),
        };
        Self::open_layout(parts, Layout::Apisix(Arc::new(reader)), prefix, folder).await
    }

    /// Like [`StoreFollower::open`], for ShenYu's objects.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn open_shenyu(
        parts: StoredParts,
        prefix: &str,
    ) -> Result<(Self, Objects), StoreError> {
        let folder = tollhouse_shenyu::KEY_PREFIX.to_owned();
        Self::open_layout(parts, Layout::Shenyu, prefix, folder).await
    }

    async fn open_layout(
        parts: StoredParts,
        layout: Layout,
        prefix: &str,
        folder: String,
    ) -> Result<(Self, Objects), StoreError> {
        let mut vigil = parts.shared.clone().map(|shared| {
            let keys = FollowedKeys { prefix, folder: &folder, is_object: layout.is_object() };
            Vigil::new(Arc::clone(&parts.store), Arc::clone(&parts.outages), shared, keys)
        });
        let mut copy = parts.shared.as_ref().and_then(|shared| shared.copy_keeper());
        // ShenYu's objects are not copied.
        copy = copy.filter(|_| matches!(layout, Layout::Apisix(_)));
        let listing = parts.store.list(&folder).await?;
        if let Some(vigil) = &mut vigil {
            if let Some(revision) = copy.as_ref().and_then(CopyKeeper::newest) {
                vigil.had(revision);
            }
            match vigil.examine(&listing).await? {
                Judgement::Serve => {}
                Judgement::Hold => return Err(unreadable("an import is under way")),
                Judgement::AskAgain(_) => return Err(unreadable("it is of another cluster")),
            }
        }
        let revision = listing.revision;
        let watch = parts.store.watch(&folder, revision);
        if let Some(copy) = &mut copy {
            copy.replace(&listing).await;
        }
        let stored = Self { parts, layout, folder, watch, revision, backoff: None, vigil, copy };
        let objects = stored.put_all(listing.entries);
        Ok((stored, objects))
    }

    /// Returns the revision up to which everything has been read.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Sends events until the receiver is dropped or the store is closed.
    pub async fn follow(mut self, events: mpsc::Sender<StoreReading>) {
        let is_over = events.clone();
        tokio::select! {
            () = is_over.closed() => {}
            () = self.pass_on(&events) => {}
        }
    }

    async fn pass_on(&mut self, events: &mpsc::Sender<StoreReading>) {
        loop {
            let started_over = match self.next().await {
                Ok(Step::Changes(changes)) if changes.is_empty() && self.is_held() => continue,
                Ok(Step::Changes(changes)) => Ok(FeedEvent::Changes(changes)),
                Ok(Step::ReadAnew) => Err(self.start_over().await),
                Err(Lost::Closed) => return,
                Err(lost) => {
                    self.report(&lost);
                    Err(self.start_over().await)
                }
            };
            let event = match (started_over, &self.layout) {
                (Ok(changes), _) => changes,
                (Err(StartedOver::Closed), _) => return,
                (Err(StartedOver::Held), _) => continue,
                (Err(StartedOver::Everything(all)), Layout::Apisix(_)) => {
                    FeedEvent::Everything(all)
                }
                // A listing of APISIX's objects replaces the whole snapshot. ShenYu's objects share
                // that snapshot, so that only they are cleared first.
                (Err(StartedOver::Everything(all)), Layout::Shenyu) => {
                    let gone = std::iter::once(Change::Shenyu(ShenyuChange::Clear));
                    FeedEvent::Changes(gone.chain(all.into_changes()).collect())
                }
            };
            let (dialect, revision) = (self.layout.dialect(), self.revision);
            if events.send(StoreReading { event, dialect, revision }).await.is_err() {
                return;
            }
        }
    }

    fn is_held(&self) -> bool {
        self.vigil.as_ref().is_some_and(Vigil::is_held)
    }

    /// Waits for the next batch of changes.
    async fn next(&mut self) -> Result<Step, Lost> {
        let mut batch = Vec::new();
        let mut verdict = loop {
            let Self { watch, vigil, copy, .. } = self;
            let alarm = async {
                match vigil {
                    Some(vigil) => vigil.alarm().await,
                    None => std::future::pending().await,
                }
            };
            let copy_is_due = async {
                match copy {
                    Some(copy) => copy.retry().await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                event = watch.next() => event,
                () = alarm => return Ok(Step::ReadAnew),
                () = copy_is_due => return Ok(Step::ReadAnew),
            };
            match event {
                WatchEvent::Commit(changes) => {
                    self.backoff = None;
                    break self.take(changes, &mut batch);
                }
                WatchEvent::Progress(_) => self.backoff = None,
                WatchEvent::Lost(lost) => return Err(lost),
            }
        };
        while batch.len() < CHANGES_BATCHED_MAX && verdict != Verdict::ReadAnew {
            match self.watch.try_next() {
                Some(WatchEvent::Commit(changes)) => verdict = self.take(changes, &mut batch),
                Some(WatchEvent::Progress(_)) => {}
                // The watch returns the loss again at the next call.
                Some(WatchEvent::Lost(_)) | None => break,
            }
        }
        if verdict == Verdict::ReadAnew {
            return Ok(Step::ReadAnew);
        }
        if let Some(copy) = &mut self.copy {
            copy.note(&batch, self.revision).await;
        }
        Ok(Step::Changes(batch.into_iter().filter_map(|event| self.change(event)).collect()))
    }

    /// Adds a commit to the next batch, unless it belongs to an incomplete import.
    fn take(&mut self, changes: Changes, batch: &mut Vec<Event>) -> Verdict {
        let verdict = self.vigil.as_mut().map_or(Verdict::Serve, |vigil| vigil.note(&changes));
        if verdict == Verdict::Serve {
            self.revision = changes.revision;
            batch.extend(changes.events);
        }
        verdict
    }

    fn report(&self, lost: &Lost) {
        match lost {
            // Not a failure: more changes happened than the store keeps.
            Lost::Compacted { .. } => tracing::info!(reason = %lost, "the store is read again"),
            // The next full reading reports the damage.
            Lost::Rewound { .. } => tracing::error!(reason = %lost, "the store is read again"),
            Lost::Unavailable { .. } | Lost::Closed => self.parts.outages.report(Part::Store, lost),
        }
    }

    /// Retries a full reading until it succeeds or the store closes.
    async fn start_over(&mut self) -> StartedOver {
        loop {
            match &mut self.backoff {
                // The first full reading after a gap starts at once; only repeated ones wait.
                None => self.backoff = Some(Backoff::default()),
                Some(backoff) => tokio::time::sleep(backoff.next_wait()).await,
            }
            let listed = match self.list_and_watch().await {
                Ok(listed) => listed,
                Err(StoreError::Closed) => return StartedOver::Closed,
                Err(error) => {
                    self.parts.outages.report(Part::Store, &error);
                    continue;
                }
            };
            self.parts.outages.clear(Part::Store);
            match listed {
                ListingOutcome::Everything(everything) => {
                    return StartedOver::Everything(everything);
                }
                ListingOutcome::Held => return StartedOver::Held,
                ListingOutcome::Doubted(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    async fn list_and_watch(&mut self) -> Result<ListingOutcome, StoreError> {
        let listing = self.parts.store.list(&self.folder).await?;
        let judgement = match &mut self.vigil {
            Some(vigil) => vigil.examine(&listing).await?,
            None => Judgement::Serve,
        };
        if let Judgement::AskAgain(wait) = judgement {
            return Ok(ListingOutcome::Doubted(wait));
        }
        self.watch = self.parts.store.watch(&self.folder, listing.revision);
        if judgement == Judgement::Hold {
            return Ok(ListingOutcome::Held);
        }
        self.revision = listing.revision;
        if let Some(copy) = &mut self.copy {
            copy.replace(&listing).await;
        }
        Ok(ListingOutcome::Everything(self.put_all(listing.entries)))
    }

    fn change(&self, event: Event) -> Option<Change> {
        match event {
            Event::Put(entry) => self.put(entry),
            Event::Delete { key, revision } => match &self.layout {
                Layout::Apisix(reader) => {
                    let (kind, id) = parse_store_key(&reader.prefix, &key)?;
                    self.parts.indexes.note(kind, revision.0);
                    Some(Change::Delete { kind, id })
                }
                Layout::Shenyu => {
                    let (kind, id) = tollhouse_shenyu::parse_key(&key)?;
                    Some(Change::Shenyu(ShenyuChange::Delete { kind, id: id.to_owned() }))
                }
            },
        }
    }

    /// Returns all objects of a listing.
    fn put_all(&self, entries: Vec<Entry>) -> Objects {
        match &self.layout {
            Layout::Apisix(reader) => Objects::stored(entries, Arc::clone(reader)),
            Layout::Shenyu => {
                let changes = entries.into_iter().filter_map(|entry| self.put(entry));
                changes.collect::<Vec<_>>().into()
            }
        }
    }

    fn put(&self, entry: Entry) -> Option<Change> {
        match &self.layout {
            Layout::Apisix(reader) => reader.change(&entry),
            Layout::Shenyu => put_of_shenyu(entry, &self.parts.keyring),
        }
    }
}

fn unreadable(reason: &str) -> StoreError {
    StoreError::Unreachable { place: "the shared store".into(), reason: reason.to_owned() }
}

fn put_of_shenyu(entry: Entry, keyring: &Keyring) -> Option<Change> {
    let entry = shenyu_store::open_entry(entry, keyring);
    let (kind, id) = tollhouse_shenyu::parse_key(&entry.key)?;
    // A value that is not UTF-8 is reported later as an invalid object.
    let text = String::from_utf8_lossy(&entry.value).into();
    let path = format!("shenyu/{}/{id}", kind.segment());
    Some(Change::Shenyu(ShenyuChange::Put { kind, id: id.to_owned(), text, path }))
}

#[cfg(test)]
mod tests;
