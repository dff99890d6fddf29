//! Hash map with cheap clones: versions share their shards, and a clone costs one reference count.
//!
//! Made for snapshots: readers use an immutable version while the next version is derived from it.
//! A change copies one shard of about [`SHARD_ENTRIES_TARGET`] entries, one branch of 64 shard
//! pointers and the list of branches, never the whole map. It therefore leaves the other reference
//! counts alone, which share cache lines with data of readers. Iteration order is undefined. Not a
//! concurrent map: a version is changed only through `&mut`, and its owner publishes it.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;
pub use hashbrown::Equivalent;
use hashbrown::HashTable;

/// Mean number of entries per shard at which the number of shards doubles. Copying a shard of
/// pointers of this size takes less than a microsecond, and the shard table stays small enough to
/// copy.
pub const SHARD_ENTRIES_TARGET: usize = 48;

/// Mean number of entries per shard below which the number of shards halves; far enough below half
/// of [`SHARD_ENTRIES_TARGET`] that a single entry cannot cause resharding repeatedly.
const SHARD_ENTRIES_LOW: usize = 6;

/// Number of shards per branch: about the square root of the number of shards in large maps.
const BRANCH_SHARDS: usize = 64;

/// Lowest bit of the hash that selects the shard. The table inside a shard uses the bits below as
/// index and the seven highest as tags, so that the three uses do not overlap.
const SHARD_HASH_SHIFT: u32 = 24;

/// Maximum number of shards: the bits left between the other two uses of the hash.
const SHARDS_MAX: usize = 1 << 32;

/// A persistent hash map; see the module.
pub struct CowMap<K, V> {
    root: Arc<Root<K, V>>,
}

impl<K, V> CowMap<K, V> {
    /// Creates an empty map with separate random hash seeds.
    pub fn new() -> Self {
        Self { root: Arc::new(Root::with_shards(1, RandomState::default())) }
    }

    /// Creates an empty map that holds `entries` without resharding.
    pub fn with_capacity(entries: usize) -> Self {
        let shards = entries.div_ceil(SHARD_ENTRIES_TARGET).next_power_of_two().min(SHARDS_MAX);
        Self { root: Arc::new(Root::with_shards(shards, RandomState::default())) }
    }

    pub fn len(&self) -> usize {
        self.root.len
    }

    pub fn is_empty(&self) -> bool {
        self.root.len == 0
    }

    /// Iterates over the entries, in undefined order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.root.shards().flat_map(|shard| shard.iter()).map(|(key, value)| (key, value))
    }

    /// Iterates over the keys, in undefined order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Iterates over the values, in undefined order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Whether both maps share one version; maps with equal entries may still be different
    /// versions.
    pub fn is_same_version(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root)
    }
}

impl<K: Hash + Eq, V> CowMap<K, V> {
    /// Returns the value of `key`; one hash, one probe, no allocation. The key may be a borrowed
    /// form that hashes alike and is [`Equivalent`].
    #[inline]
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<&V> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// Returns the stored key and value for `key`.
    #[inline]
    pub fn get_key_value<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<(&K, &V)> {
        let hash = self.root.hasher.hash_one(key);
        self.root
            .shard(hash)
            .find(hash, |(stored, _)| key.equivalent(stored))
            .map(|(key, value)| (key, value))
    }

    #[inline]
    pub fn contains_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.get_key_value(key).is_some()
    }
}

impl<K: Hash + Eq + Clone, V: Clone> CowMap<K, V> {
    /// Sets the value of `key` and returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let root = Arc::make_mut(&mut self.root);
        let hash = root.hasher.hash_one(&key);
        let hasher = root.hasher.clone();
        let shard = root.shard_mut(hash);
        if let Some((_, stored)) = shard.find_mut(hash, |(stored, _)| *stored == key) {
            return Some(std::mem::replace(stored, value));
        }
        shard.insert_unique(hash, (key, value), |(key, _)| hasher.hash_one(key));
        root.len += 1;
        let shards = root.shard_count();
        if root.len > shards * SHARD_ENTRIES_TARGET && shards < SHARDS_MAX {
            root.reshard(shards * 2);
        }
        None
    }

    /// Removes `key` and returns its value. Copies nothing if the key is absent.
    pub fn remove<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<V> {
        if !self.contains_key(key) {
            return None;
        }
        let root = Arc::make_mut(&mut self.root);
        let hash = root.hasher.hash_one(key);
        let shard = root.shard_mut(hash);
        let entry = shard.find_entry(hash, |(stored, _)| key.equivalent(stored)).ok()?;
        let ((_, value), _) = entry.remove();
        root.len -= 1;
        let shards = root.shard_count();
        if shards > 1 && root.len < shards * SHARD_ENTRIES_LOW {
            root.reshard(shards / 2);
        }
        Some(value)
    }

    /// Changes the value of `key` in place and returns the result of `change`; `None`, without
    /// copying, if the key is absent.
    pub fn update<Q, R>(&mut self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        if !self.contains_key(key) {
            return None;
        }
        let root = Arc::make_mut(&mut self.root);
        let hash = root.hasher.hash_one(key);
        let shard = root.shard_mut(hash);
        shard.find_mut(hash, |(stored, _)| key.equivalent(stored)).map(|(_, value)| change(value))
    }
}

