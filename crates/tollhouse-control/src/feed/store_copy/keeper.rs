//! Writer of the local copy of a shared store. A change is written to the journal before it goes
//! into service, and so before the call that made it is answered. A gateway that is killed and
//! restarts during an outage of the store therefore still serves it. The journal is flushed within
//! one second; only a power failure can lose the changes of that second.
//!
//! A full copy is written at the start, after each full reading of the store, and once the journal
//! is as large as the copy. In the last case copy and journal are merged. So each byte of a change
//! is written a bounded number of times.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollhouse_store::{Event, Listing, Revision};
use tollhouse_telemetry::Metrics;

use super::journal::{Base, Journal, Record};
use super::{CopyContents, StoreCopy};

/// Journals below this size in bytes are not merged into the copy, however small the copy is.
const JOURNAL_BYTES_MIN: u64 = 1024 * 1024;

/// Limit of unmerged journals, as a multiple of the merge threshold. It applies if merging fails
/// repeatedly.
const JOURNALS_MAX: u64 = 4;

/// Maximum delay before journal writes are flushed to disk.
const FLUSH_WAIT: Duration = Duration::from_secs(1);

/// Delay before a failed copy is retried.
const RETRY: Duration = Duration::from_secs(60);

/// State of the copy and its journals.
#[derive(Debug)]
pub struct CopyKeeper {
    copy: StoreCopy,
    metrics: Arc<Metrics>,
    /// `None` before the first copy, and after a write to the disk has failed: the stored copy then
    /// stays as it is.
    journal: Option<Journal>,
    /// Number of the newest journal.
    number: u64,
    /// Size in bytes of the unmerged journals, without the newest.
    older_bytes: u64,
    copy_bytes: u64,
    writing: Option<Writing>,
    flush: Option<JoinHandle<()>>,
    retry_at: Option<Instant>,
}

/// A copy that is being written.
#[derive(Debug)]
struct Writing {
    base: Base,
    /// Returns the size of the copy in bytes.
    task: JoinHandle<io::Result<u64>>,
}

impl CopyKeeper {
    /// Starts idle; the first copy is written by `replace`.
    pub fn new(copy: StoreCopy, metrics: Arc<Metrics>) -> Self {
        Self {
            copy,
            metrics,
            journal: None,
            number: 0,
            older_bytes: 0,
            copy_bytes: 0,
            writing: None,
            flush: None,
            retry_at: None,
        }
    }

    /// Returns the newest revision that an earlier process has saved; `None` without a copy.
    pub fn newest(&self) -> Option<Revision> {
        self.copy.newest()
    }

    /// Starts writing a full copy of a listing.
    pub async fn replace(&mut self, listing: &Listing) {
        self.finish_writing().await;
        self.retry_at = None;
        if self.number == 0 {
            self.number = self.copy.last_number();
        }
        let entries = listing.entries.iter().filter(|entry| self.copy.is_copied(&entry.key));
        // A value that is not UTF-8 is not an object.
        let entries = entries.filter_map(|entry| {
            Some((entry.key.to_string(), std::str::from_utf8(&entry.value).ok()?.to_owned()))
        });
        let entries: BTreeMap<String, String> = entries.collect();
        let copied = CopyContents { entries, revision: listing.revision.0, written_at: now() };
        if self.begin_journal(Base::Copy) {
            self.write(Base::Copy, move |_, _| Ok(copied));
        }
    }

