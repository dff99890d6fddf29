//! A zone on the disk: one file an answer, named by the digest of its key.
//!
//! Files are read and written by threads for blocking work. What is being written can be found
//! meanwhile, so that the next request after an answer finds it. Sizes are kept in memory, and
//! learnt from the folder when the zone is first written to.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use tokio::runtime::Handle;

use super::file::{self, Item};
use super::item::{Found, Stored, VaryIndex};
use super::store::Keeper;

/// Most bytes that wait to be written: a slow disk makes answers go unkept, not memory short.
const WRITING_BYTES_MAX: u64 = 128 << 20;
/// Files of a zone; each costs some hundred bytes of memory.
const FILES_MAX: usize = 1 << 20;

/// The digest of a key.
type Digest = [u8; 32];

/// A zone on the disk.
pub(super) struct DiskZone {
    inner: Arc<Inner>,
    default_ttl_ms: u64,
    /// Sets indexes that are made one after the other apart.
    indexes: AtomicU64,
    /// Where files are written; without it nothing is kept.
    background: Option<Handle>,
}

struct Inner {
    root: PathBuf,
    bytes_max: u64,
    sizes: Mutex<Sizes>,
    /// What is being written.
    writing: Mutex<HashMap<Digest, Arc<Item>>>,
    writing_bytes: AtomicU64,
    learnt: Once,
}

/// Which files there are, how large, and when they were last asked for.
#[derive(Default)]
struct Sizes {
    files: HashMap<Digest, (u64, u64)>,
    order: BTreeMap<u64, Digest>,
    bytes: u64,
    clock: u64,
}

impl DiskZone {
    pub fn new(
        root: PathBuf,
        bytes_max: u64,
        default_ttl_ms: u64,
        background: Option<Handle>,
    ) -> Self {
        let inner = Inner {
            root,
            bytes_max,
            sizes: Mutex::default(),
            writing: Mutex::default(),
            writing_bytes: AtomicU64::new(0),
            learnt: Once::new(),
        };
        Self { inner: Arc::new(inner), default_ttl_ms, indexes: AtomicU64::new(0), background }
    }

    pub fn bytes_max(&self) -> u64 {
        self.inner.bytes_max
    }

    pub fn default_ttl_ms(&self) -> u64 {
        self.default_ttl_ms
    }

    /// What is kept under a key for a request whose values `signature` tells.
    pub async fn find(&self, key: &[u8], signature: &dyn Fn(&[String]) -> Vec<u8>) -> Found {
        let index = match self.read(digest_of(key)).await.as_deref() {
            None => return Found::Nothing(None),
            Some(Item::Answer(stored)) => return Found::Stored(Arc::clone(stored), None),
            Some(Item::Index(index)) => index.clone(),
        };
        let variant = variant_digest(key, &index, &signature(&index.names));
        match self.read(variant).await.as_deref() {
            Some(Item::Answer(stored)) => Found::Stored(Arc::clone(stored), Some(index)),
            _ => Found::Nothing(Some(index)),
        }
    }

    /// Keeps an answer; the request that brought it does not wait.
    pub fn keep(&self, keeper: &Keeper, names: Vec<String>, signature: &[u8], stored: Stored) {
        let stored = Arc::new(stored);
        let base = digest_of(&keeper.key);
        if names.is_empty() {
            return self.write(base, Item::Answer(stored));
        }
        let index = match &keeper.index {
            Some(index) if index.names == names => index.clone(),
            _ => {
                let count = self.indexes.fetch_add(1, Ordering::Relaxed);
                let generation = keeper.generation.wrapping_add(count);
                let index = VaryIndex { names, generation };
                self.write(base, Item::Index(index.clone()));
                index
            }
        };
        self.write(variant_digest(&keeper.key, &index, signature), Item::Answer(stored));
    }

    /// Drops what is kept under a key, or says that there is nothing. Variants are not found any
    /// more without their index, and make room in time.
    pub async fn purge(&self, key: &[u8]) -> bool {
        let name = digest_of(key);
        let was_writing = self.inner.writing().remove(&name).is_some();
        let inner = Arc::clone(&self.inner);
        let removed = tokio::task::spawn_blocking(move || {
            inner.sizes().remove(&name);
            std::fs::remove_file(inner.path(&name)).is_ok()
        });
        removed.await.unwrap_or(false) || was_writing
    }

    async fn read(&self, name: Digest) -> Option<Arc<Item>> {
        if let Some(item) = self.inner.writing().get(&name) {
            return Some(Arc::clone(item));
        }
        let inner = Arc::clone(&self.inner);
        let read = tokio::task::spawn_blocking(move || {
            let (item, bytes) = file::read(&inner.path(&name), inner.bytes_max)?;
            inner.sizes().touch(name, bytes);
            Some(Arc::new(item))
        });
        read.await.ok().flatten()
    }

