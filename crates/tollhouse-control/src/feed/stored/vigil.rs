//! What is looked after of a store that others write too: whether it still is this cluster's, whether what it lists
//! can be true, whether an import is under way in it, and, every ten minutes, whether what was read of it is what it
//! holds. Reading the store and telling what has changed is the follower's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tollhouse_stdx::Random;
use tollhouse_store::{BoxFuture, Changes, Event, Listing, Revision, Store, StoreError};
use tollhouse_telemetry::Metrics;

use super::import::{Import, Part as ImportPart, Whole};
use super::seen::{Difference, Seen};
use crate::feed::cluster_id::{self, ClusterId};
use crate::feed::folder_marks::FolderMarks;
use crate::feed::import_marker::ImportMarker;
use crate::feed::store_copy::{CopyKeeper, StoreCopy};
use crate::outages::{Outages, Part};

/// How often what was read is compared with the store: lost events are a fault of some versions of etcd, which
/// this bounds. By chance up to a fifth more, so that of many gateways not all read at once.
const AUDIT_INTERVAL: Duration = Duration::from_secs(540);

/// When a doubt is looked into again. An event that is on its way arrives by then.
const SECOND_LOOK: Duration = Duration::from_secs(10);

/// When marks of folders are tried to be put back again that could not be.
const MARKS_RETRY: Duration = Duration::from_secs(60);

/// Keys that are named of those that differ.
const KEYS_NAMED_MAX: usize = 5;

/// What there is to know of a store that is shared.
#[derive(Debug, Clone)]
pub struct SharedStore {
    /// The cluster that it is of.
    pub cluster: ClusterId,
    /// Where differences are counted.
    pub metrics: Arc<Metrics>,
    /// Copy of the objects on the disk, for starts without the store.
    pub copy: Option<StoreCopy>,
}

impl SharedStore {
    /// Returns the writer of the copy, if a copy is kept.
    pub(super) fn copy_keeper(&self) -> Option<CopyKeeper> {
        let copy = self.copy.clone()?;
        Some(CopyKeeper::new(copy, Arc::clone(&self.metrics)))
    }
}

/// Reading the store for an audit.
struct Audit {
    due: Instant,
    reading: Option<BoxFuture<'static, Result<Listing, StoreError>>>,
    /// Differences that may be events on their way.
    suspects: BTreeSet<Difference>,
}

/// The marks of folders, and what has to be done about them.
struct Marks {
    marks: FolderMarks,
    /// Whether all of them have been seen once. Marks that never existed are not created here.
    were_there: bool,
    /// When those that are missing are put back.
    due: Option<Instant>,
    putting: Option<BoxFuture<'static, Result<(), StoreError>>>,
}

/// A store that is at an earlier revision than it was.
struct Rewind {
    /// Newest revision before the rewind.
    from: Revision,
    /// The report of it.
    reason: String,
}

/// See the module.
pub(super) struct Vigil {
    store: Arc<dyn Store>,
    prefix: String,
    folder: String,
    shared: SharedStore,
    outages: Arc<Outages>,
    is_object: Box<dyn Fn(&str) -> bool + Send + Sync>,
    seen: Seen,
    import: Import,
    audit: Audit,
    /// Where it is the whole prefix that is followed.
    marks: Option<Marks>,
    /// Whether the last listing lacked most of what there was.
    doubted: bool,
    /// The newest revision that the store is known to have had.
    newest: Revision,
    /// That it has gone back, until it has come past where it was.
    rewind: Option<Rewind>,
    random: Random,
}

/// Treatment of a commit by the follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// To be put into service.
    Serve,
    /// To be left aside: everything is read anew once more has come.
    Hold,
    /// Everything is to be read anew now.
    ReadAnew,
}

/// What a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// To be put into service.
    Serve,
    /// Half of something: to be left aside, and followed from there.
    Hold,
    /// Not to be believed yet: to be asked for again after this time.
    AskAgain(Duration),
}

