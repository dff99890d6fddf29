//! Safety checks for a store that others write too. They detect a store of another cluster, an
//! implausible listing, and a running import. About every ten minutes an audit compares the objects
//! that were read with the store. The follower reads the store and computes changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tollhouse_stdx::Random;
use tollhouse_store::{BoxFuture, Changes, Event, Listing, Revision, Store, StoreError};
use tollhouse_telemetry::Metrics;

use super::import::{Import, Part as ImportPart, Whole};
use super::seen::{Difference, KeyRevisions};
use crate::feed::cluster_id::{self, ClusterId};
use crate::feed::folder_marks::FolderMarks;
use crate::feed::import_marker::ImportMarker;
use crate::feed::store_copy::{CopyKeeper, StoreCopy};
use crate::outages::{Outages, Part};

/// Interval between audits, plus up to a fifth at random, so that many gateways do not read at
/// once. Audits bound the effect of etcd versions that lose events.
const AUDIT_INTERVAL: Duration = Duration::from_secs(540);

/// Wait before a doubtful result is checked again, so that events in flight can arrive.
const SECOND_LOOK: Duration = Duration::from_secs(10);

/// Wait before a failed restoration of folder markers is retried.
const MARKS_RETRY: Duration = Duration::from_secs(60);

/// Limit of differing keys that a message names.
const KEYS_NAMED_MAX: usize = 5;

/// Facts about a store that other nodes write too.
#[derive(Debug, Clone)]
pub struct SharedStore {
    pub cluster: ClusterId,
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

/// State of the periodic audit: a full reading that is compared with the objects in service.
struct Audit {
    due: Instant,
    reading: Option<BoxFuture<'static, Result<Listing, StoreError>>>,
    /// Differences found once; they may be events in flight.
    suspects: BTreeSet<Difference>,
}

/// Folder markers, and their pending restoration.
struct Marks {
    marks: FolderMarks,
    /// Whether all marks have been seen once. Marks that never existed are not created here.
    were_there: bool,
    /// Time of the next restoration; `None` if no marker is missing.
    due: Option<Instant>,
    putting: Option<BoxFuture<'static, Result<(), StoreError>>>,
}

/// Rewind of a store: its revision is lower than an earlier one.
struct Rewind {
    /// Newest revision known before the store was rewound.
    from: Revision,
    reason: String,
}

/// Keys of a store that are followed.
pub(super) struct FollowedKeys<'a> {
    pub(super) prefix: &'a str,
    pub(super) folder: &'a str,
    /// Accepts the keys of objects.
    pub(super) is_object: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

/// State of the checks for one followed folder.
pub(super) struct Vigil {
    store: Arc<dyn Store>,
    prefix: String,
    folder: String,
    shared: SharedStore,
    outages: Arc<Outages>,
    is_object: Box<dyn Fn(&str) -> bool + Send + Sync>,
    seen: KeyRevisions,
    import: Import,
    audit: Audit,
    /// `Some` only if the whole prefix is followed.
    marks: Option<Marks>,
    /// Whether the last listing lacked most objects.
    doubted: bool,
    /// Highest revision that the store is known to have had.
    newest: Revision,
    /// Rewind of the store, until the store has passed its earlier revision.
    rewind: Option<Rewind>,
    random: Random,
}

/// Treatment of a commit by the follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The listing is complete and can be put into service.
    Serve,
    /// Hold it back; a full reading follows once the import is complete.
    Hold,
    /// All objects must be read again now.
    ReadAnew,
}

/// Treatment of a listing by the follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The changes can be put into service.
    Serve,
    /// Hold it back because of an incomplete import, and watch from there.
    Hold,
    /// Implausible; list again after this time.
    AskAgain(Duration),
}

