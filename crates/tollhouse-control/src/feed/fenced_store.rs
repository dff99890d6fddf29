//! Guard around a shared store: every commit requires that the store is still this cluster's, so
//! that nothing is written to a store that replaced it. Reads pass through unchecked.

use std::sync::Arc;
use std::time::Duration;

use tollhouse_store::{
    BoxFuture, Committed, Condition, Entry, LeaseId, Limits, Listing, Revision, Store, StoreError,
    Transaction, Watch,
};

/// Error text of a commit that met another store.
const REASON: &str =
    "it is not the store that this gateway serves from: it was emptied or replaced";

const REMEDY: &str = "bring the store back as it was; nothing is written to this one";

/// Store wrapper that refuses commits if the wrapped store lacks the entry that marks it as this
/// cluster's store, because it was then emptied or replaced.
pub struct FencedStore {
    inner: Arc<dyn Store>,
    /// Path or address of the store for error messages.
    place: Box<str>,
    /// Key of the marker entry, which only a store of this cluster contains.
    key: Box<str>,
}

impl FencedStore {
    /// Wraps `inner`. A commit succeeds only if `inner` has an entry with this `key`.
    pub fn new(
        inner: Arc<dyn Store>,
        place: impl Into<Box<str>>,
        key: impl Into<Box<str>>,
    ) -> Self {
        Self { inner, place: place.into(), key: key.into() }
    }
}

impl Store for FencedStore {
    fn limits(&self) -> Limits {
        let limits = self.inner.limits();
        // The guard uses one operation.
        Limits { operations_max: limits.operations_max - 1, ..limits }
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.inner.get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.inner.list(prefix)
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.inner.list_page(prefix, after, entries_max)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        let fence = Condition::Exists { key: self.key.clone() };
        let mut transaction = transaction;
        // Inserted first, because a conflict names the first condition that fails.
        transaction.conditions.insert(0, fence);
        Box::pin(async move {
            match self.inner.commit(transaction).await {
                Err(StoreError::Conflict { key }) if key == self.key => Err(StoreError::Declined {
                    place: self.place.clone(),
                    reason: REASON.to_owned(),
                    remedy: REMEDY,
                }),
                committed => committed,
            }
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        self.inner.watch(prefix, after)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.inner.revision()
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.inner.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.revoke(lease)
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_store::Location;

    use super::*;

    #[tokio::test]
    async fn nothing_is_written_to_a_store_that_came_in_the_place_of_ours() {
        let inner = tollhouse_store::open(&Location::Memory).expect("memory");
        let store = FencedStore::new(Arc::clone(&inner), "etcd at a", "/apisix/fence");
        inner.commit(Transaction::new().put("/apisix/fence", "{}")).await.expect("memory");
        store.commit(Transaction::new().put("/a", "1")).await.expect("it is ours");
        let conflict = store.commit(Transaction::new().put("/a", "2").when_absent("/a")).await;
        assert!(matches!(conflict, Err(StoreError::Conflict { key }) if *key == *"/a"));
        inner.commit(Transaction::new().delete("/apisix/fence")).await.expect("memory");
        let refused = store.commit(Transaction::new().put("/a", "3").when_absent("/a")).await;
        let refused = refused.expect_err("it is not ours any more").to_string();
        assert!(
            refused.contains("etcd at a") && refused.contains("emptied or replaced"),
            "{refused}"
        );
        assert_eq!(inner.get("/a").await.expect("memory").expect("it is there").value, "1");
    }
}
