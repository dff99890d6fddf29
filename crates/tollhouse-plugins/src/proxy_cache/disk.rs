//! Zone on the disk: one file per answer, named by the digest of its key.
//!
//! Files are read and written by threads for blocking work. An answer can be found while it is
//! being written, so that the next request finds it. The list of files is in memory
//! (`contents.rs`): it is read from the folder when the zone is opened, and a background task
//! removes expired files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use tokio::runtime::Handle;
use tollhouse_plugin::Services;
use tollhouse_stdx::MemoryBudget;

use super::contents::{Contents, File, NAME_BYTES, Name};
use super::file::{self, Item};
use super::item::{CacheLookup, CachedResponse, VaryIndex};
use super::store::StorePlan;

/// Maximum number of bytes that wait to be written. On a slow disk further answers are not kept, so
/// that memory stays bounded.
const WRITING_BYTES_MAX: u64 = 32 << 20;
/// Bytes that a removal counts among the pending writes: its place in a table and a task.
const REMOVAL_BYTES: u64 = 256;
/// Interval between removals of expired files.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// Seconds for which an expired answer stays, so that the next request for it is told `EXPIRED`.
const EXPIRED_KEPT_S: u32 = 60;

/// Folder of a zone's files, and the lengths of its subfolder names.
#[derive(Debug)]
pub(super) struct DiskLocation {
    pub root: PathBuf,
    /// Number of digits in the folder names of each level.
    pub levels: Vec<u8>,
}

/// Maximum disk space of a zone's files, and maximum memory of its index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes on the disk, in whole blocks.
    pub disk_bytes: u64,
    /// Bytes of memory for the names of files.
    pub names_bytes: u64,
}

pub(super) struct DiskZone {
    inner: Arc<Inner>,
    default_ttl_ms: u64,
    /// Counter that gives each new index another generation.
    indexes: AtomicU64,
    /// Runtime on which files are written; `None` stores no answers.
    background: Option<Handle>,
}

struct Inner {
    place: DiskLocation,
    bytes_max: u64,
    /// Budget of the memory into which answers are read, and from which they are sent.
    memory: Arc<MemoryBudget>,
    contents: Mutex<Contents>,
    /// Changes that are not written to the disk yet.
    writing: Mutex<HashMap<Name, Change>>,
    writing_bytes: AtomicU64,
    learnt: Once,
}

/// Change of a file that is not on the disk yet.
enum Change {
    Write(Arc<Item>),
    Removal,
}

impl DiskZone {
    /// Opens a zone. If `services` have a background runtime, it also starts the task that reads
    /// the folder and removes expired files.
    pub fn open(
        place: DiskLocation,
        bounds: Bounds,
        default_ttl_ms: u64,
        services: &Services,
    ) -> Self {
        let inner = Arc::new(Inner {
            place,
            bytes_max: bounds.disk_bytes,
            memory: Arc::clone(&services.memory),
            contents: Mutex::new(Contents::new(bounds.disk_bytes, bounds.names_bytes)),
            writing: Mutex::default(),
            writing_bytes: AtomicU64::new(0),
            learnt: Once::new(),
        });
        let background = services.background.clone();
        if let Some(background) = &background {
            background.spawn(look_after(Arc::downgrade(&inner)));
        }
        Self { inner, default_ttl_ms, indexes: AtomicU64::new(0), background }
    }

    pub fn bytes_max(&self) -> u64 {
        self.inner.bytes_max
    }

    pub fn default_ttl_ms(&self) -> u64 {
        self.default_ttl_ms
    }

    /// Looks up the answer under a key. `signature` returns the request's values of the headers
    /// that it is given.
    pub async fn find(&self, key: &[u8], signature: &dyn Fn(&[String]) -> Vec<u8>) -> CacheLookup {
        let index = match self.read(digest_of(key)).await.as_deref() {
            None => return CacheLookup::Miss(None),
            Some(Item::Answer(stored)) => return CacheLookup::Hit(Arc::clone(stored), None),
            Some(Item::Index(index)) => index.clone(),
        };
        let variant = variant_digest(key, &index, &signature(&index.names));
        match self.read(variant).await.as_deref() {
            Some(Item::Answer(stored)) => CacheLookup::Hit(Arc::clone(stored), Some(index)),
            _ => CacheLookup::Miss(Some(index)),
        }
    }