impl Vigil {
    /// Creates the checks for one folder of a store.
    pub(super) fn new(
        store: Arc<dyn Store>,
        outages: Arc<Outages>,
        shared: SharedStore,
        keys: FollowedKeys<'_>,
    ) -> Self {
        let FollowedKeys { prefix, folder, is_object } = keys;
        let audit = Audit { due: Instant::now(), reading: None, suspects: BTreeSet::new() };
        let mut vigil = Self {
            store,
            prefix: prefix.to_owned(),
            folder: folder.to_owned(),
            shared,
            outages,
            is_object,
            seen: KeyRevisions::default(),
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

    /// Judges a full listing. A listing to serve is recorded for the next audit.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) async fn examine(&mut self, listing: &Listing) -> Result<Judgement, StoreError> {
        // Checked after listing, because a store is not emptied and refilled between the two reads.
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
        let listed = KeyRevisions::from_listing(listing, &*self.is_object);
        let (missing, all) = (self.seen.missing_in(&listed), self.seen.len());
        self.look_for_rewind(listing.revision, missing);
        let lacks_most = missing * 2 > all;
        if lacks_most && !std::mem::replace(&mut self.doubted, true) {
            self.doubt(&format!(
                "the store no longer lists {missing} of {all} objects, though no deletion was seen: it is \
                 read once more before they go out of service"
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

    /// Checks a commit against what is known of the store, and records it.
    pub(super) fn note(&mut self, changes: &Changes) -> Verdict {
        self.newest = self.newest.max(changes.revision);
        if self.rewind.as_ref().is_some_and(|rewind| rewind.from < changes.revision) {
            self.rewind = None;
            self.outages.clear(Part::StoreContents);
        }
        // Records held commits too, so that their deletions do not count as missing in the next
        // listing.
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

    /// Records a revision that the store had before this process started.
    pub(super) fn had(&mut self, revision: Revision) {
        self.newest = self.newest.max(revision);
    }

    /// Reports a revision below an earlier one: the store was restored from an older snapshot, or
    /// lost confirmed commits. Compaction does not trigger this, because it leaves the newest
    /// revision unchanged.
    fn look_for_rewind(&mut self, now: Revision, missing: usize) {
        let before = std::mem::replace(&mut self.newest, now);
        // Two followers share the store; only the one of all objects reports.
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

    /// Whether commits are currently held back.
    pub(super) fn is_held(&self) -> bool {
        self.import.is_held()
    }

    /// Waits until a full reading is needed for a reason other than an event, such as an audit.
    /// Cancel safe.
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
                // During an import the configuration in service is deliberately older.
                self.audit_later();
                continue;
            }
            let (store, folder) = (Arc::clone(&self.store), self.folder.clone());
            self.audit.reading = Some(Box::pin(async move { store.list(&folder).await }));
        }
    }

    /// Whether the listing has differences that the previous audit found too, so that they are not
    /// events in flight.
    fn differs(&mut self, listing: &Listing) -> bool {
        let listed = KeyRevisions::from_listing(listing, &*self.is_object);
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
            "the configuration in service differs from the store, though no change was reported: the store is read again"
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
            "an import was interrupted and not resumed: its incomplete result is in service; repeat the import",
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

    /// Restores missing markers, and returns the time of a retry. Cancel safe.
    async fn put_back(&mut self, store: &Arc<dyn Store>) -> Option<Instant> {
        if self.putting.is_none() && self.due? <= Instant::now() {
            // Markers that are deleted from now on set it again.
            self.due = None;
            let (marks, store) = (self.marks.clone(), Arc::clone(store));
            self.putting = Some(Box::pin(async move { marks.put(store.as_ref()).await }));
        }
        if let Some(putting) = &mut self.putting {
            let put = putting.await;
            self.putting = None;
            match put {
                Ok(()) => tracing::warn!(
                    "folder markers that APISIX's nodes need had been removed, and were put back"
                ),
                Err(error) => {
                    tracing::warn!(%error, "folder markers that APISIX's nodes need cannot be put back");
                    self.due = Some(Instant::now() + MARKS_RETRY);
                }
            }
        }
        self.due
    }
}
