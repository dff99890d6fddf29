//! Table of the exact paths of all host levels.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tollhouse_stdx::{CowMap, Equivalent};

use crate::bucket::{Bucket, Candidate};

/// Candidates by level and path; a clone costs one reference count.
#[derive(Debug)]
pub(crate) struct ExactTable<T> {
    map: CowMap<ExactKey, Bucket<T>>,
}

/// Effect of a change on the number of paths in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    SamePaths,
    /// The number rose or fell by one.
    PathsChanged,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ExactKey {
    level: u64,
    path: KeyPath,
}

/// Maximum length of a path in bytes that is stored inline; a short key then has the size of a long
/// one.
const SHORT_BYTES: usize = 22;

/// Path of a key. A short one is compared without following a pointer, which with many routes would
/// cause a cache miss.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyPath {
    Short(u8, [u8; SHORT_BYTES]),
    Long(Arc<[u8]>),
}

impl KeyPath {
    fn new(path: &Arc<[u8]>) -> Self {
        let mut short = [0; SHORT_BYTES];
        match short.get_mut(..path.len()) {
            Some(start) => {
                start.copy_from_slice(path);
                Self::Short(path.len() as u8, short)
            }
            None => Self::Long(Arc::clone(path)),
        }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short(length, text) => text.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(text) => text,
        }
    }
}

struct ExactRef<'a> {
    level: u64,
    path: &'a [u8],
}

impl Hash for ExactKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ExactRef { level: self.level, path: self.path.as_bytes() }.hash(state);
    }
}

impl Hash for ExactRef<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // A single part of variable length needs no length prefix.
        state.write(self.path);
        state.write_u64(self.level);
    }
}

impl Equivalent<ExactKey> for ExactRef<'_> {
    #[inline]
    fn equivalent(&self, key: &ExactKey) -> bool {
        self.level == key.level && self.path == key.path.as_bytes()
    }
}

impl<T> Clone for ExactTable<T> {
    fn clone(&self) -> Self {
        Self { map: self.map.clone() }
    }
}

impl<T> ExactTable<T> {
    pub(crate) fn new() -> Self {
        Self { map: CowMap::new() }
    }

    #[inline]
    pub(crate) fn get(&self, level: u64, path: &[u8]) -> &[Candidate<T>] {
        self.map.get(&ExactRef { level, path }).map_or(&[], Bucket::candidates)
    }
}

impl<T: Clone> ExactTable<T> {
    pub(crate) fn insert(
        &mut self,
        level: u64,
        path: &Arc<[u8]>,
        candidate: Candidate<T>,
    ) -> Effect {
        let key = ExactRef { level, path };
        if self.map.contains_key(&key) {
            self.map.update(&key, |bucket| bucket.insert(candidate));
            return Effect::SamePaths;
        }
        let mut bucket = Bucket::default();
        bucket.insert(candidate);
        self.map.insert(ExactKey { level, path: KeyPath::new(path) }, bucket);
        Effect::PathsChanged
    }

    /// Removes every candidate of a route from the bucket of one path.
    pub(crate) fn remove(&mut self, level: u64, path: &[u8], sequence: u64) -> Effect {
        let key = ExactRef { level, path };
        let is_left_empty = self.map.update(&key, |bucket| {
            bucket.remove(sequence);
            bucket.is_empty()
        });
        if is_left_empty == Some(true) {
            self.map.remove(&key);
            return Effect::PathsChanged;
        }
        Effect::SamePaths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_the_same_in_their_keys_whether_short_or_long() {
        for length in 0..3 * SHORT_BYTES {
            let path: Arc<[u8]> = (0..length).map(|byte| byte as u8).collect();
            let key = KeyPath::new(&path);
            assert_eq!(key.as_bytes(), &*path);
            assert_eq!(matches!(key, KeyPath::Short(..)), length <= SHORT_BYTES);
        }
        assert_eq!(size_of::<KeyPath>(), size_of::<Arc<[u8]>>() + size_of::<usize>());
    }
}
