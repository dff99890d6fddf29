//! Sealing of the registry's secrets in its store: tokens, and the data keys of encrypted files.
//!
//! The key is that of `encryption.keyring`. Without it, a registry in the data folder has a key of its
//! own in `registry.keyring`, and one in a shared database seals nothing, because its nodes would
//! have different keys.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use serde_json::Value;
use tollhouse_config::Bootstrap;
use tollhouse_model::encryption::{Form, Keyring, Opened};
use tollhouse_store::{Entry, Listing, Store};

use super::is_shared;
use crate::secrets::sealing_store::{EntrySealing, SealingStore};
use crate::secrets::{configured_keyring, open_keyring};

/// File of the key in the data folder.
const FILE: &str = "registry.keyring";

/// Secret of a kind of entries: the prefix of their keys, and the path to the member.
type Secret = (&'static str, &'static [&'static str]);

const SECRETS: [Secret; 7] = [
    ("/identities/user/", &["token", "text"]),
    ("/identities/group/", &["token", "text"]),
    ("/namespaces/", &["token"]),
    ("/services/", &["token"]),
    ("/config-files/", &["tags", "internal-datakey"]),
    ("/config-releases/", &["tags", "internal-datakey"]),
    ("/config-history/", &["tags", "internal-datakey"]),
];

#[derive(Debug)]
struct RegistrySealing(Keyring);

/// Returns the store with its secrets sealed, if there is a key for them.
///
/// # Errors
/// If the key cannot be read, or is missing although values are sealed.
pub(super) async fn seal(
    store: Arc<dyn Store>,
    bootstrap: &Bootstrap,
) -> anyhow::Result<Arc<dyn Store>> {
    let keyring = match keyring_if_any(bootstrap)? {
        Some(keyring) => keyring,
        None if is_shared(bootstrap) => return Ok(store),
        None => {
            if !bootstrap.encryption.allow_lost_keys {
                refuse_lost(store.as_ref(), bootstrap).await?;
            }
            crate::secrets::make_keyring(&keyring_path(bootstrap))?
        }
    };
    Ok(Arc::new(SealingStore::new(store, Arc::new(RegistrySealing::new(keyring)))))
}

/// Opens the secrets in a listing that was read directly.
///
/// # Errors
/// If the key cannot be read.
pub(super) fn open_listing(mut listing: Listing, bootstrap: &Bootstrap) -> anyhow::Result<Listing> {
    if let Some(keyring) = keyring_if_any(bootstrap)? {
        let sealing = RegistrySealing::new(keyring);
        listing.entries = listing.entries.into_iter().map(|entry| sealing.open(entry)).collect();
    }
    Ok(listing)
}

/// Opens the secrets in entries that were read directly.
///
/// # Errors
/// If the key cannot be read.
pub(super) fn open_entries(
    entries: Vec<Entry>,
    bootstrap: &Bootstrap,
) -> anyhow::Result<Vec<Entry>> {
    let Some(keyring) = keyring_if_any(bootstrap)? else { return Ok(entries) };
    let sealing = RegistrySealing::new(keyring);
    Ok(entries.into_iter().map(|entry| sealing.open(entry)).collect())
}

/// Returns the file of the registry's own key, used without `encryption.keyring`.
pub fn keyring_path(bootstrap: &Bootstrap) -> PathBuf {
    bootstrap.data_dir.join(FILE)
}

fn keyring_if_any(bootstrap: &Bootstrap) -> anyhow::Result<Option<Keyring>> {
    match configured_keyring(bootstrap)? {
        Some(keyring) => Ok(Some(keyring)),
        None if is_shared(bootstrap) => Ok(None),
        None => open_keyring(&keyring_path(bootstrap)),
    }
}

/// Refuses a store with sealed values, whose key is missing.
async fn refuse_lost(store: &dyn Store, bootstrap: &Bootstrap) -> anyhow::Result<()> {
    for (prefix, path) in SECRETS {
        let listing = store.list(prefix).await.context("the registry's store cannot be read")?;
        let is_sealed = |entry: &Entry| {
            let value = serde_json::from_slice::<Value>(&entry.value).ok();
            value.as_ref().and_then(|value| text_at(value, path)).is_some_and(Keyring::is_marked)
        };
        if let Some(entry) = listing.entries.iter().find(|entry| is_sealed(entry)) {
            bail!(
                "{} is missing, but {} is sealed with it; put a copy of it back, or set \
                 encryption.allow_lost_keys to go on without these secrets",
                keyring_path(bootstrap).display(),
                entry.key
            );
        }
    }
    Ok(())
}

fn secret_of(key: &str) -> Option<&'static [&'static str]> {
    SECRETS.iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, path)| *path)
}

