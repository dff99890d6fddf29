//! The trait that every backend implements. It is object safe, and its futures run on any executor.

use crate::entry::{Entry, Listing, Revision};
use crate::error::StoreError;
use crate::transaction::{Committed, Transaction};
use crate::watch::Watch;
use std::path::Path;
use std::pin::Pin;

/// A future on the heap that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keys and values under one rising revision, as etcd has them.
///
/// No method blocks the thread that polls it. A future that is dropped before it ends takes nothing
/// back: its commit may still happen.
pub trait Store: Send + Sync {
    /// The entry of a key, if there is one.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>>;

    /// All entries whose key starts with the prefix, as of one revision; an empty prefix lists all.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>>;

    /// Entries whose key starts with the prefix and is greater than `after`, in the order of their keys, at
    /// most so many. Pages are each as of their own revision: whoever needs one for all of them lists.
    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move {
            let mut listing = self.list(prefix).await?;
            listing.entries.retain(|entry| *entry.key > *after);
            listing.entries.truncate(entries_max);
            Ok(listing)
        })
    }

    /// Does the whole transaction, or nothing of it. What is answered is durable, seen by every later
    /// read, and on its way to the watchers.
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>>;

    /// Commits *after* this revision, beginning with those already made. Pass the revision of a
    /// [`Listing`] to see all that came after it.
    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>>;

    /// Writes a copy of the store, as of one revision, to a file that must not exist yet, while
    /// reads and commits go on. As `store.db` in an empty data directory, the copy opens as a store.
    fn backup<'a>(&'a self, file: &'a Path) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The revision of the newest commit.
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>>;
}