impl Vigil {
    /// Over what lies in this folder of a store; which keys are those of objects is given.
    pub(super) fn new(
        (store, outages): (Arc<dyn Store>, Arc<Outages>),
        shared: SharedStore,
        (prefix, folder): (&str, &str),
        is_object: Box<dyn Fn(&str) -> bool + Send + Sync>,
    ) -> Self {
        let audit = Audit { due: Instant::now(), reading: None, suspects: BTreeSet::new() };
        let mut vigil = Self {
            store,
            prefix: prefix.to_owned(),
            folder: folder.to_owned(),
            shared,
            outages,
            is_object,
            seen: Seen::default(),
            import: Import::new(ImportMarker::new(prefix)),
            audit,
            marks: (folder == format!("{prefix}/")).then(|| Marks::new(prefix)),
            doubted: false,
            newest: Revision::ZERO,
            rewind: None,
            random: Random::from_process_entropy(),
        };
        vigil.audit_later();
        vigil
    }

    /// Judges all there is; what is to be served is taken note of.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn examine(&mut self, listing: &Listing) -> Result<Judgement, StoreError> {
        // Asked after it was listed: a store is not emptied and filled again between the two.
        let there = cluster_id::find(self.store.as_ref(), &self.prefix).await?;
        if there.as_ref() != Some(&self.shared.cluster) {
            let there = there.map_or("none".to_owned(), |there| there.to_string());
            self.doubt(&format!(
                "the store is of cluster {there} now and was of {}: it was emptied or replaced. What is in \
                 service stays until the store is back",
                self.shared.cluster
            ));
            return Ok(Judgement::AskAgain(SECOND_LOOK));
        }
        let whole = self.import.read(listing);
        if whole == Whole::NotYet {
            return Ok(Judgement::Hold);
        }
        let listed = Seen::from_listing(listing, &*self.is_object);
        let (missing, all) = (self.seen.missing_in(&listed), self.seen.len());
        self.look_for_rewind(listing.revision, missing);
        let lacks_most = missing * 2 > all;
        if lacks_most && !std::mem::replace(&mut self.doubted, true) {
            self.doubt(&format!(
                "the store lists {missing} of {all} objects no more, and nobody was seen to delete them: it is \
                 asked once more before they go out of service"
            ));
            return Ok(Judgement::AskAgain(SECOND_LOOK));
        }
        self.doubted = false;
        self.seen = listed;
        if let Some(marks) = &mut self.marks {
            marks.examine(listing);
        }
        self.audit_later();
        match whole {
            Whole::GivenUp => self.doubt_import(),
            Whole::Yes | Whole::NotYet => match &self.rewind {
                Some(rewind) => self.doubt(&rewind.reason),
                None => self.outages.clear(Part::StoreContents),
            },
        }
        Ok(Judgement::Serve)
    }

    /// Takes note of a commit.
    pub(super) fn note(&mut self, changes: &Changes) -> Verdict {
        self.newest = self.newest.max(changes.revision);
        if self.rewind.as_ref().is_some_and(|rewind| rewind.from < changes.revision) {
            self.rewind = None;
            self.outages.clear(Part::StoreContents);
        }
        // Of those that wait too: what they delete is not missing from the next listing.
        self.seen.note(&changes.events, &*self.is_object);
        if let Some(marks) = &mut self.marks {
            marks.note(&changes.events);
        }
        match self.import.note(&changes.events) {
            ImportPart::None => Verdict::Serve,
            ImportPart::Held => Verdict::Hold,
            ImportPart::Last => Verdict::ReadAnew,
        }
    }

    /// Takes note of a revision that the store had before this process.
    pub(super) fn had(&mut self, revision: Revision) {
        self.newest = self.newest.max(revision);
    }

    /// A revision below one that was read: the store was put back to an older snapshot, or has lost commits that it had
    /// confirmed. Revisions that were forgotten are another thing: they are below the newest one, which rises.
    fn look_for_rewind(&mut self, now: Revision, missing: usize) {
        let before = std::mem::replace(&mut self.newest, now);
        // Of two that follow the store, the one of all objects tells it.
        if now >= before || self.marks.is_none() {
            return;
        }
        self.shared.metrics.process().store_rewinds.add(1);
        let reason = format!(
            "the store has gone back from revision {before} to {now}: it was put back to an older snapshot, or has lost \
             commits that it had confirmed. What it holds now is served; {missing} objects that were in service are \
             gone, and others may be older than they were. Look at the store, and repeat what was written since"
        );
        self.doubt(&reason);
        self.rewind = Some(Rewind { from: before, reason });
    }

    /// Whether what comes is left aside for now.
    pub(super) fn is_held(&self) -> bool {
        self.import.is_held()
    }

    /// Waits until everything has to be read anew without anything having come. Dropping the future loses
    /// nothing.
    pub(super) async fn alarm(&mut self) {
        loop {
            if let Some(reading) = &mut self.audit.reading {
                let listing = reading.await;
                self.audit.reading = None;
                if listing.is_ok_and(|listing| self.differs(&listing)) {
                    return;
                }
                continue;
            }
            let marks_due = match &mut self.marks {
                Some(marks) => marks.put_back(&self.store).await,
                None => None,
            };
            let given_up_at = self.import.given_up_at();
            let due =
                [given_up_at, marks_due].into_iter().flatten().fold(self.audit.due, Instant::min);
            sleep_until(due).await;
            if marks_due.is_some_and(|at| at <= Instant::now()) {
                continue;
            }
            if given_up_at.is_some_and(|at| at <= Instant::now()) {
                self.import.give_up();
                return;
            }
            if self.import.is_held() {
                // What is in service is older on purpose.
                self.audit_later();
                continue;
            }
            let (store, folder) = (Arc::clone(&self.store), self.folder.clone());
            self.audit.reading = Some(Box::pin(async move { store.list(&folder).await }));
        }
    }

    /// Whether what was read is not what is listed, nor about to be: differences that were there before.
    fn differs(&mut self, listing: &Listing) -> bool {
        let listed = Seen::from_listing(listing, &*self.is_object);
        let found = self.seen.differences(&listed, listing.revision);
        let suspects = std::mem::take(&mut self.audit.suspects);
        let certain: Vec<_> = found.intersection(&suspects).collect();
        if certain.is_empty() {
            if found.is_empty() {
                self.audit_later();
            } else {
                self.audit.due = Instant::now() + SECOND_LOOK;
                self.audit.suspects = found;
            }
            return false;
        }
        let differences = certain.len();
        let keys: Vec<_> = certain.iter().take(KEYS_NAMED_MAX).map(|it| &*it.key).collect();
        tracing::error!(
            differences,
            keys = keys.join(", "),
            "what is in service differs from what the store holds, though nothing was heard of it: it is read anew"
        );
        let count = u64::try_from(differences).unwrap_or(u64::MAX);
        self.shared.metrics.process().store_differences.add(count);
        self.audit_later();
        true
    }

    fn audit_later(&mut self) {
        let fifth_ms = u64::try_from(AUDIT_INTERVAL.as_millis() / 5).unwrap_or(u64::MAX);
        let more = Duration::from_millis(self.random.next_u64() % fifth_ms.max(1));
        self.audit.due = Instant::now() + AUDIT_INTERVAL + more;
        self.audit.suspects.clear();
    }

    fn doubt(&self, reason: &str) {
        self.outages.report(Part::StoreContents, reason);
    }

    fn doubt_import(&self) {
        self.doubt(
            "an import was broken off and not taken up again: what there is of it is in service; repeat the import",
        );
    }
}

