//! Sealing of the registry's secrets in its store: tokens, and the data keys of encrypted files.
//!
//! The key is that of `encryption.keyring`. Without it, a registry in the data folder has a key of its
//! own in `registry.keyring`, and one in a shared database seals nothing, because its nodes would
//! have different keys. A key of its own still opens values after `encryption.keyring` is set.
//!
//! A secret that no key opens is empty for readers, so that it cannot be a credential, and keeps its sealed
//! text in the store until it is replaced or its entry is deleted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use serde_json::Value;
use tollhouse_config::Bootstrap;
use tollhouse_model::encryption::{Form, Keyring, Opened};
use tollhouse_store::{Entry, Listing, Operation, Store};

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

/// Number of entries that are read at once in the check of a store.
const PAGE_ENTRIES: usize = 1_024;

struct RegistrySealing {
    /// Keys; `None` seals nothing.
    keyring: Option<Keyring>,
    /// Sealed text by key of the entry, of the secrets that no key opens. The registry holds these
    /// entries in memory anyway, within `registry.memory_max`.
    unopened: Mutex<BTreeMap<Box<str>, Box<str>>>,
}

/// Returns the store with its secrets sealed, if there is a key for them.
///
/// # Errors
/// If the key cannot be read, or no key opens a sealed value, unless `encryption.allow_lost_keys`
/// is set.
pub(super) async fn seal(
    store: Arc<dyn Store>,
    bootstrap: &Bootstrap,
) -> anyhow::Result<Arc<dyn Store>> {
    let known = keyring_if_any(bootstrap)?;
    if !bootstrap.encryption.allow_lost_keys {
        check_store(store.as_ref(), &RegistrySealing::new(known.clone()), bootstrap).await?;
    }
    let keyring = match known {
        None if !is_shared(bootstrap) => {
            Some(crate::secrets::make_keyring(&keyring_path(bootstrap))?)
        }
        known => known,
    };
    Ok(Arc::new(SealingStore::new(store, Arc::new(RegistrySealing::new(keyring)))))
}

/// Opens the secrets in a listing that was read directly.
///
/// # Errors
/// For the reasons of [`open_entries`].
pub(super) fn open_listing(mut listing: Listing, bootstrap: &Bootstrap) -> anyhow::Result<Listing> {
    listing.entries = open_entries(listing.entries, bootstrap)?;
    Ok(listing)
}

/// Opens the secrets in entries that were read directly.
///
/// # Errors
/// If the key cannot be read, or no key opens a sealed value, unless `encryption.allow_lost_keys`
/// is set.
pub(super) fn open_entries(
    entries: Vec<Entry>,
    bootstrap: &Bootstrap,
) -> anyhow::Result<Vec<Entry>> {
    let sealing = RegistrySealing::new(keyring_if_any(bootstrap)?);
    if !bootstrap.encryption.allow_lost_keys {
        check_entries(&entries, &sealing, bootstrap)?;
    }
    Ok(entries.into_iter().map(|entry| sealing.open(entry)).collect())
}

/// Returns the file of the registry's own key, used without `encryption.keyring`.
pub fn keyring_path(bootstrap: &Bootstrap) -> PathBuf {
    bootstrap.data_dir.join(FILE)
}

/// Returns all known keys: the configured ones, then the registry's own.
fn keyring_if_any(bootstrap: &Bootstrap) -> anyhow::Result<Option<Keyring>> {
    let configured = configured_keyring(bootstrap)?;
    if is_shared(bootstrap) {
        return Ok(configured);
    }
    let own = open_keyring(&keyring_path(bootstrap))?;
    match (configured, own) {
        (Some(configured), Some(own)) => {
            let keys = configured.expose().chain(own.expose()).map(str::to_owned);
            let all = Keyring::new(keys);
            let path = keyring_path(bootstrap);
            all.with_context(|| format!("encryption.keyring together with {}", path.display()))
                .map(Some)
        }
        (configured, own) => Ok(configured.or(own)),
    }
}

/// Refuses a store with a sealed value that no key opens.
async fn check_store(
    store: &dyn Store,
    sealing: &RegistrySealing,
    bootstrap: &Bootstrap,
) -> anyhow::Result<()> {
    for (prefix, _) in SECRETS {
        let mut after = String::new();
        loop {
            let page = store.list_page(prefix, &after, PAGE_ENTRIES).await;
            let page = page.context("the registry's store cannot be read")?;
            check_entries(&page.entries, sealing, bootstrap)?;
            match page.entries.last() {
                Some(last) if page.entries.len() == PAGE_ENTRIES => after = last.key.to_string(),
                _ => break,
            }
        }
    }
    Ok(())
}