    fn write(&self, name: Digest, item: Item) {
        let Some(background) = &self.background else { return };
        let bytes = item.bytes();
        let waiting = self.inner.writing_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if waiting > WRITING_BYTES_MAX {
            self.inner.writing_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        let item = Arc::new(item);
        self.inner.writing().insert(name, Arc::clone(&item));
        let inner = Arc::clone(&self.inner);
        background.spawn_blocking(move || {
            inner.learnt.call_once(|| inner.learn());
            if let Err(error) = inner.write(&name, &item) {
                let path = inner.root.display();
                tracing::warn!(%path, %error, "failed to keep an answer in a cache on the disk");
            }
            inner.writing_bytes.fetch_sub(bytes, Ordering::Relaxed);
        });
    }
}

impl Inner {
    fn writing(&self) -> MutexGuard<'_, HashMap<Digest, Arc<Item>>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Two levels, so that no folder grows too large.
    fn path(&self, name: &Digest) -> PathBuf {
        let name = file::hex(name);
        self.root.join(&name[..2]).join(name)
    }

    fn write(&self, name: &Digest, item: &Arc<Item>) -> std::io::Result<()> {
        let path = self.path(name);
        let drafted = file::draft(&path, item);
        // It takes its place under the lock: a purge comes before that or after it.
        let placed = {
            let mut writing = self.writing();
            let is_current = writing.get(name).is_some_and(|other| Arc::ptr_eq(other, item));
            if is_current {
                writing.remove(name);
            }
            match &drafted {
                Ok(draft) if is_current => Some(std::fs::rename(&draft.unfinished, &path)),
                _ => None,
            }
        };
        let file::Draft { unfinished, bytes } = drafted?;
        match placed {
            Some(placed) => placed?,
            // Purged or replaced meanwhile: what was written must not be found.
            None => return std::fs::remove_file(unfinished),
        }
        let oldest = {
            let mut sizes = self.sizes();
            sizes.touch(*name, bytes);
            sizes.over(self.bytes_max)
        };
        for name in oldest {
            // What cannot be removed is gone already.
            let _ = std::fs::remove_file(self.path(&name));
        }
        Ok(())
    }

    /// Finds what an earlier run has left.
    fn learn(&self) {
        let folders = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.path())).flatten().flatten();
        for entry in files.take(FILES_MAX) {
            let name = entry.file_name();
            let digest = name.to_str().and_then(file::from_hex);
            match (digest, entry.metadata()) {
                (Some(digest), Ok(facts)) => self.sizes().touch(digest, facts.len()),
                // The rest of a write that was cut short.
                _ => remove_leftover(&entry.path()),
            }
        }
    }
}

fn remove_leftover(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        let path = path.display();
        tracing::debug!(%path, %error, "a foreign file in a cache folder stays");
    }
}

impl Sizes {
    fn touch(&mut self, name: Digest, bytes: u64) {
        self.remove(&name);
        self.clock += 1;
        self.files.insert(name, (self.clock, bytes));
        self.order.insert(self.clock, name);
        self.bytes += bytes;
    }

    fn remove(&mut self, name: &Digest) {
        if let Some((used, bytes)) = self.files.remove(name) {
            self.order.remove(&used);
            self.bytes -= bytes;
        }
    }

    /// Takes out what was asked for longest ago, until the rest fits.
    fn over(&mut self, bytes_max: u64) -> Vec<Digest> {
        let mut taken = Vec::new();
        while self.bytes > bytes_max || self.files.len() > FILES_MAX {
            let Some((_, name)) = self.order.first_key_value() else { break };
            let name = *name;
            self.remove(&name);
            taken.push(name);
        }
        taken
    }
}

fn digest_of(key: &[u8]) -> Digest {
    let mut name = Digest::default();
    name.copy_from_slice(digest(&SHA256, key).as_ref());
    name
}

fn variant_digest(key: &[u8], index: &VaryIndex, signature: &[u8]) -> Digest {
    digest_of(&[key, b"\0vary", &index.generation.to_le_bytes(), signature].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(bytes: usize) -> Item {
        let body = vec![b'x'; bytes].into();
        let headers = Vec::new();
        Item::Answer(Arc::new(Stored { status: 200, headers, body, stored_unix_ms: 0, ttl_ms: 1 }))
    }

    #[test]
    fn files_make_room_for_one_another_even_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let open = || DiskZone::new(dir.path().join("zone"), 5_000, 0, None).inner;
        let keep = |zone: &Inner, name: u8| {
            zone.learnt.call_once(|| zone.learn());
            let item = Arc::new(item(1_000));
            zone.writing().insert([name; 32], Arc::clone(&item));
            zone.write(&[name; 32], &item).unwrap();
        };
        let exists = |zone: &Inner, name: u8| zone.path(&[name; 32]).exists();
        let zone = open();
        (1..=6).for_each(|name| keep(&zone, name));
        assert!(exists(&zone, 6) && !exists(&zone, 1));
        assert!(zone.sizes().bytes <= 5_000);
        let zone = open();
        keep(&zone, 7);
        assert!(exists(&zone, 7) && zone.sizes().bytes <= 5_000);
        assert_eq!((1..=7).filter(|name| exists(&zone, *name)).count(), zone.sizes().files.len());
    }

    #[test]
    fn what_is_purged_while_it_is_written_stays_purged() {
        let dir = tempfile::tempdir().unwrap();
        let zone = DiskZone::new(dir.path().into(), 5_000, 0, None).inner;
        zone.write(&[1; 32], &Arc::new(item(10))).unwrap();
        assert!(!zone.path(&[1; 32]).exists());
    }
}
