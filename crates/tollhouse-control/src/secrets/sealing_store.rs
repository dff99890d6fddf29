//! Store wrapper that seals secrets on writing and opens them on reading. An [`EntrySealing`] defines
//! which values are secret.

use std::sync::Arc;
use std::time::Duration;

use tollhouse_store::{
    BoxFuture, Committed, Entry, Event, LeaseId, Limits, Listing, Operation, Revision, Store,
    StoreError, Transaction, Watch, WatchEvent, WatchSource,
};

/// Secrets of a kind of entries.
pub trait EntrySealing: Send + Sync {
    /// Returns the object at `key` with its secrets sealed; `None` if it has none.
    fn seal(&self, key: &str, object: &str) -> Option<String>;

    /// Returns the entry with its secrets in plain text. Secrets that no key opens are logged.
    fn open(&self, entry: Entry) -> Entry;

    /// Returns the keys of secrets that no key opens, and that these operations, not yet sealed,
    /// replace or delete.
    fn superseded(&self, _: &[Operation]) -> Vec<Box<str>> {
        Vec::new()
    }

    /// Forgets the sealed texts of these keys, because they are no longer stored.
    fn forget(&self, _: &[Box<str>]) {}
}

/// A store with transparent encryption of secrets. Clones share the store.
#[derive(Clone)]
pub struct SealingStore {
    store: Arc<dyn Store>,
    sealing: Arc<dyn EntrySealing>,
}

impl SealingStore {
    pub fn new(store: Arc<dyn Store>, sealing: Arc<dyn EntrySealing>) -> Self {
        Self { store, sealing }
    }

    fn opened(&self, entry: Entry) -> Entry {
        self.sealing.open(entry)
    }

    fn opened_listing(&self, mut listing: Listing) -> Listing {
        listing.entries = listing.entries.into_iter().map(|entry| self.opened(entry)).collect();
        listing
    }

    fn sealed(&self, operation: Operation) -> Operation {
        match operation {
            Operation::Put { key, value, lease } => {
                let object = std::str::from_utf8(&value).ok();
                let sealed = object.and_then(|object| self.sealing.seal(&key, object));
                Operation::Put { value: sealed.map_or(value, Into::into), key, lease }
            }
            operation @ (Operation::Delete { .. } | Operation::DeletePrefix { .. }) => operation,
        }
    }
}

impl Store for SealingStore {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async { Ok(self.store.get(key).await?.map(|entry| self.opened(entry))) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async { Ok(self.opened_listing(self.store.list(prefix).await?)) })
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move {
            Ok(self.opened_listing(self.store.list_page(prefix, after, entries_max).await?))
        })
    }

    fn commit(&self, mut transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        let superseded = self.sealing.superseded(&transaction.operations);
        let operations = transaction.operations.into_iter();
        transaction.operations = operations.map(|it| self.sealed(it)).collect();
        Box::pin(async move {
            let mut committed = self.store.commit(transaction).await?;
            let previous = committed.previous.into_iter();
            committed.previous = previous.map(|it| it.map(|entry| self.opened(entry))).collect();
            // After the previous entries, whose secrets are noted when no key opens them.
            self.sealing.forget(&superseded);
            Ok(committed)
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        let watch = self.store.watch(prefix, after);
        Watch::new(Box::new(DecryptingWatch { watch, sealing: Arc::clone(&self.sealing) }), after)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.store.revision()
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.store.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.revoke(lease)
    }
}

/// A watch that opens secrets.
struct DecryptingWatch {
    watch: Watch,
    sealing: Arc<dyn EntrySealing>,
}

impl DecryptingWatch {
    fn open(&self, event: WatchEvent) -> WatchEvent {
        let WatchEvent::Commit(mut changes) = event else { return event };
        let open = |event| match event {
            Event::Put(entry) => Event::Put(self.sealing.open(entry)),
            Event::Delete { key, revision } => {
                self.sealing.forget(std::slice::from_ref(&key));
                Event::Delete { key, revision }
            }
        };
        changes.events = changes.events.into_iter().map(open).collect();
        WatchEvent::Commit(changes)
    }
}

impl WatchSource for DecryptingWatch {
    fn next(&mut self) -> BoxFuture<'_, WatchEvent> {
        Box::pin(async {
            let event = self.watch.next().await;
            self.open(event)
        })
    }

    fn try_next(&mut self) -> Option<WatchEvent> {
        let event = self.watch.try_next()?;
        Some(self.open(event))
    }

    fn is_over(&self) -> bool {
        self.watch.is_over()
    }
}
