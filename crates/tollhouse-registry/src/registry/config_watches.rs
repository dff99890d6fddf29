//! Watches on configuration files: clients that wait for the next release of one of their files.
//!
//! A publication wakes the watches of the changed files only. Bounded in bytes over all clients.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::config::ConfigFileKey;
use crate::limits::{CONFIG_WATCHED_FILES_MAX, CONFIG_WATCHES_BYTES_MAX};
use crate::refusal::Refusal;

/// Overhead of a file in a watch, without its names.
const WATCHED_FILE_BYTES: usize = 192;

#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigWatches(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// Watches by file, then by number.
    files: HashMap<ConfigFileKey, BTreeMap<u64, Arc<Notify>>>,
    next_number: u64,
    count: usize,
    bytes: usize,
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
    pub(super) fn add(&self, mut files: Vec<ConfigFileKey>) -> Result<ConfigWatch, Refusal> {
        files.sort_unstable();
        files.dedup();
        if files.len() > CONFIG_WATCHED_FILES_MAX {
            return Err(Refusal::Parameter("more files than one call may watch"));
        }
        let bytes = files.iter().map(|file| WATCHED_FILE_BYTES + 2 * file.bytes()).sum();
        let mut table = self.lock();
        if table.bytes + bytes > CONFIG_WATCHES_BYTES_MAX {
            return Err(Refusal::Busy);
        }
        let number = table.next_number;
        table.next_number += 1;
        table.count += 1;
        table.bytes += bytes;
        let notify = Arc::new(Notify::new());
        for file in &files {
            let watches = table.files.entry(file.clone()).or_default();
            watches.insert(number, Arc::clone(&notify));
        }
        drop(table);
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
            watches.flat_map(BTreeMap::values).map(Arc::clone).collect()
        };
        woken.iter().for_each(|notify| notify.notify_one());
    }

    pub(super) fn count(&self) -> usize {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[tokio::test]
    async fn a_change_wakes_the_watches_of_its_file_only() {
        let watches = ConfigWatches::default();
        let first = watches.add(vec![file("a"), file("b"), file("a")]).expect("room");
        let second = watches.add(vec![file("b")]).expect("room");
        let other = watches.add(vec![file("c")]).expect("room");
        watches.wake(&[file("b"), file("unwatched")]);
        first.changed().await;
        second.changed().await;
        let idle = tokio::time::timeout(std::time::Duration::ZERO, other.changed()).await;
        assert!(idle.is_err(), "its file did not change");
    }

    #[test]
    fn what_is_no_longer_watched_takes_no_memory() {
        let watches = ConfigWatches::default();
        let kept = watches.add(vec![file("a")]).expect("room");
        drop(watches.add(vec![file("a"), file("b")]).expect("room"));
        assert_eq!((watches.count(), watches.lock().files.len()), (1, 1));
        drop(kept);
        let table = watches.lock();
        assert_eq!((table.count, table.bytes, table.files.len()), (0, 0, 0));
    }

    #[test]
    fn watches_are_bounded_in_files_and_in_bytes() {
        let watches = ConfigWatches::default();
        let many = |count: usize| (0..count).map(|number| file(&number.to_string())).collect();
        assert!(watches.add(many(CONFIG_WATCHED_FILES_MAX + 1)).is_err());
        let held: Vec<_> =
            std::iter::from_fn(|| watches.add(many(CONFIG_WATCHED_FILES_MAX)).ok()).collect();
        assert!(watches.lock().bytes <= CONFIG_WATCHES_BYTES_MAX);
        assert!(matches!(watches.add(many(CONFIG_WATCHED_FILES_MAX)), Err(Refusal::Busy)));
        drop(held);
        assert!(watches.add(many(1)).is_ok());
    }
}
