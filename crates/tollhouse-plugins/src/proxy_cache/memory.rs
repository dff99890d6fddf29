//! Zone in memory, shared by all cores: sixteen tables, each with a lock that is held for a look-up
//! or an insertion, and one budget of bytes.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use super::item::{CacheLookup, CachedResponse};

/// Number of tables, large enough that cores rarely wait for the same lock.
const SHARDS: usize = 16;

/// Maximum number of variants of one key. A further one replaces the oldest, because a header such
/// as `User-Agent` has any number of values.
const VARIANTS_MAX: usize = 64;

pub(super) struct MemoryZone {
    bytes_max: u64,
    bytes: CachePadded<AtomicU64>,
    hasher: RandomState,
    /// Each in lines of its own, so that cores with different keys do not disturb each other.
    shards: [CachePadded<Mutex<Shard>>; SHARDS],
}

#[derive(Default)]
struct Shard {
    slots: HashMap<Arc<[u8]>, KeyEntry>,
    /// Keys in the order of their last use.
    order: BTreeMap<u64, Arc<[u8]>>,
    clock: u64,
}

/// Answers that are stored under one key.
struct KeyEntry {
    used: u64,
    bytes: u64,
    names: Vec<String>,
    /// Answers by the values of the headers in `names`; a single answer with an empty value if
    /// `names` is empty.
    variants: Vec<(Vec<u8>, Arc<CachedResponse>)>,
}

impl MemoryZone {
    pub fn new(bytes_max: u64) -> Self {
        let shards = std::array::from_fn(|_| CachePadded::default());
        let bytes = CachePadded::new(AtomicU64::new(0));
        Self { bytes_max, bytes, hasher: RandomState::new(), shards }
    }

    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Looks up the answer under a key. `signature` returns the request's values of the headers
    /// that it is given.
    pub fn find(&self, key: &[u8], signature: &dyn Fn(&[String]) -> Vec<u8>) -> CacheLookup {
        let mut shard = self.lock(self.shard_of(key));
        let stored = shard.touch(key).and_then(|slot| {
            let wanted = signature(&slot.names);
            let (_, stored) = slot.variants.iter().find(|(value, _)| *value == wanted)?;
            Some(Arc::clone(stored))
        });
        stored.map_or(CacheLookup::Miss(None), |stored| CacheLookup::Hit(stored, None))
    }

    /// Stores an answer; answers of the key that differ by other headers are dropped.
    pub fn keep(&self, key: &[u8], names: Vec<String>, signature: &[u8], stored: CachedResponse) {
        if stored.bytes() + key.len() as u64 > self.bytes_max {
            return;
        }
        let index = self.shard_of(key);
        let mut shard = self.lock(index);
        let mut variants = shard.remove(key).map_or(Vec::new(), |slot| {
            self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
            if slot.names == names { slot.variants } else { Vec::new() }
        });
        variants.retain(|(other, _)| other != signature);
        if variants.len() >= VARIANTS_MAX {
            variants.remove(0);
        }
        variants.push((signature.to_vec(), Arc::new(stored)));
        let sizes = variants.iter().map(|(value, stored)| value.len() as u64 + stored.bytes());
        let bytes = key.len() as u64 + sizes.sum::<u64>();
        shard.insert(key, KeyEntry { used: 0, bytes, names, variants });
        drop(shard);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.make_room(index);
    }

    /// Drops the answers of a key. Returns false if there were none.
    pub fn purge(&self, key: &[u8]) -> bool {
        let removed = self.lock(self.shard_of(key)).remove(key);
        if let Some(slot) = &removed {
            self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
        }
        removed.is_some()
    }

