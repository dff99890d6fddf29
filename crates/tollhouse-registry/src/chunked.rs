//! A list of shared objects in chunks that cache their encoded form. A change rebuilds one chunk;
//! all other chunks, with their cached bytes, are shared between the versions.

use std::sync::Arc;

use tollhouse_stdx::CowVec;

use crate::encoded::Encoded;

/// Objects per chunk. A change encodes a whole chunk again, and a response is concatenated from
/// chunks: the value balances the two costs.
pub const CHUNK_OBJECTS: usize = 64;

/// Consecutive objects of a list, with the forms in which a dialect encodes them.
#[derive(Debug)]
pub struct Chunk<T> {
    objects: Vec<Arc<T>>,
    /// Encoding of all objects of the chunk.
    pub encoded: Encoded,
    /// Encoded form of those objects that a dialect selects.
    pub selected: Encoded,
}

/// List of shared objects in chunks; see the module. Cloning costs one reference count.
#[derive(Debug)]
pub struct Chunked<T> {
    chunks: CowVec<Arc<Chunk<T>>>,
    len: u32,
}

impl<T> Chunk<T> {
    pub fn objects(&self) -> &[Arc<T>] {
        &self.objects
    }

    fn change<R>(&mut self, change: impl FnOnce(&mut Vec<Arc<T>>) -> R) -> R {
        self.encoded = Encoded::default();
        self.selected = Encoded::default();
        change(&mut self.objects)
    }
}

impl<T> Chunked<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: CowVec::new(), len: 0 }
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over all objects. The order depends on the version alone.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.chunks().flat_map(|chunk| chunk.objects.iter())
    }

    /// Iterates over all chunks, in the order of [`Self::iter`].
    pub fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk<T>>> {
        self.chunks.iter()
    }

    /// Returns the chunk at an index.
    pub fn chunk(&self, place: u32) -> Option<&Arc<Chunk<T>>> {
        self.chunks.get(place)
    }

    /// Returns the old and the new objects of all chunks that two versions do not share; objects
    /// outside them are equal in both.
    pub fn difference<'a>(&'a self, before: &'a Self) -> (Vec<&'a Arc<T>>, Vec<&'a Arc<T>>) {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for place in 0..self.chunks.len().max(before.chunks.len()) {
            let (was, is) = (before.chunks.get(place), self.chunks.get(place));
            let is_shared = matches!((was, is), (Some(was), Some(is)) if Arc::ptr_eq(was, is));
            if !is_shared {
                old.extend(was.into_iter().flat_map(|chunk| chunk.objects.iter()));
                new.extend(is.into_iter().flat_map(|chunk| chunk.objects.iter()));
            }
        }
        (old, new)
    }

    /// Appends an object and returns its slot.
    pub(crate) fn push(&mut self, object: Arc<T>) -> u32 {
        let slot = self.len;
        if (slot as usize).is_multiple_of(CHUNK_OBJECTS) {
            self.chunks.push(Arc::new(Chunk::default()));
        }
        self.change(slot, |objects, place| {
            debug_assert_eq!(objects.len(), place, "all chunks but the last are full");
            objects.push(object);
        });
        self.len += 1;
        slot
    }

    /// Puts an object into a slot and returns the previous one; returns `object` itself if the slot
    /// does not exist.
    pub(crate) fn set(&mut self, slot: u32, object: Arc<T>) -> Arc<T> {
        if slot >= self.len {
            return object;
        }
        let mut put = object;
        self.change(slot, |objects, place| std::mem::swap(&mut objects[place], &mut put));
        put
    }

    /// Removes the object of a slot. The last object moves into the slot, and is returned as well
    /// if it moved.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<(Arc<T>, Option<Arc<T>>)> {
        let last = self.pop()?;
        if slot >= self.len {
            return Some((last, None));
        }
        let removed = self.set(slot, Arc::clone(&last));
        Some((removed, Some(last)))
    }

    fn pop(&mut self) -> Option<Arc<T>> {
        let slot = self.len.checked_sub(1)?;
        let object = self.change(slot, |objects, _| objects.pop()).flatten();
        if (slot as usize).is_multiple_of(CHUNK_OBJECTS) {
            self.chunks.pop();
        }
        self.len = slot;
        object
    }

    /// Changes the chunk that holds a slot; the callback gets the slot's index within the chunk.
    fn change<R>(
        &mut self,
        slot: u32,
        change: impl FnOnce(&mut Vec<Arc<T>>, usize) -> R,
    ) -> Option<R> {
        let place = slot as usize % CHUNK_OBJECTS;
        self.chunks.update(slot / CHUNK_OBJECTS as u32, |chunk| {
            Arc::make_mut(chunk).change(|objects| change(objects, place))
        })
    }
}

impl<T> Clone for Chunk<T> {
    /// Returns a copy without the cached encodings, because a chunk is cloned only to be changed.
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), ..Self::default() }
    }
}

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Self { objects: Vec::new(), encoded: Encoded::default(), selected: Encoded::default() }
    }
}

impl<T> Clone for Chunked<T> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tollhouse_stdx::Random;

    use super::*;

    fn encode(list: &Chunked<u32>) {
        list.chunks().for_each(|chunk| drop(chunk.encoded.get_or_encode(Bytes::new).clone()));
    }

    /// Counts the objects that an answer would have to encode now.
    fn unencoded(list: &Chunked<u32>) -> usize {
        let chunks = list.chunks().filter(|chunk| chunk.encoded.get().is_none());
        chunks.map(|chunk| chunk.objects().len()).sum()
    }

    #[test]
    fn a_change_among_ten_thousand_leaves_a_chunk_to_encode() {
        let mut list = Chunked::new();
        for number in 0..10_000 {
            list.push(Arc::new(number));
        }
        encode(&list);
        let before = list.clone();
        list.set(5_000, Arc::new(7));
        assert_eq!((unencoded(&list), unencoded(&before)), (CHUNK_OBJECTS, 0));
        encode(&list);
        list.push(Arc::new(8));
        assert!(unencoded(&list) <= CHUNK_OBJECTS);
        encode(&list);
        list.remove(100);
        assert!(unencoded(&list) <= 2 * CHUNK_OBJECTS);
        let (old, new) = list.difference(&before);
        assert!(old.len() <= 3 * CHUNK_OBJECTS && new.len() <= 3 * CHUNK_OBJECTS);
    }

    #[test]
    fn random_changes_agree_with_a_plain_vector() {
        let mut random = Random::seeded(1);
        let (mut list, mut model) = (Chunked::new(), Vec::new());
        for number in 0..20_000 {
            let slot = random.below(model.len() as u32 + 1);
            match random.below(8) {
                0..4 => {
                    assert_eq!(list.push(Arc::new(number)) as usize, model.len());
                    model.push(number);
                }
                4..6 if (slot as usize) < model.len() => {
                    let replaced = std::mem::replace(&mut model[slot as usize], number);
                    assert_eq!(*list.set(slot, Arc::new(number)), replaced);
                }
                _ if (slot as usize) < model.len() => {
                    let (removed, moved) = list.remove(slot).expect("there");
                    assert_eq!(*removed, model.swap_remove(slot as usize));
                    assert_eq!(moved.as_deref(), model.get(slot as usize));
                }
                _ => {}
            }
            assert_eq!(list.len() as usize, model.len());
        }
        assert!(list.iter().map(|object| **object).eq(model));
        while list.remove(0).is_some() {}
        assert!(list.is_empty() && list.chunks().next().is_none());
    }
}
