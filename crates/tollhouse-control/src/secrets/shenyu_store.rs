//! Sealing of ShenYu's objects. `tollhouse-shenyu` defines which fields are secret.
//! `sealed_store.rs` re-encrypts existing values at the start.

use std::sync::Arc;

use tollhouse_model::encryption::{Form, Keyring};
use tollhouse_shenyu::KEY_PREFIX;
use tollhouse_shenyu::sealing;
use tollhouse_store::{Entry, Listing, Store};

use super::sealing_store::{EntrySealing, SealingStore};

/// Sealing of ShenYu's objects.
#[derive(Debug)]
struct ShenyuSealing(Keyring);

/// Returns the keyring for ShenYu's objects. APISIX nodes never read them, so that the marked form,
/// which identifies sealed values reliably, is always used.
fn for_shenyu(keyring: &Keyring) -> Keyring {
    keyring.clone().with_form(Form::Marked)
}

/// Returns a store that seals the secrets of ShenYu's objects.
pub fn shenyu_store(store: Arc<dyn Store>, keyring: &Keyring) -> SealingStore {
    SealingStore::new(store, Arc::new(ShenyuSealing(for_shenyu(keyring))))
}

impl EntrySealing for ShenyuSealing {
    fn seal(&self, key: &str, object: &str) -> Option<String> {
        sealing::seal(key, object, &self.0)
    }

    fn open(&self, entry: Entry) -> Entry {
        open_entry(entry, &self.0)
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
    use tollhouse_store::{Event, Location, Transaction, WatchEvent};

    use super::*;

    #[tokio::test]
    async fn secrets_lie_sealed_and_everybody_behind_the_keyring_reads_them() {
        let inner = tollhouse_store::open(&Location::Memory).expect("memory");
        let keyring = Keyring::generate().expect("there are random numbers");
        let store = shenyu_store(Arc::clone(&inner), &keyring.with_form(Form::Apisix));
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