    /// Stores an answer; the request does not wait for the disk.
    pub fn keep(
        &self,
        plan: &StorePlan,
        names: Vec<String>,
        signature: &[u8],
        stored: CachedResponse,
    ) {
        let stored = Arc::new(stored);
        let base = digest_of(&plan.key);
        if names.is_empty() {
            return self.write(base, Item::Answer(stored));
        }
        let index = match &plan.index {
            Some(index) if index.names == names => index.clone(),
            _ => {
                let count = self.indexes.fetch_add(1, Ordering::Relaxed);
                let generation = plan.generation.wrapping_add(count);
                let index = VaryIndex { names, generation };
                self.write(base, Item::Index(index.clone()));
                index
            }
        };
        self.write(variant_digest(&plan.key, &index, signature), Item::Answer(stored));
    }

    /// Drops the answer of a key. Returns false if there was none. Without their index, variants
    /// are no longer found; they are removed when they expire or room is needed.
    pub async fn purge(&self, key: &[u8]) -> bool {
        let name = digest_of(key);
        let was_writing = matches!(self.inner.writing().remove(&name), Some(Change::Write(_)));
        let inner = Arc::clone(&self.inner);
        let removed = tokio::task::spawn_blocking(move || {
            inner.contents().remove(&name);
            std::fs::remove_file(inner.path(&name)).is_ok()
        });
        removed.await.unwrap_or(false) || was_writing
    }

    /// Drops the answer of a key. Later look-ups do not find it, even before the file is removed.
    pub fn forget(&self, key: &[u8]) {
        let Some(background) = &self.background else { return };
        let name = digest_of(key);
        let waiting = self.inner.writing_bytes.fetch_add(REMOVAL_BYTES, Ordering::Relaxed);
        self.inner.writing().insert(name, Change::Removal);
        let inner = Arc::clone(&self.inner);
        let remove = move || {
            inner.remove(&name);
            inner.writing_bytes.fetch_sub(REMOVAL_BYTES, Ordering::Relaxed);
        };
        // Unlike a write, a removal cannot be dropped. If too many changes are pending, the caller
        // waits.
        if waiting > WRITING_BYTES_MAX {
            remove();
        } else {
            background.spawn_blocking(remove);
        }
    }

    async fn read(&self, name: Name) -> Option<Arc<Item>> {
        match self.inner.writing().get(&name) {
            Some(Change::Write(item)) => return Some(Arc::clone(item)),
            Some(Change::Removal) => return None,
            None => {}
        }
        let inner = Arc::clone(&self.inner);
        let read = tokio::task::spawn_blocking(move || {
            let item = file::read(&inner.path(&name), &inner.memory)?;
            inner.contents().touch(&name);
            Some(Arc::new(item))
        });
        read.await.ok().flatten()
    }