    /// Appends changes that are about to go into service.
    pub async fn note(&mut self, events: &[Event], revision: Revision) {
        // The journal continues a copy, so that the copy must be on disk first.
        if self.writing.as_ref().is_some_and(|it| it.base == Base::Copy || it.task.is_finished()) {
            self.finish_writing().await;
        }
        let changes: Vec<(String, Option<String>)> = events
            .iter()
            .filter(|event| self.copy.is_copied(event.key()))
            .map(|event| (event.key().to_owned(), text_of(event)))
            .collect();
        if changes.is_empty() {
            return;
        }
        let Some(mut journal) = self.journal.take() else { return };
        let record = Record { revision: revision.0, at: now(), changes };
        let appended = tokio::task::spawn_blocking(move || {
            let appended = journal.append(&record);
            appended.map(|()| (journal, record.at))
        });
        match appended.await.map_err(io::Error::other).flatten() {
            Ok((journal, at)) => {
                self.journal = Some(journal);
                note_written(&self.metrics, at);
                self.flush_soon();
                self.fold_if_large().await;
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Waits until a failed copy is due for a retry. Cancel safe.
    pub async fn retry(&self) {
        match self.retry_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn begin_journal(&mut self, base: Base) -> bool {
        self.number += 1;
        match Journal::begin(&self.copy, self.number, base) {
            Ok(journal) => self.journal = Some(journal),
            Err(error) => self.fail(&error),
        }
        self.journal.is_some()
    }

    async fn fold_if_large(&mut self) {
        let bytes = self.journal.as_ref().map_or(0, |journal| journal.bytes);
        let bytes_max = JOURNAL_BYTES_MIN.max(self.copy_bytes);
        if bytes <= bytes_max {
            return;
        }
        self.finish_writing().await;
        self.older_bytes += bytes;
        if self.older_bytes > JOURNALS_MAX * bytes_max {
            return self.fail(&io::Error::other("its journals have grown too large"));
        }
        if self.begin_journal(Base::Journal) {
            self.write(Base::Journal, |copy, number| {
                let copied = copy.read_before(number).map_err(io::Error::other)?;
                copied.ok_or_else(|| io::Error::other("it was removed"))
            });
        }
    }

    /// Starts writing a copy on a blocking thread. The newest journal continues it.
    fn write(
        &mut self,
        base: Base,
        make: impl FnOnce(&StoreCopy, u64) -> io::Result<CopyContents> + Send + 'static,
    ) {
        let (copy, number, metrics) = (self.copy.clone(), self.number, Arc::clone(&self.metrics));
        let task = tokio::task::spawn_blocking(move || {
            let copied = make(&copy, number)?;
            let bytes = copy.write(&copied, number)?;
            copy.remove_journals_before(number);
            if base == Base::Copy {
                note_written(&metrics, copied.written_at);
            }
            Ok(bytes)
        });
        self.writing = Some(Writing { base, task });
    }

    /// Waits for the copy that is being written.
    pub(super) async fn finish_writing(&mut self) {
        let Some(Writing { base, task }) = self.writing.take() else { return };
        match task.await.map_err(io::Error::other).flatten() {
            Ok(bytes) => (self.copy_bytes, self.older_bytes) = (bytes, 0),
            // The previous copy and all its journals are still intact.
            Err(error) if base == Base::Journal => {
                tracing::warn!(%error, "the journal of the store's copy cannot be folded into it");
            }
            Err(error) => self.fail(&error),
        }
    }

    fn flush_soon(&mut self) {
        let is_under_way = self.flush.as_ref().is_some_and(|flush| !flush.is_finished());
        let Some(journal) = self.journal.as_ref().filter(|_| !is_under_way) else { return };
        let file = journal.file();
        self.flush = Some(tokio::spawn(async move {
            tokio::time::sleep(FLUSH_WAIT).await;
            // A failure shows again at the next write.
            let _ = tokio::task::spawn_blocking(move || file.sync_data()).await;
        }));
    }

    fn fail(&mut self, error: &io::Error) {
        self.journal = None;
        self.retry_at = Some(Instant::now() + RETRY);
        let path = self.copy.path.display();
        tracing::warn!(
            %error,
            "{path} cannot be kept up to date: a gateway that starts while the store is away serves what was copied \
             before"
        );
    }
}

impl StoreCopy {
    /// Returns the highest journal number among the files and the copy's header.
    fn last_number(&self) -> u64 {
        let named = self.header().map_or(0, |header| header.journal);
        self.journals().max().unwrap_or(0).max(named)
    }

    fn remove_journals_before(&self, number: u64) {
        for old in self.journals().filter(|old| *old < number) {
            // A journal that cannot be removed is never read again.
            let _ = std::fs::remove_file(self.journal_path(old));
        }
    }

    fn journals(&self) -> impl Iterator<Item = u64> {
        let folder = self.path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
        let stem = self.path.file_name().map(|name| format!("{}.journal-", name.display()));
        let names = folder.into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter_map(move |name| name.to_str()?.strip_prefix(stem.as_deref()?)?.parse().ok())
    }
}

/// Returns the new value of the key; `None` if the key was deleted or the value is not UTF-8.
fn text_of(event: &Event) -> Option<String> {
    match event {
        Event::Put(entry) => std::str::from_utf8(&entry.value).ok().map(str::to_owned),
        Event::Delete { .. } => None,
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn note_written(metrics: &Metrics, at: u64) {
    metrics.process().store_copy_written.set(i64::try_from(at).unwrap_or(i64::MAX));
}
