//! Vector with cheap clones, indexed by slot number; a clone costs one reference count.
//!
//! Counterpart of the copy-on-write map for dense numbers: a change copies one chunk of
//! [`CHUNK_SLOTS`] values, one branch of as many chunk pointers and the list of branches. Slots are
//! never removed from the middle; a caller that frees slots keeps a free list and stores an empty
//! value.

use std::fmt;
use std::sync::Arc;

/// Number of values per chunk, and of chunks per branch: balances the copies per change against the
/// length of the list of branches.
pub const CHUNK_SLOTS: usize = 64;

/// Number of slots of a full branch.
const BRANCH_SLOTS: usize = CHUNK_SLOTS * CHUNK_SLOTS;

/// A persistent vector; see the module.
pub struct CowVec<T> {
    root: Arc<Root<T>>,
}

impl<T> CowVec<T> {
    pub fn new() -> Self {
        Self { root: Arc::new(Root { branches: Vec::new(), len: 0 }) }
    }

    pub fn len(&self) -> u32 {
        self.root.len
    }

    pub fn is_empty(&self) -> bool {
        self.root.len == 0
    }

    /// Returns the value in `slot`; `None` if the slot does not exist.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&T> {
        let slot = slot as usize;
        let branch = self.root.branches.get(slot / BRANCH_SLOTS)?;
        branch.get(slot / CHUNK_SLOTS % CHUNK_SLOTS)?.get(slot % CHUNK_SLOTS)
    }

    /// Iterates over the values in slot order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.root.chunks().flat_map(|chunk| chunk.iter())
    }

    /// Whether both vectors share one version; vectors with equal values may still be different
    /// versions.
    pub fn is_same_version(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root)
    }
}

impl<T: Clone> CowVec<T> {
    /// Appends a value and returns its slot.
    pub fn push(&mut self, value: T) -> u32 {
        let root = Arc::make_mut(&mut self.root);
        let slot = root.len;
        root.len = slot.checked_add(1).expect("memory ends before four billion slots do");
        let slot_index = slot as usize;
        if slot_index.is_multiple_of(BRANCH_SLOTS) {
            root.branches.push(Arc::default());
        }
        let branch = root.branches.last_mut().expect("a branch was begun with its first slot");
        let branch = Arc::make_mut(branch);
        if slot_index.is_multiple_of(CHUNK_SLOTS) {
            branch.push(Arc::default());
        }
        let chunk = branch.last_mut().expect("a chunk was begun with its first slot");
        Arc::make_mut(chunk).push(value);
        slot
    }

    /// Sets the value of `slot` and returns the old one.
    ///
    /// # Errors
    /// If the slot does not exist; the error holds `value`.
    pub fn set(&mut self, slot: u32, value: T) -> Result<T, T> {
        if slot >= self.root.len {
            return Err(value);
        }
        Ok(std::mem::replace(Arc::make_mut(&mut self.root).slot_mut(slot), value))
    }

    /// Changes the value of `slot` in place and returns the result of `change`; `None`, without
    /// copying, if the slot does not exist.
    pub fn update<R>(&mut self, slot: u32, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        if slot >= self.root.len {
            return None;
        }
        Some(change(Arc::make_mut(&mut self.root).slot_mut(slot)))
    }

    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let root = Arc::make_mut(&mut self.root);
        let branch = Arc::make_mut(root.branches.last_mut()?);
        let chunk = Arc::make_mut(branch.last_mut()?);
        let value = chunk.pop();
        if chunk.is_empty() {
            branch.pop();
        }
        if branch.is_empty() {
            root.branches.pop();
        }
        root.len -= 1;
        value
    }
}

impl<T> Clone for CowVec<T> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root) }
    }
}

impl<T> Default for CowVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for CowVec<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Clone> FromIterator<T> for CowVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut slots = Self::new();
        for value in values {
            slots.push(value);
        }
        slots
    }
}

type Chunk<T> = Arc<Vec<T>>;

struct Root<T> {
    /// All branches and chunks are full but the last, which is never empty.
    branches: Vec<Arc<Vec<Chunk<T>>>>,
    len: u32,
}

