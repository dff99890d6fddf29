//! The store as the source of the configuration: everything once, then each change as it happens.
//!
//! Following goes on by itself, in a task: whatever the store does, what is in service stays, and the
//! store is asked again. Which objects have gone during a gap is found by whoever takes a listing; what is
//! looked after beside where others write the store too is in `vigil`.

mod import;
mod seen;
mod vigil;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tollhouse_config::store_keys::parse_store_key;
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Kind, Problem};
use tollhouse_plugin::Catalogue;
use tollhouse_plugin::sealing::{self, ObjectRef};
use tollhouse_proxy::{Change, ShenyuChange};
use tollhouse_stdx::Backoff;
use tollhouse_store::{
    Changes, Entry, Event, Lost, Revision, Store, StoreError, Watch, WatchEvent,
};

pub use self::vigil::SharedStore;
use self::vigil::{Judgement, Verdict, Vigil};
use super::event::Event as FeedEvent;
use super::store_copy::CopyKeeper;
use crate::metrics::ModifyIndexes;
use crate::outages::{Outages, Part};
use crate::secrets::shenyu_store;

/// Changes taken together at most: what has queued up while the last ones were compiled.
const CHANGES_BATCHED_MAX: usize = 10_000;

/// What the store is read with.
pub struct StoredParts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The plugins that exist.
    pub catalogue: Arc<Catalogue>,
    /// What encrypted fields are opened with.
    pub keyring: Arc<Keyring>,
    /// Where revisions are noted.
    pub indexes: Arc<ModifyIndexes>,
    /// Where it is told that the store cannot be read.
    pub outages: Arc<Outages>,
    /// What is looked after where others write the store too.
    pub shared: Option<SharedStore>,
}

/// Whose objects something is about: APISIX's and ShenYu's are followed apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// APISIX's.
    Apisix,
    /// ShenYu's.
    Shenyu,
}

/// What was read.
#[derive(Debug)]
pub struct Read {
    /// What there is to be put into service; it may be nothing.
    pub event: FeedEvent,
    /// Of whose objects.
    pub dialect: Dialect,
    /// Up to which revision these have been read then.
    pub revision: Revision,
}

/// Whose objects are followed, which is what keys and values mean.
enum Layout {
    /// APISIX's, below this prefix.
    Apisix(String),
    /// ShenYu's.
    Shenyu,
}

impl Layout {
    const fn dialect(&self) -> Dialect {
        match self {
            Self::Apisix(_) => Dialect::Apisix,
            Self::Shenyu => Dialect::Shenyu,
        }
    }

    /// Tells keys of objects from what gateways keep for themselves.
    fn is_object(&self) -> Box<dyn Fn(&str) -> bool + Send + Sync> {
        match self {
            Self::Apisix(prefix) => {
                let prefix = prefix.clone();
                Box::new(move |key| parse_store_key(&prefix, key).is_some())
            }
            Self::Shenyu => Box::new(|key| tollhouse_shenyu::parse_key(key).is_some()),
        }
    }
}

/// The store, followed.
pub struct Stored {
    parts: StoredParts,
    layout: Layout,
    /// What the keys begin with that are followed: the prefix, or more.
    folder: String,
    watch: Watch,
    /// Up to which revision everything has been read.
    revision: Revision,
    /// How long to wait before everything is read again, where that was in vain the last time.
    backoff: Option<Backoff>,
    /// Where others write the store too.
    vigil: Option<Vigil>,
    /// The same: what is served while it is away.
    copy: Option<CopyKeeper>,
}

/// What came.
enum Step {
    /// Changes; none where they belong to an import that is not whole yet.
    Changes(Vec<Change>),
    /// Everything has to be read anew.
    ReadAnew,
}

/// What reading everything came to.
enum Listed {
    /// All there is.
    Everything(Vec<Change>),
    /// Half of an import, which is followed, and not served.
    Held,
    /// Nothing that can be believed yet.
    Doubted(Duration),
}

/// What came of starting over.
enum StartedOver {
    /// All there is.
    Everything(Vec<Change>),
    /// Nothing to put into service yet.
    Held,
    /// The store is closed.
    Closed,
}