    /// Drops the least recently used answers, first in the table that grew, until all fit.
    fn make_room(&self, grown: usize) {
        for step in 0..SHARDS {
            let mut shard = self.lock((grown + step) % SHARDS);
            // The newest answer stays, unless it is too large alone.
            let spared = usize::from(step == 0);
            while self.bytes.load(Ordering::Relaxed) > self.bytes_max && shard.slots.len() > spared
            {
                let Some(slot) = shard.remove_oldest() else { break };
                self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
            }
        }
        if self.bytes.load(Ordering::Relaxed) > self.bytes_max
            && let Some(slot) = self.lock(grown).remove_oldest()
        {
            self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
        }
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        self.hasher.hash_one(key) as usize % SHARDS
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Returns the entry of a key, if any, and records its use now.
    fn touch(&mut self, key: &[u8]) -> Option<&KeyEntry> {
        let slot = self.slots.get_mut(key)?;
        let name = self.order.remove(&slot.used)?;
        self.clock += 1;
        slot.used = self.clock;
        self.order.insert(self.clock, name);
        Some(slot)
    }

    fn insert(&mut self, key: &[u8], mut slot: KeyEntry) {
        let name: Arc<[u8]> = key.into();
        self.clock += 1;
        slot.used = self.clock;
        self.order.insert(self.clock, Arc::clone(&name));
        self.slots.insert(name, slot);
    }

    fn remove(&mut self, key: &[u8]) -> Option<KeyEntry> {
        let slot = self.slots.remove(key)?;
        self.order.remove(&slot.used);
        Some(slot)
    }

    fn remove_oldest(&mut self) -> Option<KeyEntry> {
        let (_, name) = self.order.pop_first()?;
        self.slots.remove(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_cache::freshness::{Life, StaleUse};

    fn stored(body: &str) -> CachedResponse {
        CachedResponse {
            status: 200,
            headers: [].into(),
            body: body.as_bytes().to_vec().into(),
            left_out_bytes: None,
            stored_unix_ms: 0,
            life: Life { ttl_ms: 1, age_ms: 0 },
            stale_use: StaleUse::default(),
        }
    }

    fn body(zone: &MemoryZone, key: &str, value: &str) -> Option<String> {
        let found = zone.find(key.as_bytes(), &|names| match names {
            [] => Vec::new(),
            _ => value.into(),
        });
        match found {
            CacheLookup::Hit(stored, _) => Some(String::from_utf8_lossy(&stored.body).into()),
            CacheLookup::Miss(_) => None,
        }
    }

    #[test]
    fn what_was_asked_for_longest_ago_makes_room() {
        let one = stored(&"x".repeat(1_000)).bytes() + 1;
        let zone = MemoryZone::new(one * 20);
        for key in 0..100_u8 {
            zone.keep(&[key], Vec::new(), b"", stored(&"x".repeat(1_000)));
            assert!(zone.bytes.load(Ordering::Relaxed) <= zone.bytes_max);
            assert!(matches!(zone.find(&[key], &|_| Vec::new()), CacheLookup::Hit(..)), "{key}");
        }
        let left = (0..100_u8).filter(|key| zone.purge(&[*key])).count();
        assert_eq!(left, 20);
        assert_eq!(zone.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_larger_than_the_zone_is_not_kept() {
        let zone = MemoryZone::new(1_000);
        zone.keep(b"k", Vec::new(), b"", stored(&"x".repeat(1_000)));
        assert_eq!(body(&zone, "k", ""), None);
    }

    #[test]
    fn variants_stand_side_by_side_up_to_a_bound() {
        let zone = MemoryZone::new(1 << 20);
        let names = || vec!["accept".to_owned()];
        for number in 0..=VARIANTS_MAX {
            let value = format!("v{number}");
            zone.keep(b"k", names(), value.as_bytes(), stored(&value));
        }
        assert_eq!(body(&zone, "k", "v0"), None);
        assert_eq!(body(&zone, "k", "v1").as_deref(), Some("v1"));
        assert_eq!(body(&zone, "k", "v64").as_deref(), Some("v64"));
        // An answer that varies by nothing replaces them all.
        zone.keep(b"k", Vec::new(), b"", stored("plain"));
        assert_eq!(body(&zone, "k", "v1").as_deref(), Some("plain"));
        assert!(zone.purge(b"k") && !zone.purge(b"k"));
        assert_eq!(zone.bytes.load(Ordering::Relaxed), 0);
    }
}