impl<T> Root<T> {
    fn chunks(&self) -> impl Iterator<Item = &Chunk<T>> {
        self.branches.iter().flat_map(|branch| branch.iter())
    }
}

impl<T: Clone> Root<T> {
    /// Returns the value of an existing slot, after copying its chunk if other versions share it.
    fn slot_mut(&mut self, slot: u32) -> &mut T {
        let slot = slot as usize;
        let branch = Arc::make_mut(&mut self.branches[slot / BRANCH_SLOTS]);
        let chunk = Arc::make_mut(&mut branch[slot / CHUNK_SLOTS % CHUNK_SLOTS]);
        &mut chunk[slot % CHUNK_SLOTS]
    }
}

impl<T> Clone for Root<T> {
    fn clone(&self) -> Self {
        Self { branches: self.branches.clone(), len: self.len }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clone_taken_before_a_change_is_unaffected() {
        let mut slots: CowVec<u32> = (0..1_000).collect();
        let before = slots.clone();
        assert_eq!(slots.set(500, 7), Ok(500));
        assert_eq!(slots.push(1_000), 1_000);
        assert_eq!(before.get(500), Some(&500));
        assert_eq!(before.len(), 1_000);
        assert_eq!(slots.get(500), Some(&7));
        let shared = std::iter::zip(before.root.chunks(), slots.root.chunks())
            .filter(|(old, new)| Arc::ptr_eq(old, new))
            .count();
        assert_eq!(shared, before.root.chunks().count() - 2, "one set, one grown");
    }

    #[test]
    fn a_slot_that_is_not_there_changes_nothing() {
        let mut slots: CowVec<u32> = (0..3).collect();
        let before = slots.clone();
        assert_eq!(slots.get(3), None);
        assert_eq!(slots.set(3, 9), Err(9));
        assert_eq!(slots.update(u32::MAX, |value| *value += 1), None);
        assert!(slots.is_same_version(&before));
    }

    #[test]
    fn slots_pass_the_borders_of_chunks_and_branches_both_ways() {
        let count = 2 * BRANCH_SLOTS as u32 + 1;
        let mut slots: CowVec<u32> = (0..count).collect();
        assert_eq!(slots.root.branches.len(), 3);
        assert!((0..count).all(|slot| slots.get(slot) == Some(&slot)));
        assert_eq!(slots.get(count), None);
        assert_eq!(slots.update(count - 2, std::mem::take), Some(count - 2));
        assert_eq!(slots.set(count - 2, count - 2), Ok(0));
        for slot in (0..count).rev() {
            assert_eq!(slots.pop(), Some(slot));
        }
        assert_eq!((slots.pop(), slots.root.branches.len()), (None, 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(u8),
        Pop,
        Set(u32, u8),
        Branch,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => any::<u8>().prop_map(Step::Push),
            2 => Just(Step::Pop),
            2 => (0..300_u32, any::<u8>()).prop_map(|(slot, value)| Step::Set(slot, value)),
            1 => Just(Step::Branch),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_version_behaves_like_a_vec(steps in prop::collection::vec(step(), 0..400)) {
            let mut slots = CowVec::new();
            let mut model: Vec<u8> = Vec::new();
            let mut branches = Vec::new();
            for step in steps {
                match step {
                    Step::Push(value) => {
                        prop_assert_eq!(slots.push(value) as usize, model.len());
                        model.push(value);
                    }
                    Step::Pop => prop_assert_eq!(slots.pop(), model.pop()),
                    Step::Set(slot, value) => {
                        let expected = model
                            .get_mut(slot as usize)
                            .map(|stored| std::mem::replace(stored, value))
                            .ok_or(value);
                        prop_assert_eq!(slots.set(slot, value), expected);
                    }
                    Step::Branch => branches.push((slots.clone(), model.clone())),
                }
            }
            branches.push((slots, model));
            for (slots, model) in &branches {
                prop_assert_eq!(slots.len() as usize, model.len());
                prop_assert!(slots.iter().eq(model.iter()));
                for slot in 0..300 {
                    prop_assert_eq!(slots.get(slot), model.get(slot as usize));
                }
            }
        }
    }
}