impl Stored {
    /// Reads everything, and follows from there.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(parts: StoredParts, prefix: &str) -> Result<(Self, Vec<Change>), StoreError> {
        Self::open_folder(parts, prefix, format!("{prefix}/")).await
    }

    /// The same of objects whose keys begin with `folder`, which begins with the prefix.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open_folder(
        parts: StoredParts,
        prefix: &str,
        folder: String,
    ) -> Result<(Self, Vec<Change>), StoreError> {
        Self::open_layout(parts, Layout::Apisix(prefix.to_owned()), prefix, folder).await
    }

    /// The same of ShenYu's objects.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open_shenyu(
        parts: StoredParts,
        prefix: &str,
    ) -> Result<(Self, Vec<Change>), StoreError> {
        let folder = tollhouse_shenyu::KEY_PREFIX.to_owned();
        Self::open_layout(parts, Layout::Shenyu, prefix, folder).await
    }

    async fn open_layout(
        parts: StoredParts,
        layout: Layout,
        prefix: &str,
        folder: String,
    ) -> Result<(Self, Vec<Change>), StoreError> {
        let mut vigil = parts.shared.clone().map(|shared| {
            let ends = (Arc::clone(&parts.store), Arc::clone(&parts.outages));
            Vigil::new(ends, shared, (prefix, &folder), layout.is_object())
        });
        let mut copy = parts.shared.as_ref().and_then(|shared| shared.copy_keeper());
        // Of ShenYu's objects there is none.
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
        let changes = stored.put_all(listing.entries);
        Ok((stored, changes))
    }

    /// Up to which revision everything has been read.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Passes on what comes until nobody takes it any more, or the store has been closed for good.
    pub async fn follow(mut self, events: mpsc::Sender<Read>) {
        let is_over = events.clone();
        tokio::select! {
            () = is_over.closed() => {}
            () = self.pass_on(&events) => {}
        }
    }

    async fn pass_on(&mut self, events: &mpsc::Sender<Read>) {
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
                // APISIX's objects replace everything; ShenYu's are cleared first, as they share the snapshot with
                // those.
                (Err(StartedOver::Everything(all)), Layout::Shenyu) => {
                    let gone = std::iter::once(Change::Shenyu(ShenyuChange::Clear));
                    FeedEvent::Changes(gone.chain(all).collect())
                }
            };
            let (dialect, revision) = (self.layout.dialect(), self.revision);
            if events.send(Read { event, dialect, revision }).await.is_err() {
                return;
            }
        }
    }

    fn is_held(&self) -> bool {
        self.vigil.as_ref().is_some_and(Vigil::is_held)
    }

    /// The next changes; waits for them.
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
                // What is lost stays so, and is met again at the next look.
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

    /// Adds a commit to those that are put into service next, unless it has to wait for more.
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
            // No failure: more has changed than is kept.
            Lost::Compacted { .. } => tracing::info!(reason = %lost, "the store is read anew"),
            // What it has lost is said once it has been read.
            Lost::Rewound { .. } => tracing::error!(reason = %lost, "the store is read anew"),
            Lost::Unavailable { .. } | Lost::Closed => self.parts.outages.report(Part::Store, lost),
        }
    }

    /// Reads everything again, for as long as that takes.
    async fn start_over(&mut self) -> StartedOver {
        loop {
            match &mut self.backoff {
                // A gap costs no wait; one right behind it does.
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
                Listed::Everything(everything) => return StartedOver::Everything(everything),
                Listed::Held => return StartedOver::Held,
                Listed::Doubted(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    async fn list_and_watch(&mut self) -> Result<Listed, StoreError> {
        let listing = self.parts.store.list(&self.folder).await?;
        let judgement = match &mut self.vigil {
            Some(vigil) => vigil.examine(&listing).await?,
            None => Judgement::Serve,
        };
        if let Judgement::AskAgain(wait) = judgement {
            return Ok(Listed::Doubted(wait));
        }
        self.watch = self.parts.store.watch(&self.folder, listing.revision);
        if judgement == Judgement::Hold {
            return Ok(Listed::Held);
        }
        self.revision = listing.revision;
        if let Some(copy) = &mut self.copy {
            copy.replace(&listing).await;
        }
        Ok(Listed::Everything(self.put_all(listing.entries)))
    }

    fn change(&self, event: Event) -> Option<Change> {
        match event {
            Event::Put(entry) => self.put(entry),
            Event::Delete { key, revision } => match &self.layout {
                Layout::Apisix(prefix) => {
                    let (kind, id) = parse_store_key(prefix, &key)?;
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

    /// All of a listing. Stream routes are tried in the order in which they were made, which that of their
    /// keys is not; routes of requests begin in that of their keys, as in APISIX.
    fn put_all(&self, mut entries: Vec<Entry>) -> Vec<Change> {
        if let Layout::Apisix(prefix) = &self.layout {
            let folder = format!("{prefix}/{}/", Kind::StreamRoute);
            let start = entries.partition_point(|entry| *entry.key < *folder);
            let streams = &mut entries[start..];
            let end = streams.partition_point(|entry| entry.key.starts_with(&folder));
            streams[..end].sort_by_key(|entry| entry.create_revision);
        }
        entries.into_iter().filter_map(|entry| self.put(entry)).collect()
    }

    fn put(&self, entry: Entry) -> Option<Change> {
        match &self.layout {
            Layout::Apisix(prefix) => self.put_object(prefix, entry),
            Layout::Shenyu => put_of_shenyu(entry, &self.parts.keyring),
        }
    }

    fn put_object(&self, prefix: &str, entry: Entry) -> Option<Change> {
        let (kind, id) = parse_store_key(prefix, &entry.key)?;
        self.parts.indexes.note(kind, entry.mod_revision.0);
        // To the gateways that a store is shared with, what has no value is gone.
        if entry.value.is_empty() {
            return Some(Change::Delete { kind, id });
        }
        let path = format!("{kind}/{id}");
        let mut value = serde_json::from_slice(&entry.value)
            .map_err(|error| Problem::error(path.clone(), format!("no JSON: {error}")));
        if let Ok(value) = &mut value {
            let at = ObjectRef::new(kind, id.as_str());
            sealing::unseal_stored(at, value, &self.parts.catalogue, &self.parts.keyring);
        }
        Some(Change::Upsert { kind, id, value, path })
    }
}

fn unreadable(reason: &str) -> StoreError {
    StoreError::Unreachable { place: "the shared store".into(), reason: reason.to_owned() }
}

fn put_of_shenyu(entry: Entry, keyring: &Keyring) -> Option<Change> {
    let entry = shenyu_store::open_entry(entry, keyring);
    let (kind, id) = tollhouse_shenyu::parse_key(&entry.key)?;
    // What is no text is no object either, and is reported as such.
    let text = String::from_utf8_lossy(&entry.value).into();
    let path = format!("shenyu/{}/{id}", kind.segment());
    Some(Change::Shenyu(ShenyuChange::Put { kind, id: id.to_owned(), text, path }))
}

#[cfg(test)]
mod tests;
