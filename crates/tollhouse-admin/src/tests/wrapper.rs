//! Wrappers around a store that add behaviour.

use std::time::Duration;

use tollhouse_store::{
    BoxFuture, Committed, Entry, LeaseId, Limits, Listing, Revision, StoreError, Transaction, Watch,
};

use super::*;

/// Additional behaviour of a wrapped store.
pub(super) trait Wrapper: Send + Sync {
    /// Returns the wrapped store.
    fn inner(&self) -> &dyn Store;

    /// Called before an entry is read.
    fn before_get(&self) {}

    /// Called before entries are listed.
    fn before_list(&self) {}

    /// Returns the limits of a transaction.
    fn limits(&self) -> Limits {
        self.inner().limits()
    }

    /// Opens a watch.
    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        self.inner().watch(prefix, after)
    }

    /// Called before a transaction is committed.
    fn before_commit(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Store with the behaviour of a wrapper.
pub(super) struct Wrapped<W>(pub(super) Arc<W>);

impl<W: Wrapper> Store for Wrapped<W> {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.0.before_get();
        self.0.inner().get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.0.before_list();
        self.0.inner().list(prefix)
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.0.before_list();
        self.0.inner().list_page(prefix, after, entries_max)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(async move {
            self.0.before_commit().await;
            self.0.inner().commit(transaction).await
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        self.0.watch(prefix, after)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.0.inner().revision()
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.0.inner().grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.inner().keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.inner().revoke(lease)
    }
}
