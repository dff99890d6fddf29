//! The store in one SQLite file of the data directory.
//!
//! All writes go through one thread ([`writer`]), which commits what is queued together; reads have
//! threads of their own ([`reader`]) and see the newest commit. How the file is opened, judged and
//! locked stands in [`file`]; what is in it in [`table`]; copies of it are made in [`backup`]; [`outside`]
//! looks at it while another process has it open.

mod backup;
mod error;
mod file;
mod outside;
mod reader;
mod reserve;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub(super) use backup::export;
pub use outside::Progress;
pub(super) use outside::{copy, read};

use super::Options;
use crate::entry::{Entry, Listing, Revision};
use crate::error::StoreError;
use crate::store::{BoxFuture, Store};
use crate::transaction::{Committed, Transaction};
use crate::watch::{History, Watch};
use file::{DirectoryLock, StoreFile};
use reader::Readers;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;
use writer::WriterHandle;

/// A store in a file. Dropped in the order of the fields: the writer is the last to close the file,
/// which folds the log into it; the lock goes when all is done.
pub(super) struct SqliteStore {
    history: Arc<History>,
    readers: Readers,
    writer: WriterHandle,
    /// One backup at a time: each has a thread and a connection for as long as it takes.
    backup: Mutex<()>,
    path: PathBuf,
    _lock: DirectoryLock,
}

impl SqliteStore {
    /// Opens the store of this directory, or makes one.
    pub(super) fn open(directory: &Path, options: &Options) -> Result<Self, StoreError> {
        let lock = DirectoryLock::take(directory)?;
        let path = directory.join(file::STORE_FILE);
        let StoreFile { connection, revision } = StoreFile::open(&path)?;
        #[cfg(test)]
        file::set_test_bounds(&connection, options).expect("the bounds are valid");
        let history = Arc::new(History::new(revision, options.history));
        let readers = Readers::start(&path)?;
        let writer = WriterHandle::start(connection, path.clone(), Arc::clone(&history), options)?;
        Ok(Self { history, readers, writer, backup: Mutex::new(()), path, _lock: lock })
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.history.close();
    }
}

impl Store for SqliteStore {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        let key: Box<str> = key.into();
        Box::pin(self.readers.get(move |connection| table::get(connection, &key)))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        let prefix: Box<str> = prefix.into();
        Box::pin(async move {
            let list = move |connection: &mut _| table::list(connection, &prefix);
            let listing = self.readers.list(list).await?;
            // The file shows a commit before the history does; who watches from here must find it.
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

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        Box::pin(async move { self.history.watch(after) })
    }

    fn backup<'a>(&'a self, file: &'a Path) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let _one_at_a_time = self.backup.lock().await;
            backup::copy(self.path.clone(), file.to_owned()).await
        })
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        Box::pin(async move { Ok(self.history.newest()) })
    }
}
