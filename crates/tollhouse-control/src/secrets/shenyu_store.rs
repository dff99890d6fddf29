//! Store wrapper for ShenYu's objects: seals secrets on writing and opens them on reading.
//! `tollhouse-shenyu` defines which fields are secret. `sealed_store.rs` re-encrypts existing
//! values at the start.

use std::sync::Arc;
use std::time::Duration;

use tollhouse_model::encryption::{Form, Keyring};
use tollhouse_shenyu::KEY_PREFIX;
use tollhouse_shenyu::sealing;
use tollhouse_store::{
    BoxFuture, Committed, Entry, Event, LeaseId, Limits, Listing, Operation, Revision, Store,
    StoreError, Transaction, Watch, WatchEvent, WatchSource,
};

/// A store with transparent encryption of secrets. Clones share the store.
#[derive(Clone)]
pub struct ShenyuStore {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
}

/// Returns the keyring for ShenYu's objects. APISIX nodes never read them, so that the marked form,
/// which identifies sealed values reliably, is always used.
fn for_shenyu(keyring: &Keyring) -> Keyring {
    keyring.clone().with_form(Form::Marked)
}

impl ShenyuStore {
    pub fn new(store: Arc<dyn Store>, keyring: &Keyring) -> Self {
        Self { store, keyring: Arc::new(for_shenyu(keyring)) }
    }

    fn opened(&self, entry: Entry) -> Entry {
        open_entry(entry, &self.keyring)
    }

    fn opened_listing(&self, mut listing: Listing) -> Listing {
        listing.entries = listing.entries.into_iter().map(|entry| self.opened(entry)).collect();
        listing
    }
}

/// Returns the entry with its secrets in plain text. Secrets that no key opens are logged.
pub fn open_entry(mut entry: Entry, keyring: &Keyring) -> Entry {
    let Ok(object) = std::str::from_utf8(&entry.value) else { return entry };
    let opening = sealing::open(&entry.key, object, keyring);
    for member in opening.unopened {
        tracing::warn!(key = &*entry.key, member, "no key opens a secret of ShenYu's");
    }
    if let Some(value) = opening.value {
        entry.value = value.into();
    }
    entry
}

/// Result of re-encrypting an entry.
pub struct EntryReseal {
    /// Whether it contains sealed values.
    pub is_sealed: bool,
    /// New text; `None` if the entry needs no change.
    pub value: Option<String>,
    /// Whether a value opens with no key.
    pub is_lost: bool,
}

/// Seals plain-text secrets of an entry, and those that are sealed with an older key.
pub fn reseal_entry(entry: &Entry, keyring: &Keyring) -> EntryReseal {
    let object = std::str::from_utf8(&entry.value).unwrap_or_default();
    let sealing::Resealing { value, is_sealed, unopened } =
        sealing::reseal(&entry.key, object, &for_shenyu(keyring));
    EntryReseal { is_sealed, value, is_lost: !unopened.is_empty() }
}

fn seal_operation(operation: Operation, keyring: &Keyring) -> Operation {
    match operation {
        Operation::Put { key, value, lease } => {
            let object = std::str::from_utf8(&value).ok();
            let sealed = object.and_then(|object| sealing::seal(&key, object, keyring));
            Operation::Put { value: sealed.map_or(value, Into::into), key, lease }
        }
        operation @ (Operation::Delete { .. } | Operation::DeletePrefix { .. }) => operation,
    }
}

impl Store for ShenyuStore {
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
        let operations = transaction.operations.into_iter();
        transaction.operations = operations.map(|it| seal_operation(it, &self.keyring)).collect();
        Box::pin(async {
            let mut committed = self.store.commit(transaction).await?;
            let previous = committed.previous.into_iter();
            committed.previous = previous.map(|it| it.map(|entry| self.opened(entry))).collect();
            Ok(committed)
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        let watch = self.store.watch(prefix, after);
        Watch::new(Box::new(DecryptingWatch { watch, keyring: Arc::clone(&self.keyring) }), after)
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
    keyring: Arc<Keyring>,
}

impl DecryptingWatch {
    fn open(&self, event: WatchEvent) -> WatchEvent {
        let WatchEvent::Commit(mut changes) = event else { return event };
        let open = |event| match event {
            Event::Put(entry) => Event::Put(open_entry(entry, &self.keyring)),
            event @ Event::Delete { .. } => event,
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

/// Opens ShenYu's secrets in a listing that was read directly.
pub fn open_listing(mut listing: Listing, keyring: &Keyring) -> Listing {
    let of_shenyu = |entry: &Entry| entry.key.starts_with(KEY_PREFIX);
    let entries = listing.entries.into_iter();
    let open = |entry| if of_shenyu(&entry) { open_entry(entry, keyring) } else { entry };
    listing.entries = entries.map(open).collect();
    listing
}

#[cfg(test)]
mod tests {
    use tollhouse_store::Location;

    use super::*;

    #[tokio::test]
    async fn secrets_lie_sealed_and_everybody_behind_the_keyring_reads_them() {
        let inner = tollhouse_store::open(&Location::Memory).expect("memory");
        let keyring = Keyring::generate().expect("there are random numbers");
        let store = ShenyuStore::new(Arc::clone(&inner), &keyring.with_form(Form::Apisix));
        let (key, object) = ("/shenyu/appAuth/A", r#"{"appKey":"A", "appSecret":"hush"}"#);
        let mut watch = store.watch(KEY_PREFIX, store.revision().await.expect("it answers"));
        let put = Transaction::new().put(key, object).put("/shenyu/dict/1", "{}");
        let committed = store.commit(put).await.expect("it is written");
        let raw = inner.get(key).await.expect("it answers").expect("it is there");
        assert!(!String::from_utf8_lossy(&raw.value).contains("hush"));
        let read = store.get(key).await.expect("it answers").expect("it is there");
        assert_eq!(&read.value[..], object.as_bytes());
        let listing = store.list(KEY_PREFIX).await.expect("it answers");
        assert_eq!(&listing.entries[0].value[..], object.as_bytes());
        let page = store.list_page(KEY_PREFIX, "", 1).await.expect("it answers");
        assert_eq!(page.entries, listing.entries[..1]);
        let WatchEvent::Commit(changes) = watch.next().await else { panic!("a commit") };
        assert_eq!(changes.events.first(), Some(&Event::Put(read.clone())));
        assert_eq!(watch.revision(), committed.revision);
        let deleted = store.commit(Transaction::new().delete(key)).await.expect("it is written");
        assert_eq!(deleted.previous, [Some(read)]);
    }
}
