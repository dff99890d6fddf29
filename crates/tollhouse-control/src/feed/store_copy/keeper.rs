//! Keeps the copy of a shared store up to date. A change is in the journal before it serves, and so before the call that
//! made it is answered: a gateway that is killed and starts while the store is away serves it. The journal is flushed
//! within a second; only a loss of power can cost what it had in that time.
//!
//! A copy as a whole is written at a start, whenever the store is read anew, and once the journal has as many bytes as
//! the copy, out of both: each byte of a change is written a bounded number of times.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollhouse_store::{Event, Listing, Revision};
use tollhouse_telemetry::Metrics;

use super::journal::{Base, Journal, Record};
use super::{Copied, StoreCopy};

/// Bytes of a journal up to which it is not folded into the copy, however small that is.
const JOURNAL_BYTES_MIN: u64 = 1024 * 1024;

/// How many times the bytes after which they are folded journals may have, where folding fails.
const JOURNALS_MAX: u64 = 4;

/// Longest time until what was written to the journal is flushed.
const FLUSH_WAIT: Duration = Duration::from_secs(1);

/// Wait before a copy is made anew that could not be written.
const RETRY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub struct CopyKeeper {
    copy: StoreCopy,
    metrics: Arc<Metrics>,
    /// `None` before the first copy, and after a write to the disk has failed: the stored copy then stays as it is.
    journal: Option<Journal>,
    /// The number of the newest journal.
    number: u64,
    /// Bytes of the journals that go on from the copy on the disk, without the newest.
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
    /// Gives its bytes.
    task: JoinHandle<io::Result<u64>>,
}

impl CopyKeeper {
    /// Of a copy, about which nothing has been done yet.
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

    /// The newest revision that a former process has kept.
    pub fn newest(&self) -> Option<Revision> {
        self.copy.newest()
    }

    /// Begins to write a copy of all there is.
    pub async fn replace(&mut self, listing: &Listing) {
        self.finish_writing().await;
        self.retry_at = None;
        if self.number == 0 {
            self.number = self.copy.last_number();
        }
        let entries = listing.entries.iter().filter(|entry| self.copy.is_copied(&entry.key));
        // What is no text is no object either.
        let entries = entries.filter_map(|entry| {
            Some((entry.key.to_string(), std::str::from_utf8(&entry.value).ok()?.to_owned()))
        });
        let entries: BTreeMap<String, String> = entries.collect();
        let copied = Copied { entries, revision: listing.revision.0, written_at: now() };
        if self.begin_journal(Base::Copy) {
            self.write(Base::Copy, move |_, _| Ok(copied));
        }
    }

    /// Takes note of changes up to a revision that are about to serve.
    pub async fn note(&mut self, events: &[Event], revision: Revision) {
        // They go on from a copy that is on the disk.
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

    /// Waits until a copy that could not be written is to be made anew. Dropping the future loses nothing.
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

    /// Has a copy written on another thread, from which the newest journal goes on.
    fn write(
        &mut self,
        base: Base,
        make: impl FnOnce(&StoreCopy, u64) -> io::Result<Copied> + Send + 'static,
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

    /// Waits for the end of a copy that is being written.
    pub(super) async fn finish_writing(&mut self) {
        let Some(Writing { base, task }) = self.writing.take() else { return };
        match task.await.map_err(io::Error::other).flatten() {
            Ok(bytes) => (self.copy_bytes, self.older_bytes) = (bytes, 0),
            // The former copy and all journals from it on are there.
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
            // Its failure is seen at the next write at the latest.
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
    /// The highest number of a journal that there is, or that a copy names.
    fn last_number(&self) -> u64 {
        let named = self.header().map_or(0, |header| header.journal);
        self.journals().max().unwrap_or(0).max(named)
    }

    fn remove_journals_before(&self, number: u64) {
        for old in self.journals().filter(|old| *old < number) {
            // One that stays is not read any more.
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

/// The value from now on; none where the key is gone, or holds no text.
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