fn text_at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v str> {
    path.iter().try_fold(value, |value, name| value.get(name))?.as_str()
}

fn slot_at<'v>(value: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(name))
}

impl RegistrySealing {
    /// APISIX's form is of no use here, because its nodes read no registry.
    fn new(keyring: Keyring) -> Self {
        Self(keyring.with_form(Form::Marked))
    }
}

impl EntrySealing for RegistrySealing {
    fn seal(&self, key: &str, object: &str) -> Option<String> {
        let path = secret_of(key)?;
        let mut value: Value = serde_json::from_str(object).ok()?;
        let text = text_at(&value, path).filter(|text| !text.is_empty())?;
        let sealed = self.0.seal(text, key);
        *slot_at(&mut value, path)? = sealed.into();
        Some(value.to_string())
    }

    fn open(&self, mut entry: Entry) -> Entry {
        let Some(path) = secret_of(&entry.key) else { return entry };
        let Ok(mut value) = serde_json::from_slice::<Value>(&entry.value) else { return entry };
        let Some(text) = text_at(&value, path).filter(|text| Keyring::is_marked(text)) else {
            return entry;
        };
        let plain = match self.0.open(text, &entry.key) {
            Opened::Current(plain) | Opened::Stale(plain) => plain,
            Opened::Plain => return entry,
            Opened::Unopened(_) => {
                tracing::warn!(key = &*entry.key, "no key opens a secret of the registry");
                // An empty text, because the sealed one would be a secret that is known.
                String::new()
            }
        };
        if let Some(slot) = slot_at(&mut value, path) {
            *slot = plain.into();
        }
        entry.value = value.to_string().into();
        entry
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_store::{Location, Transaction};

    use super::*;

    const KEY: &str = "/identities/user/u1";
    const USER: &str = r#"{"head":{"id":"u1"},"token":{"is_enabled":true,"text":"hush"}}"#;

    async fn stored(store: &dyn Store) -> String {
        let entry = store.get(KEY).await.expect("readable").expect("stored");
        String::from_utf8_lossy(&entry.value).into_owned()
    }

    #[tokio::test]
    async fn tokens_and_data_keys_are_sealed_in_the_store_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let bootstrap = Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
        let inner = tollhouse_store::open(&Location::Memory).expect("memory");
        let store = seal(Arc::clone(&inner), &bootstrap).await.expect("a key is made");
        let file = r#"{"tags":{"internal-datakey":"hush","env":"x"}}"#;
        let put = Transaction::new()
            .put(KEY, USER)
            .put("/config-files/ns#g#f", file)
            .put("/instances/i", r#"{"token":"open"}"#);
        store.commit(put).await.expect("written");
        for entry in inner.list("/").await.expect("readable").entries {
            assert!(!String::from_utf8_lossy(&entry.value).contains("hush"), "{}", entry.key);
        }
        let again = seal(Arc::clone(&inner), &bootstrap).await.expect("the key is read");
        assert_eq!(stored(again.as_ref()).await, USER);
        let listing = open_listing(inner.list("/").await.expect("readable"), &bootstrap);
        let opened = listing.expect("the key is read").entries;
        let shown = |entry: &Entry| String::from_utf8_lossy(&entry.value).contains("hush");
        assert_eq!(opened.iter().filter(|entry| shown(entry)).count(), 2);
    }

    #[tokio::test]
    async fn a_store_whose_key_is_missing_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bootstrap =
            Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
        let inner = tollhouse_store::open(&Location::Memory).expect("memory");
        let store = seal(Arc::clone(&inner), &bootstrap).await.expect("a key is made");
        store.commit(Transaction::new().put(KEY, USER)).await.expect("written");
        std::fs::remove_file(folder.path().join(FILE)).expect("the key");
        let refused = seal(Arc::clone(&inner), &bootstrap).await.err().expect("refused");
        assert!(refused.to_string().contains("registry.keyring is missing"), "{refused}");
        bootstrap.encryption.allow_lost_keys = true;
        let store = seal(Arc::clone(&inner), &bootstrap).await.expect("allowed");
        assert!(stored(store.as_ref()).await.contains(r#""text":"""#));
    }
}
