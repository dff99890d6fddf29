//! The store in one SQLite file in the data directory.
//!
//! A single thread ([`writer`]) does all writes and commits queued ones together. Reads run on
//! separate threads ([`reader`]) and see the newest commit. [`file`] opens, checks and locks the
//! file; [`table`] defines its content; [`backup`] writes copies; [`outside`] reads it while
//! another process has it open.

mod backup;
mod error;
mod file;
mod outside;
mod queue;
mod reader;
mod reserve;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use outside::Progress;
pub(super) use outside::{copy, read, read_alone};

use super::history::History;
use crate::entry::{Entry, Listing, Revision};
use crate::error::StoreError;
use crate::future::BoxFuture;
use crate::lease::LeaseId;
use crate::limits::Limits;
use crate::options::Options;
use crate::store::Store;
use crate::transaction::{Committed, Transaction};
use crate::watch::Watch;
use file::{DirectoryLock, StoreFile};
use queue::WriterHandle;
use reader::Readers;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A store in a file. The fields are dropped in order: the writer closes the file last, which folds
/// the log into it; the lock is released at the end.
pub(super) struct SqliteStore {
    history: Arc<History>,
    readers: Readers,
    writer: WriterHandle,
    _lock: DirectoryLock,
}

impl SqliteStore {
    /// Opens or creates the store of this directory.
    pub(super) fn open(directory: &Path, options: &Options) -> Result<Self, StoreError> {
        let lock = DirectoryLock::take(directory)?;
        let path = directory.join(file::STORE_FILE);
        let file = StoreFile::open(&path)?;
        #[cfg(test)]
        file::set_test_bounds(&file.connection, options).expect("the bounds are valid");
        let history = Arc::new(History::new(file.revision, options.history));
        let readers = Readers::start(&path)?;
        let writer = WriterHandle::start(file, path, Arc::clone(&history), options)?;
        Ok(Self { history, readers, writer, _lock: lock })
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.history.close();
    }
}

impl Store for SqliteStore {
    fn limits(&self) -> Limits {
        Limits::EMBEDDED
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        let key: Box<str> = key.into();
        Box::pin(self.readers.get(move |connection| table::get(connection, &key)))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        let prefix: Box<str> = prefix.into();
        Box::pin(async move {
            let list = move |connection: &mut _| table::list(connection, &prefix);
            let listing = self.readers.list(list).await?;
            // Readers see a commit in the file slightly before it is in the history. A watch from
            // this revision must find it there.
            self.history.reached(listing.revision).await?;
            Ok(listing)
        })
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        let (prefix, after): (Box<str>, Box<str>) = (prefix.into(), after.into());
        let page = move |connection: &mut _| table::page(connection, &prefix, &after, entries_max);
        Box::pin(async move {
            let page = self.readers.list(page).await?;
            self.history.reached(page.revision).await?;
            Ok(page)
        })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(self.writer.commit(transaction))
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        self.history.watch(prefix, after)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        Box::pin(async move { Ok(self.history.newest()) })
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        Box::pin(self.writer.grant(ttl))
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.writer.keep_alive(lease))
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.writer.revoke(lease))
    }
}
