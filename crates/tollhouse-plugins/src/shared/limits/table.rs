//! Keyed state shared by all cores: counters, buckets, breakers.
//!
//! The table is sharded, and each shard has a mutex that is held for one update. A key is stored as
//! a 96-bit fingerprint with secret seeds, so that requests do not allocate and long keys cost no
//! memory. The table is bounded in bytes. Expired entries are evicted first, then those of lowest
//! rank of the owner with the most entries. A flood of keys therefore evicts only entries of the
//! same owner.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use foldhash::quality::{FoldHasher, RandomState};
use hashbrown::{HashMap, HashTable};

/// Number of shards: enough that some dozen cores rarely contend. An empty table takes 32 KiB.
const SHARDS: usize = 256;

/// Largest size of a table in bytes: half a million counters, more clients than one process limits
/// at a time.
const TABLE_BYTES_MAX: usize = 32 << 20;

/// Divisor of an eviction: the eighth part of an owner's keys goes at once, so that evictions are
/// rare.
const EVICTED_PART: usize = 8;

/// Fingerprint of a key, and its owner. Collisions are as unlikely as guessing a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    place: u64,
    check: u32,
    owner: u32,
}

/// Hashed prefix of all keys of an owner.
#[derive(Clone)]
pub(crate) struct Prefix {
    place: FoldHasher<'static>,
    check: FoldHasher<'static>,
    owner: u32,
}

// The hashers' state would reveal the seeds.
impl std::fmt::Debug for Prefix {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Prefix(***)")
    }
}

impl Prefix {
    /// Returns the fingerprint of a key given in parts. Each part but the last is followed by its
    /// length, so that different parts never give the same text. The last part needs no length,
    /// because an owner always uses an equal number of parts; this saves a third of the cost of
    /// hashing a short key.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> Tag {
        let (mut place, mut check) = (self.place.clone(), self.check.clone());
        for (index, part) in parts.iter().enumerate() {
            for hasher in [&mut place, &mut check] {
                hasher.write(part);
                if index + 1 < parts.len() {
                    hasher.write_usize(part.len());
                }
            }
        }
        Tag { place: place.finish(), check: (check.finish() >> 32) as u32, owner: self.owner }
    }
}

/// State of one key, which the table may evict.
pub(crate) trait Entry {
    /// Whether the value equals an absent one and may be removed.
    fn is_over(&self, now_ms: u64) -> bool;
    /// Returns the eviction order: lower ranks first; `u64::MAX` is never evicted.
    fn rank(&self) -> u64;
}

type Shard<V> = HashTable<(Tag, V)>;

#[derive(Debug)]
pub(crate) struct Table<V> {
    /// Each in lines of its own, so that cores with different keys do not disturb each other.
    shards: Box<[CachePadded<Mutex<Shard<V>>>]>,
    seeds: (RandomState, RandomState),
    entries: AtomicUsize,
}

impl<V: Entry> Table<V> {
    /// Largest number of keys per shard: seven eighths of its slots. The number of slots is a power
    /// of two, and each slot needs one more byte.
    const ENTRIES_PER_SHARD_MAX: usize = {
        let places = TABLE_BYTES_MAX / SHARDS / (size_of::<(Tag, V)>() + 1);
        (1 << places.ilog2()) / 8 * 7
    };

    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(HashTable::new()).into()).collect(),
            seeds: (RandomState::default(), RandomState::default()),
            entries: AtomicUsize::new(0),
        }
    }

    /// Returns the hashed prefix for keys of `owner`.
    pub(crate) fn prefix(&self, owner: &str) -> Prefix {
        let begun = |seed: &RandomState| {
            let mut hasher = seed.build_hasher();
            hasher.write(owner.as_bytes());
            hasher.write_usize(owner.len());
            hasher
        };
        let (place, check) = (begun(&self.seeds.0), begun(&self.seeds.1));
        Prefix { owner: (place.finish() >> 32) as u32, place, check }
    }

    /// Whether the table is empty; needs no lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.load(Ordering::Acquire) == 0
    }

    /// Calls `update` on the value of `tag`. A missing or expired value is created first.
    pub(crate) fn update<R>(
        &self,
        tag: Tag,
        now_ms: u64,
        make: impl FnOnce() -> V,
        update: impl FnOnce(&mut V) -> R,
    ) -> R {
        let mut shard = self.shard(tag);
        if let Some((_, value)) = shard.find_mut(tag.place, |(other, _)| *other == tag) {
            if value.is_over(now_ms) {
                *value = make();
            }
            return update(value);
        }
        if shard.len() >= Self::ENTRIES_PER_SHARD_MAX {
            let gone = make_room(&mut shard, now_ms);
            self.entries.fetch_sub(gone, Ordering::AcqRel);
        }
        let mut value = make();
        let result = update(&mut value);
        shard.insert_unique(tag.place, (tag, value), |(tag, _)| tag.place);
        self.entries.fetch_add(1, Ordering::AcqRel);
        result
    }

    /// Calls `update` on the value of `tag`, if it exists and has not expired. [`After::Gone`]
    /// removes it.
    pub(crate) fn change<R>(
        &self,
        tag: Tag,
        now_ms: u64,
        update: impl FnOnce(&mut V) -> (R, After),
    ) -> Option<R> {
        let mut shard = self.shard(tag);
        let mut found = shard.find_entry(tag.place, |(other, _)| *other == tag).ok()?;
        if found.get().1.is_over(now_ms) {
            return None;
        }
        let (result, after) = update(&mut found.get_mut().1);
        if after == After::Gone {
            found.remove();
            self.entries.fetch_sub(1, Ordering::AcqRel);
        }
        Some(result)
    }

    fn shard(&self, tag: Tag) -> MutexGuard<'_, Shard<V>> {
        // The hash table inside the shard uses other bits.
        let index = tag.check as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.load(Ordering::Acquire)
    }
}