impl<K, V> Clone for CowMap<K, V> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root) }
    }
}

impl<K, V> Default for CowMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for CowMap<K, V> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Hash + Eq + Clone, V: Clone> FromIterator<(K, V)> for CowMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

type Shard<K, V> = HashTable<(K, V)>;

type Branch<K, V> = Arc<[Arc<Shard<K, V>>]>;

struct Root<K, V> {
    /// Branches of equal length, a power of two; their number is a power of two too.
    branches: Box<[Branch<K, V>]>,
    /// Number of shards minus one, as a bit mask.
    mask: usize,
    len: usize,
    hasher: RandomState,
}

impl<K, V> Root<K, V> {
    fn with_shards(shards: usize, hasher: RandomState) -> Self {
        // All shards start as the same empty shard; the first insertion separates each.
        let empty = Arc::new(Shard::new());
        let branch: Branch<K, V> = vec![empty; shards.min(BRANCH_SHARDS)].into();
        let branches = vec![branch; shards.div_ceil(BRANCH_SHARDS)].into_boxed_slice();
        Self { branches, mask: shards - 1, len: 0, hasher }
    }

    fn shard_count(&self) -> usize {
        self.mask + 1
    }

    fn shards(&self) -> impl Iterator<Item = &Arc<Shard<K, V>>> {
        self.branches.iter().flat_map(|branch| branch.iter())
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard<K, V> {
        let index = shard_index(hash, self.mask);
        &self.branches[index / BRANCH_SHARDS][index % BRANCH_SHARDS]
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Root<K, V> {
    fn shard_mut(&mut self, hash: u64) -> &mut Shard<K, V> {
        let index = shard_index(hash, self.mask);
        let branch = Arc::make_mut(&mut self.branches[index / BRANCH_SHARDS]);
        Arc::make_mut(&mut branch[index % BRANCH_SHARDS])
    }

    fn reshard(&mut self, shards: usize) {
        let mut next: Vec<Shard<K, V>> = Vec::with_capacity(shards);
        next.resize_with(shards, Shard::new);
        let hasher = &self.hasher;
        let hash_of = |entry: &(K, V)| hasher.hash_one(&entry.0);
        for shard in self.shards() {
            for entry in shard.iter() {
                let hash = hash_of(entry);
                next[shard_index(hash, shards - 1)].insert_unique(hash, entry.clone(), hash_of);
            }
        }
        let next: Vec<Arc<Shard<K, V>>> = next.into_iter().map(Arc::new).collect();
        self.branches = next.chunks(BRANCH_SHARDS).map(Arc::from).collect();
        self.mask = shards - 1;
    }
}

impl<K, V> Clone for Root<K, V> {
    fn clone(&self) -> Self {
        let hasher = self.hasher.clone();
        Self { branches: self.branches.clone(), mask: self.mask, len: self.len, hasher }
    }
}

#[inline]
fn shard_index(hash: u64, mask: usize) -> usize {
    (hash >> SHARD_HASH_SHIFT) as usize & mask
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct EdgeKey(u32, Box<[u8]>);

    #[derive(Hash)]
    struct EdgeKeyRef<'a>(u32, &'a [u8]);

    impl Equivalent<EdgeKey> for EdgeKeyRef<'_> {
        fn equivalent(&self, key: &EdgeKey) -> bool {
            self.0 == key.0 && *self.1 == *key.1
        }
    }

    #[test]
    fn a_borrowed_compound_key_finds_the_entry() {
        let mut map = CowMap::new();
        map.insert(EdgeKey(7, (*b"users").into()), "seven");
        assert_eq!(map.get(&EdgeKeyRef(7, b"users")), Some(&"seven"));
        assert_eq!(map.get(&EdgeKeyRef(8, b"users")), None);
        assert_eq!(map.get(&EdgeKeyRef(7, b"user")), None);
    }

    #[test]
    fn a_clone_taken_before_a_change_is_unaffected() {
        let mut map: CowMap<u32, u32> = (0..10_000).map(|key| (key, key)).collect();
        let before = map.clone();
        assert!(before.is_same_version(&map));
        for key in 0..5_000 {
            map.remove(&key);
        }
        for key in 5_000..20_000 {
            map.insert(key, 1);
        }
        assert_eq!(before.len(), 10_000);
        assert!((0..10_000).all(|key| before.get(&key) == Some(&key)));
        assert_eq!(map.len(), 15_000);
        assert!(!before.is_same_version(&map));
    }

    #[test]
    fn a_change_copies_one_shard_and_one_branch() {
        let map: CowMap<u32, u32> = (0..10_000).map(|key| (key, key)).collect();
        let mut next = map.clone();
        next.insert(5, 500);
        let copied = std::iter::zip(map.root.shards(), next.root.shards())
            .filter(|(before, after)| !Arc::ptr_eq(before, after));
        assert_eq!(copied.count(), 1);
        let copied = std::iter::zip(&map.root.branches, &next.root.branches)
            .filter(|(before, after)| !Arc::ptr_eq(before, after));
        assert_eq!((map.root.branches.len(), copied.count()), (4, 1));
    }

    #[test]
    fn a_change_of_nothing_copies_nothing() {
        let map: CowMap<u32, u32> = (0..100).map(|key| (key, key)).collect();
        let mut next = map.clone();
        assert_eq!(next.remove(&1_000), None);
        assert_eq!(next.update(&1_000, |value| *value += 1), None);
        assert!(next.is_same_version(&map));
    }

    #[test]
    fn shards_follow_the_number_of_entries_both_ways() {
        let mut map: CowMap<u32, ()> = (0..10_000).map(|key| (key, ())).collect();
        let fullest = map.root.shards().map(|shard| shard.len()).max();
        assert!(fullest < Some(2 * SHARD_ENTRIES_TARGET), "{fullest:?}");
        assert!(map.root.shard_count() <= 512);
        for key in 0..10_000 {
            map.remove(&key);
        }
        assert_eq!(map.root.shard_count(), 1);
        assert!(map.is_empty());
    }

    #[test]
    fn a_map_of_known_size_never_reshards() {
        let mut map = CowMap::with_capacity(1_000);
        let shards = map.root.shard_count();
        for key in 0..1_000 {
            map.insert(key, ());
        }
        assert_eq!(map.root.shard_count(), shards);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16, u32),
        Remove(u16),
        Update(u16, u32),
        Branch,
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = 0..400_u16;
        prop_oneof![
            6 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
            3 => key.clone().prop_map(Step::Remove),
            2 => (key, any::<u32>()).prop_map(|(key, value)| Step::Update(key, value)),
            1 => Just(Step::Branch),
        ]
    }

    fn assert_same(map: &CowMap<u16, u32>, model: &HashMap<u16, u32>) {
        assert_eq!(map.len(), model.len());
        let listed: HashMap<u16, u32> = map.iter().map(|(key, value)| (*key, *value)).collect();
        assert_eq!(&listed, model);
        for key in 0..400 {
            assert_eq!(map.get(&key), model.get(&key));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_version_behaves_like_a_hash_map(steps in prop::collection::vec(step(), 0..600)) {
            let mut map = CowMap::new();
            let mut model = HashMap::new();
            let mut branches = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                    }
                    Step::Remove(key) => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    Step::Update(key, value) => {
                        let old = map.update(&key, |stored| std::mem::replace(stored, value));
                        let expected =
                            model.get_mut(&key).map(|stored| std::mem::replace(stored, value));
                        prop_assert_eq!(old, expected);
                    }
                    Step::Branch => branches.push((map.clone(), model.clone())),
                }
            }
            branches.push((map, model));
            for (map, model) in &branches {
                assert_same(map, model);
            }
        }
    }
}
