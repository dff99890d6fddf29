//! Watches on configuration files: clients that wait for the next release of one of their files.
//!
//! A publication wakes the watches of the changed files only. Bounded in bytes over all clients.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::config::ConfigFileKey;
use crate::limits::{CONFIG_WATCHED_FILES_MAX, CONFIG_WATCHES_BYTES_MAX};
use crate::refusal::Refusal;

/// Overhead of a file in a watch, without its names.
const WATCHED_FILE_BYTES: usize = 240;

/// Maximum length of a watching client's name in bytes: an address, or what the client calls itself.
const CLIENT_BYTES_MAX: usize = 64;

#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigWatches {
    table: Arc<Mutex<Table>>,
    /// Number of changes of users, groups, roles and policies.
    rights_epoch: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Table {
    /// Watches by file, then by number.
    files: HashMap<ConfigFileKey, BTreeMap<u64, Waiting>>,
    next_number: u64,
    count: usize,
    bytes: usize,
}

/// Watch of one file by one client.
#[derive(Debug)]
struct Waiting {
    notify: Arc<Notify>,
    client: Arc<str>,
    version: u64,
}

/// File that a client watches, with the version of the release that the client has; 0 if none.
pub type WatchedVersion = (ConfigFileKey, u64);

/// Client that watches a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigWatcher {
    /// Address of the client.
    pub client: Arc<str>,
    /// Version of the release that the client has; 0 if none.
    pub version: u64,
}

/// Watch on some files; ends when it is dropped.
#[derive(Debug)]
pub struct ConfigWatch {
    watches: ConfigWatches,
    number: u64,
    files: Vec<ConfigFileKey>,
    bytes: usize,
    notify: Arc<Notify>,
}

impl ConfigWatches {
    pub(super) fn add(
        &self,
        client: &str,
        mut files: Vec<WatchedVersion>,
    ) -> Result<ConfigWatch, Refusal> {
        files.sort_unstable();
        files.dedup_by(|one, other| one.0 == other.0);
        let client: Arc<str> = client[..client.floor_char_boundary(CLIENT_BYTES_MAX)].into();
        if files.len() > CONFIG_WATCHED_FILES_MAX {
            return Err(Refusal::Parameter("more files than one call may watch"));
        }
        let bytes_of = |(file, _): &WatchedVersion| WATCHED_FILE_BYTES + 2 * file.bytes();
        let bytes = CLIENT_BYTES_MAX + files.iter().map(bytes_of).sum::<usize>();
        let mut table = self.lock();
        if table.bytes + bytes > CONFIG_WATCHES_BYTES_MAX {
            return Err(Refusal::Busy);
        }
        let number = table.next_number;
        table.next_number += 1;
        table.count += 1;
        table.bytes += bytes;
        let notify = Arc::new(Notify::new());
        for (file, version) in &files {
            let watches = table.files.entry(file.clone()).or_default();
            let (notify, client) = (Arc::clone(&notify), Arc::clone(&client));
            watches.insert(number, Waiting { notify, client, version: *version });
        }
        drop(table);
        let files = files.into_iter().map(|(file, _)| file).collect();
        Ok(ConfigWatch { watches: self.clone(), number, files, bytes, notify })
    }

    /// Wakes the watches of these files.
    pub(crate) fn wake(&self, files: &[ConfigFileKey]) {
        if files.is_empty() {
            return;
        }
        // Woken outside of the lock, because a woken client ends its watch.
        let woken: Vec<Arc<Notify>> = {
            let table = self.lock();
            let watches = files.iter().filter_map(|file| table.files.get(file));
            watches.flat_map(BTreeMap::values).map(|it| Arc::clone(&it.notify)).collect()
        };
        woken.iter().for_each(|notify| notify.notify_one());
    }

    /// Wakes all watches, whose callers may have lost their rights.
    pub(crate) fn wake_for_rights(&self) {
        self.rights_epoch.fetch_add(1, Ordering::AcqRel);
        let woken: Vec<Arc<Notify>> = {
            let table = self.lock();
            let watches = table.files.values().flat_map(BTreeMap::values);
            watches.map(|it| Arc::clone(&it.notify)).collect()
        };
        woken.iter().for_each(|notify| notify.notify_one());
    }

    pub(super) fn rights_epoch(&self) -> u64 {
        self.rights_epoch.load(Ordering::Acquire)
    }