/// Treatment of a value after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Kept,
    Gone,
}

/// Removes expired values, or else a fraction of those of the largest owner. Returns the number of
/// removed values.
fn make_room<V: Entry>(shard: &mut Shard<V>, now_ms: u64) -> usize {
    let before = shard.len();
    shard.retain(|(_, value)| !value.is_over(now_ms));
    if shard.len() < before {
        return before - shard.len();
    }
    let mut counts: HashMap<u32, usize> = HashMap::new();
    shard.iter().for_each(|(tag, _)| *counts.entry(tag.owner).or_default() += 1);
    let Some((owner, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return 0 };
    let own = shard.iter().filter(|(tag, _)| tag.owner == owner);
    let mut ranks: Vec<u64> = own.map(|(_, value)| value.rank()).collect();
    let (_, limit, _) = ranks.select_nth_unstable(count / EVICTED_PART);
    let limit = *limit;
    let mut left = count / EVICTED_PART + 1;
    shard.retain(|(tag, value)| {
        let rank = value.rank();
        let goes = left > 0 && tag.owner == owner && rank <= limit && rank != u64::MAX;
        left -= usize::from(goes);
        !goes
    });
    before - shard.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Until(u64);

    impl Entry for Until {
        fn is_over(&self, now_ms: u64) -> bool {
            self.0 <= now_ms
        }

        fn rank(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn keys_of_owners_and_parts_do_not_meet() {
        let table: Table<Until> = Table::new();
        let (a, b) = (table.prefix("a"), table.prefix("b"));
        let tags = [
            a.tag(&[b"x"]),
            b.tag(&[b"x"]),
            a.tag(&[b"x", b""]),
            a.tag(&[b"", b"x"]),
            a.tag(&[b"xy"]),
            a.tag(&[b"x", b"y"]),
        ];
        for (index, tag) in tags.iter().enumerate() {
            assert!(tags[..index].iter().all(|other| other != tag), "{index}");
        }
        assert_eq!(a.tag(&[b"x"]), table.prefix("a").tag(&[b"x"]));
    }

    #[test]
    fn what_is_over_begins_anew() {
        let table = Table::new();
        let tag = table.prefix("a").tag(&[b"x"]);
        assert_eq!(table.update(tag, 0, || Until(10), |value| value.0), 10);
        assert_eq!(table.update(tag, 9, || Until(20), |value| value.0), 10);
        assert_eq!(table.update(tag, 10, || Until(20), |value| value.0), 20);
        assert_eq!(table.len(), 1);
        assert_eq!(table.change(tag, 20, |value| (value.0, After::Kept)), None);
        assert_eq!(table.change(tag, 19, |value| (value.0, After::Gone)), Some(20));
        assert!(table.is_empty());
    }

    #[test]
    fn the_number_of_keys_is_bounded_and_the_longest_lived_stay() {
        let table = Table::new();
        let prefix = table.prefix("a");
        let keys_max = (SHARDS * Table::<Until>::ENTRIES_PER_SHARD_MAX) as u64;
        let last = prefix.tag(&[b"last"]);
        table.update(last, 0, || Until(u64::MAX), |_| ());
        for key in 0..keys_max + keys_max / 4 {
            table.update(prefix.tag(&[&key.to_le_bytes()]), 0, || Until(1000 + key), |_| ());
        }
        assert!(table.len() as u64 <= keys_max, "{}", table.len());
        assert!(table.len() as u64 > keys_max / 2, "{}", table.len());
        assert!(table.change(last, 0, |_| ((), After::Kept)).is_some());
    }

    #[test]
    fn a_flood_of_one_owners_keys_pushes_out_none_of_anothers() {
        let table = Table::new();
        let (quiet, loud) = (table.prefix("quiet"), table.prefix("loud"));
        let keys_max = (SHARDS * Table::<Until>::ENTRIES_PER_SHARD_MAX) as u64;
        for key in 0..1_000_u64 {
            table.update(quiet.tag(&[&key.to_le_bytes()]), 0, || Until(10), |_| ());
        }
        for key in 0..keys_max + keys_max / 4 {
            table.update(loud.tag(&[&key.to_le_bytes()]), 0, || Until(1_000), |_| ());
        }
        for key in 0..1_000_u64 {
            let tag = quiet.tag(&[&key.to_le_bytes()]);
            assert!(table.change(tag, 0, |_| ((), After::Kept)).is_some(), "{key}");
        }
    }

    #[test]
    fn a_full_table_stays_within_its_bytes() {
        let places = (Table::<Until>::ENTRIES_PER_SHARD_MAX / 7 * 8).next_power_of_two();
        assert!(places * SHARDS * (size_of::<(Tag, Until)>() + 1) <= TABLE_BYTES_MAX);
    }
}
