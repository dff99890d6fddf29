//! The trait of every backend. It is object safe, and its futures run on any executor.

use crate::entry::{Entry, Listing, Revision};
use crate::error::StoreError;
use crate::future::BoxFuture;
use crate::lease::LeaseId;
use crate::limits::Limits;
use crate::transaction::{Committed, Transaction};
use crate::watch::Watch;
use std::time::Duration;

/// Keys and values under one rising revision, as in etcd.
///
/// No method blocks the polling thread. Dropping a future undoes nothing: its commit may still
/// happen. The [`kind`](StoreError::kind) of an error says whether the change may have been made.
pub trait Store: Send + Sync {
    fn limits(&self) -> Limits;

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>>;

    /// Lists all entries with the prefix at one revision; an empty prefix lists everything.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>>;

    /// Lists at most `entries_max` entries with the prefix whose keys are greater than `after`, in
    /// key order. Each page has a separate revision; callers that need a single one use `list`.
    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>>;

    /// Executes the whole transaction, or no part if it fails. A successful result is durable,
    /// visible to every later read, and on its way to the watchers.
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>>;

    /// Watches the commits *after* this revision under a prefix, including those already made. Pass
    /// the revision of a [`Listing`] to see everything that came after it.
    fn watch(&self, prefix: &str, after: Revision) -> Watch;

    /// Returns the revision of the newest commit.
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>>;

    /// Creates a lease that ends after `ttl` unless renewed.
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>>;

    /// Renews a lease and the entries under it for its full duration from now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if it has already ended; the holder must then stop its work.
    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Ends a lease and removes the entries under it. Succeeds if the lease has already ended.
    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>>;
}