    /// Returns the clients that watch a file, sorted, at most `max`, and their number.
    pub(super) fn watchers(&self, file: &ConfigFileKey, max: usize) -> (Vec<ConfigWatcher>, usize) {
        let mut watchers: Vec<ConfigWatcher> = {
            let table = self.lock();
            let watches = table.files.get(file).into_iter().flat_map(BTreeMap::values);
            let watcher = |it: &Waiting| ConfigWatcher {
                client: Arc::clone(&it.client),
                version: it.version,
            };
            watches.map(watcher).collect()
        };
        watchers.sort_unstable();
        let total = watchers.len();
        watchers.truncate(max);
        (watchers, total)
    }

    pub(super) fn count(&self) -> usize {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConfigWatch {
    /// Waits until the releases in force of a watched file may have changed since the last call.
    pub async fn changed(&self) {
        self.notify.notified().await;
    }
}

impl Drop for ConfigWatch {
    fn drop(&mut self) {
        let mut table = self.watches.lock();
        for file in self.files.drain(..) {
            let Entry::Occupied(mut watches) = table.files.entry(file) else { continue };
            watches.get_mut().remove(&self.number);
            if watches.get().is_empty() {
                watches.remove();
            }
        }
        table.count -= 1;
        table.bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> ConfigFileKey {
        ConfigFileKey::new("ns", "group", name)
    }

    fn unseen(name: &str) -> WatchedVersion {
        (file(name), 0)
    }

    #[tokio::test]
    async fn a_change_wakes_the_watches_of_its_file_only() {
        let watches = ConfigWatches::default();
        let first = watches.add("c", vec![unseen("a"), unseen("b"), unseen("a")]).expect("room");
        let second = watches.add("c", vec![unseen("b")]).expect("room");
        let other = watches.add("c", vec![unseen("c")]).expect("room");
        watches.wake(&[file("b"), file("unwatched")]);
        first.changed().await;
        second.changed().await;
        let idle = tokio::time::timeout(std::time::Duration::ZERO, other.changed()).await;
        assert!(idle.is_err(), "its file did not change");
    }

    #[tokio::test]
    async fn a_change_of_rights_wakes_every_watch() {
        let watches = ConfigWatches::default();
        let watch = watches.add("c", vec![unseen("a")]).expect("room");
        let before = watches.rights_epoch();
        watches.wake_for_rights();
        watch.changed().await;
        assert_eq!(watches.rights_epoch(), before + 1);
    }

    #[test]
    fn the_watchers_of_a_file_are_listed_with_the_version_that_they_have() {
        let watches = ConfigWatches::default();
        let _second = watches.add("10.0.0.2", vec![(file("a"), 3)]).expect("room");
        let _first =
            watches.add(&"0".repeat(200), vec![(file("a"), 2), unseen("b")]).expect("room");
        let (watchers, total) = watches.watchers(&file("a"), 1);
        assert_eq!((watchers.len(), total), (1, 2));
        assert_eq!((watchers[0].client.len(), watchers[0].version), (CLIENT_BYTES_MAX, 2));
        assert_eq!(watches.watchers(&file("c"), 1).1, 0);
    }

    #[test]
    fn what_is_no_longer_watched_takes_no_memory() {
        let watches = ConfigWatches::default();
        let kept = watches.add("c", vec![unseen("a")]).expect("room");
        drop(watches.add("c", vec![unseen("a"), unseen("b")]).expect("room"));
        assert_eq!((watches.count(), watches.lock().files.len()), (1, 1));
        drop(kept);
        let table = watches.lock();
        assert_eq!((table.count, table.bytes, table.files.len()), (0, 0, 0));
    }

    #[test]
    fn watches_are_bounded_in_files_and_in_bytes() {
        let watches = ConfigWatches::default();
        let many = |count: usize| (0..count).map(|number| unseen(&number.to_string())).collect();
        assert!(watches.add("c", many(CONFIG_WATCHED_FILES_MAX + 1)).is_err());
        let held: Vec<_> =
            std::iter::from_fn(|| watches.add("c", many(CONFIG_WATCHED_FILES_MAX)).ok()).collect();
        assert!(watches.lock().bytes <= CONFIG_WATCHES_BYTES_MAX);
        assert!(matches!(watches.add("c", many(CONFIG_WATCHED_FILES_MAX)), Err(Refusal::Busy)));
        drop(held);
        assert!(watches.add("c", many(1)).is_ok());
    }
}