impl Marks {
    fn new(prefix: &str) -> Self {
        let marks = FolderMarks::below(prefix);
        Self { marks, were_there: false, due: None, putting: None }
    }

    fn examine(&mut self, listing: &Listing) {
        if self.marks.are_in(listing) {
            self.were_there = true;
        } else if self.were_there {
            self.due = Some(Instant::now());
        }
    }

    fn note(&mut self, events: &[Event]) {
        if self.marks.lose(events) {
            self.due = Some(Instant::now());
        }
    }

    /// Puts back what is missing; when it is to be tried again. Dropping the future loses nothing.
    async fn put_back(&mut self, store: &Arc<dyn Store>) -> Option<Instant> {
        if self.putting.is_none() && self.due? <= Instant::now() {
            // What goes missing from now on is another time's.
            self.due = None;
            let (marks, store) = (self.marks.clone(), Arc::clone(store));
            self.putting = Some(Box::pin(async move { marks.put(store.as_ref()).await }));
        }
        if let Some(putting) = &mut self.putting {
            let put = putting.await;
            self.putting = None;
            match put {
                Ok(()) => tracing::warn!(
                    "keys that APISIX's nodes need in their folders had been removed, and are there again"
                ),
                Err(error) => {
                    tracing::warn!(%error, "keys that APISIX's nodes need in their folders cannot be put back");
                    self.due = Some(Instant::now() + MARKS_RETRY);
                }
            }
        }
        self.due
    }
}
