//! The trait that every backend implements. It is object safe, and its futures run on any executor.

use crate::entry::{Entry, Listing, Revision};
use crate::error::StoreError;
use crate::future::BoxFuture;
use crate::lease::LeaseId;
use crate::limits::Limits;
use crate::transaction::{Committed, Transaction};
use crate::watch::Watch;
use std::time::Duration;

/// Keys and values under one rising revision, as etcd has them.
///
/// No method blocks the thread that polls it. A future that is dropped before it ends takes nothing
/// back: its commit may still happen. What an error says about what happened is its
/// [`kind`](StoreError::kind).
pub trait Store: Send + Sync {
    /// What one transaction may hold.
    fn limits(&self) -> Limits;

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
    ) -> BoxFuture<'a, Result<Listing, StoreError>>;

    /// Does the whole transaction, or nothing of it. What is answered is durable, seen by every later
    /// read, and on its way to the watchers.
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>>;

    /// What commits *after* this revision do under a prefix, beginning with those already made. Pass the
    /// revision of a [`Listing`] to see all that came after it.
    fn watch(&self, prefix: &str, after: Revision) -> Watch;

    /// The revision of the newest commit.
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>>;

    /// A lease that ends after this time, unless it is renewed.
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>>;

    /// Renews a lease: it lasts for its whole time from now, and so does what was put under it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] when it has ended already: its holder must stop doing what it was for.
    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Ends a lease, and what was put under it with it. One that has ended already is no error.
    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>>;
}