fn check_entries(
    entries: &[Entry],
    sealing: &RegistrySealing,
    bootstrap: &Bootstrap,
) -> anyhow::Result<()> {
    let Some(entry) = entries.iter().find(|entry| sealing.is_unopened(entry)) else {
        return Ok(());
    };
    let (key, path) = (&entry.key, keyring_path(bootstrap));
    let (path, go_on) = (
        path.display(),
        "or set encryption.allow_lost_keys to go on without the secrets that no key opens",
    );
    match (is_shared(bootstrap), &sealing.keyring) {
        (true, None) => bail!(
            "{key} of the shared registry is sealed, but encryption.keyring is not set; set it to \
             the keyring of the other nodes, {go_on}"
        ),
        (false, None) => bail!(
            "{path} is missing, but {key} is sealed; put a copy of it back, or the key with which it \
             was sealed into encryption.keyring, {go_on}"
        ),
        (true, Some(_)) => bail!(
            "no key of encryption.keyring opens {key} of the shared registry; set it to the keyring \
             of the other nodes, or append the key with which they seal, {go_on}"
        ),
        (false, Some(_)) => bail!(
            "no key of encryption.keyring or {path} opens {key}; put a copy of the former {path} \
             back, or append the key with which it was sealed to encryption.keyring, {go_on}"
        ),
    }
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
    fn new(keyring: Option<Keyring>) -> Self {
        let keyring = keyring.map(|keyring| keyring.with_form(Form::Marked));
        Self { keyring, unopened: Mutex::default() }
    }

    fn unopened(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Box<str>>> {
        // A panic cannot leave the map inconsistent.
        self.unopened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an entry has a sealed secret that no key opens.
    fn is_unopened(&self, entry: &Entry) -> bool {
        let Some(path) = secret_of(&entry.key) else { return false };
        let Ok(value) = serde_json::from_slice::<Value>(&entry.value) else { return false };
        let marked = text_at(&value, path).filter(|text| Keyring::is_marked(text));
        marked.is_some_and(|text| self.plain(text, &entry.key).is_none())
    }

    /// Returns the plain text of a sealed secret; `None` if no key opens it.
    fn plain(&self, sealed: &str, key: &str) -> Option<String> {
        self.keyring.as_ref().and_then(|keyring| match keyring.open(sealed, key) {
            Opened::Current(plain) | Opened::Stale(plain) => Some(plain),
            Opened::Plain | Opened::Unopened(_) => None,
        })
    }
}

impl EntrySealing for RegistrySealing {
    fn seal(&self, key: &str, object: &str) -> Option<String> {
        let path = secret_of(key)?;
        let mut value: Value = serde_json::from_str(object).ok()?;
        let text = text_at(&value, path)?;
        let sealed = match text {
            "" => self.unopened().get(key)?.to_string(),
            text => self.keyring.as_ref()?.seal(text, key),
        };
        *slot_at(&mut value, path)? = sealed.into();
        Some(value.to_string())
    }

    fn open(&self, mut entry: Entry) -> Entry {
        let Some(path) = secret_of(&entry.key) else { return entry };
        let Ok(mut value) = serde_json::from_slice::<Value>(&entry.value) else { return entry };
        let marked = text_at(&value, path).filter(|text| Keyring::is_marked(text));
        let plain = marked.map(|sealed| (sealed, self.plain(sealed, &entry.key)));
        let plain = match plain {
            None => {
                self.unopened().remove(&entry.key);
                return entry;
            }
            Some((_, Some(plain))) => {
                self.unopened().remove(&entry.key);
                plain
            }
            Some((sealed, None)) => {
                tracing::warn!(key = &*entry.key, "no key opens a secret of the registry");
                self.unopened().insert(entry.key.clone(), sealed.into());
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

    fn superseded(&self, operations: &[Operation]) -> Vec<Box<str>> {
        let unopened = self.unopened();
        if unopened.is_empty() {
            return Vec::new();
        }
        let mut keys = Vec::new();
        for operation in operations {
            match operation {
                Operation::Put { key, value, .. } if unopened.contains_key(key) => {
                    let value = serde_json::from_slice::<Value>(value).ok();
                    let text = secret_of(key)
                        .and_then(|path| text_at(value.as_ref()?, path).map(str::is_empty));
                    keys.extend((text == Some(false)).then(|| key.clone()));
                }
                Operation::Put { .. } => {}
                Operation::Delete { key } => keys.push(key.clone()),
                Operation::DeletePrefix { prefix } => {
                    let below = unopened.keys().filter(|key| key.starts_with(&**prefix));
                    keys.extend(below.cloned());
                }
            }
        }
        keys
    }

    fn forget(&self, keys: &[Box<str>]) {
        let mut unopened = self.unopened();
        for key in keys {
            unopened.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