    fn write(&self, name: Name, item: Item) {
        let Some(background) = &self.background else { return };
        let bytes = item.bytes();
        let waiting = self.inner.writing_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if waiting > WRITING_BYTES_MAX {
            self.inner.writing_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        let item = Arc::new(item);
        self.inner.writing().insert(name, Change::Write(Arc::clone(&item)));
        let inner = Arc::clone(&self.inner);
        background.spawn_blocking(move || {
            inner.learnt.call_once(|| inner.learn());
            if let Err(error) = inner.write(&name, &item) {
                let path = inner.place.root.display();
                tracing::warn!(%path, %error, "failed to keep an answer in a cache on the disk");
            }
            inner.writing_bytes.fetch_sub(bytes, Ordering::Relaxed);
        });
    }
}

/// Reads the files that an earlier run has left, then removes expired files as long as the zone
/// exists.
async fn look_after(zone: Weak<Inner>) {
    while let Some(inner) = zone.upgrade() {
        let round = move || {
            inner.learnt.call_once(|| inner.learn());
            inner.sweep(file::unix_s(SystemTime::now()));
        };
        // A round that panics is skipped.
        let _ = tokio::task::spawn_blocking(round).await;
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
}

impl Inner {
    fn writing(&self) -> MutexGuard<'_, HashMap<Name, Change>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of a file. Its folders are named by the last digits of the file's name, in
    /// as many levels as the zone has.
    fn path(&self, name: &Name) -> PathBuf {
        let name = file::hex(name);
        let mut path = self.place.root.clone();
        let mut end = name.len();
        for digits in &self.place.levels {
            let begin = end - usize::from(*digits);
            path.push(&name[begin..end]);
            end = begin;
        }
        path.join(name)
    }

    fn write(&self, name: &Name, item: &Arc<Item>) -> std::io::Result<()> {
        let path = self.path(name);
        let drafted = file::draft(&path, item);
        // The file is renamed under the lock, so that a purge comes before or after that.
        let placed = {
            let mut writing = self.writing();
            let is_current =
                matches!(writing.get(name), Some(Change::Write(other)) if Arc::ptr_eq(other, item));
            if is_current {
                writing.remove(name);
            }
            match &drafted {
                Ok(draft) if is_current => Some(std::fs::rename(&draft.unfinished, &path)),
                _ => None,
            }
        };
        let file::Draft { unfinished, bytes, expires_unix_s } = drafted?;
        match placed {
            Some(placed) => placed?,
            // The answer was purged or replaced meanwhile, so that the written file must not be
            // found.
            None => return std::fs::remove_file(unfinished),
        }
        let pushed_out = self.contents().put(*name, File::new(bytes, expires_unix_s));
        self.remove_files(&pushed_out);
        Ok(())
    }

    /// Removes a file, unless it has been written again meanwhile.
    fn remove(&self, name: &Name) {
        let mut writing = self.writing();
        if matches!(writing.get(name), Some(Change::Removal)) {
            writing.remove(name);
            self.contents().remove(name);
            self.remove_files(&[*name]);
        }
    }

    /// Removes files whose answers expired more than `EXPIRED_KEPT_S` seconds ago.
    fn sweep(&self, now_unix_s: u32) {
        let over = self.contents().take_expired(now_unix_s.saturating_sub(EXPIRED_KEPT_S));
        self.remove_files(&over);
    }

    fn remove_files(&self, names: &[Name]) {
        for name in names {
            // A file that cannot be removed is missing already.
            let _ = std::fs::remove_file(self.path(name));
        }
    }

    /// Reads the list of files that an earlier run has left.
    fn learn(&self) {
        let mut folders = vec![self.place.root.clone()];
        for digits in &self.place.levels {
            let inside = folders.iter().flat_map(|folder| entries(folder));
            let is_ours = |path: &PathBuf| {
                file_name(path).is_some_and(|name| {
                    name.len() == usize::from(*digits) && is_hex(name) && path.is_dir()
                })
            };
            folders = inside.filter(is_ours).collect();
        }
        for path in folders.iter().flat_map(|folder| entries(folder)) {
            self.learn_file(&path);
        }
    }

    fn learn_file(&self, path: &Path) {
        let known = file_name(path).and_then(file::from_hex);
        let Some(name) = known.filter(|name| self.path(name) == path) else {
            return remove_leftover(path);
        };
        let Ok(facts) = path.metadata() else { return };
        let expires_unix_s = facts.modified().map_or(0, file::unix_s);
        let file = File::new(file::on_disk(facts.len()), expires_unix_s);
        let pushed_out = self.contents().put(name, file);
        self.remove_files(&pushed_out);
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes the file of an interrupted write, or of an earlier version. A file whose name is not a
/// digest belongs to another program, and stays.
fn remove_leftover(path: &Path) {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if is_hex(stem)
        && stem.len() >= 2 * NAME_BYTES
        && let Err(error) = std::fs::remove_file(path)
    {
        let path = path.display();
        tracing::debug!(%path, %error, "a leftover in a cache folder stays");
    }
}

fn digest_of(key: &[u8]) -> Name {
    let mut name = Name::default();
    // Half of the digest suffices to distinguish the keys of any zone.
    name.copy_from_slice(&digest(&SHA256, key).as_ref()[..NAME_BYTES]);
    name
}

fn variant_digest(key: &[u8], index: &VaryIndex, signature: &[u8]) -> Name {
    digest_of(&[key, b"\0vary", &index.generation.to_le_bytes(), signature].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_cache::freshness::{Life, StaleUse};

    fn item(bytes: usize, until_s: u64) -> Arc<Item> {
        Arc::new(Item::Answer(Arc::new(CachedResponse {
            status: 200,
            headers: [].into(),
            body: vec![b'x'; bytes].into(),
            left_out_bytes: None,
            stored_unix_ms: until_s * 1_000,
            life: Life { ttl_ms: 0, age_ms: 0 },
            stale_use: StaleUse::default(),
        })))
    }

    fn open(root: &Path, levels: &[u8]) -> Arc<Inner> {
        let place = DiskLocation { root: root.into(), levels: levels.into() };
        let bounds = Bounds { disk_bytes: 5 * 4096, names_bytes: 1 << 20 };
        let zone = DiskZone::open(place, bounds, 0, &Services::new("APISIX")).inner;
        zone.learnt.call_once(|| zone.learn());
        zone
    }

    fn keep(zone: &Inner, name: u8, until_s: u64) {
        let item = item(1_000, until_s);
        zone.writing().insert([name; NAME_BYTES], Change::Write(Arc::clone(&item)));
        zone.write(&[name; NAME_BYTES], &item).unwrap();
    }

    fn exists(zone: &Inner, name: u8) -> bool {
        zone.path(&[name; NAME_BYTES]).exists()
    }

    #[test]
    fn whole_blocks_count_and_files_make_room_for_one_another_even_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let zone = open(dir.path(), &[1, 2]);
        (1..=6).for_each(|name| keep(&zone, name, 1_000));
        assert!(exists(&zone, 6) && !exists(&zone, 1));
        assert_eq!(zone.contents().bytes(), 5 * 4096);
        let zone = open(dir.path(), &[1, 2]);
        assert_eq!(zone.contents().len(), 5);
        keep(&zone, 7, 1_000);
        assert!(exists(&zone, 7) && zone.contents().bytes() <= 5 * 4096);
        let left = (1..=7).filter(|name| exists(&zone, *name)).count();
        assert_eq!(left, zone.contents().len());
    }

    #[test]
    fn folders_are_named_by_the_last_digits_of_the_files() {
        let zone = open(Path::new("/zone"), &[1, 2]);
        let mut name = [0; NAME_BYTES];
        name[NAME_BYTES - 2..].copy_from_slice(&[0xab, 0xcd]);
        let expected = "/zone/d/bc/0000000000000000000000000000abcd";
        assert_eq!(zone.path(&name), PathBuf::from(expected));
    }

    #[test]
    fn what_is_over_is_removed_also_where_an_earlier_run_kept_it() {
        let dir = tempfile::tempdir().unwrap();
        let zone = open(dir.path(), &[2]);
        keep(&zone, 1, 1_000);
        keep(&zone, 2, 2_000);
        let zone = open(dir.path(), &[2]);
        zone.sweep(1_000 + EXPIRED_KEPT_S);
        assert!(exists(&zone, 1));
        zone.sweep(1_001 + EXPIRED_KEPT_S);
        assert!(!exists(&zone, 1) && exists(&zone, 2));
        assert_eq!(zone.contents().len(), 1);
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = [dir.path().join("notes.txt"), dir.path().join("ab/readme.md")];
        let leftover = dir.path().join("ab").join(format!("{}.ThreadId(3)", "ab".repeat(16)));
        std::fs::create_dir(dir.path().join("ab")).unwrap();
        for path in foreign.iter().chain([&leftover]) {
            std::fs::write(path, "mine").unwrap();
        }
        open(dir.path(), &[2]);
        assert!(foreign.iter().all(|path| path.exists()) && !leftover.exists());
    }

    #[test]
    fn what_is_purged_while_it_is_written_stays_purged() {
        let dir = tempfile::tempdir().unwrap();
        let zone = open(dir.path(), &[2]);
        zone.write(&[1; NAME_BYTES], &item(10, 1_000)).unwrap();
        assert!(!exists(&zone, 1));
    }

    #[test]
    fn a_removal_counts_at_once_and_spares_what_is_written_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let zone = open(dir.path(), &[2]);
        keep(&zone, 1, 1_000);
        zone.writing().insert([1; NAME_BYTES], Change::Removal);
        zone.remove(&[1; NAME_BYTES]);
        assert!(!exists(&zone, 1) && zone.contents().len() == 0 && zone.writing().is_empty());
        keep(&zone, 1, 1_000);
        zone.remove(&[1; NAME_BYTES]);
        assert!(exists(&zone, 1));
    }
}
