//! Per-request memory of plugins: values that one phase stores for a later phase of the same
//! instance.
//!
//! All values are dropped at the end of the request, however it ends. A guard stored here is
//! therefore released even if the client disappears.

use std::any::Any;

/// Maximum number of slots that stay allocated for later requests; few requests use more.
const SPARE_MAX: usize = 8;

/// Values of one request, each with the number of the plugin instance that stored it.
#[derive(Default)]
pub struct Memory {
    /// Used slots, followed by empty slots of earlier requests. Storing a value of the same type
    /// again does not allocate.
    places: Vec<MemoryEntry>,
    used: usize,
}

struct MemoryEntry {
    owner: usize,
    room: Box<dyn Room>,
}

/// Slot for a value of any type.
trait Room: Any {
    fn empty(&mut self);
}

impl<T: 'static> Room for Option<T> {
    fn empty(&mut self) {
        *self = None;
    }
}

impl MemoryEntry {
    #[inline]
    fn room_of<T: 'static>(&mut self) -> Option<&mut Option<T>> {
        let room: &mut dyn Any = &mut *self.room;
        room.downcast_mut()
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Memory({})", self.used)
    }
}

impl Memory {
    /// Owner of the values that all plugin instances of a request share; no instance has this
    /// number.
    pub(crate) const SHARED: usize = 0;

    /// Drops all stored values; their slots are kept for the next request.
    pub fn clear(&mut self) {
        let used = std::mem::take(&mut self.used);
        self.places.iter_mut().take(used).for_each(|place| place.room.empty());
        self.places.truncate(SPARE_MAX);
    }

    /// Stores `value` for the instance `owner`, and drops its previous value of that type.
    pub fn put<T: 'static>(&mut self, owner: usize, value: T) {
        if let Some(room) = self.room(owner) {
            *room = Some(value);
            return;
        }
        let mut spare = self.places.iter_mut().skip(self.used);
        match spare.position(|place| place.room_of::<T>().is_some()) {
            Some(at) => self.places.swap(self.used, self.used + at),
            None => {
                self.places.push(MemoryEntry { owner, room: Box::new(None::<T>) });
                let last = self.places.len() - 1;
                self.places.swap(self.used, last);
            }
        }
        let place = &mut self.places[self.used];
        self.used += 1;
        place.owner = owner;
        if let Some(room) = place.room_of() {
            *room = Some(value);
        }
    }

    /// Returns the value of type `T` that `owner` stored.
    pub fn get<T: 'static>(&mut self, owner: usize) -> Option<&mut T> {
        self.room(owner)?.as_mut()
    }

    /// Removes and returns the value of type `T` that `owner` stored.
    pub fn take<T: 'static>(&mut self, owner: usize) -> Option<T> {
        self.room(owner)?.take()
    }

    fn room<T: 'static>(&mut self, owner: usize) -> Option<&mut Option<T>> {
        let used = self.places.iter_mut().take(self.used);
        used.filter(|place| place.owner == owner).find_map(MemoryEntry::room_of)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn values_are_found_by_owner_and_type_until_they_are_forgotten() {
        let mut memory = Memory::default();
        for round in 0..3_u32 {
            assert_eq!(memory.get::<u32>(1), None);
            memory.put(1, round);
            memory.put(1, round + 1);
            memory.put(2, round + 2);
            memory.put(1, "text");
            assert_eq!(memory.get(1), Some(&mut (round + 1)));
            assert_eq!(memory.take(2), Some(round + 2));
            assert_eq!(memory.take::<u32>(2), None);
            memory.put(2, round + 3);
            assert_eq!(memory.get(2), Some(&mut (round + 3)));
            assert_eq!(memory.get(1), Some(&mut "text"));
            assert_eq!(memory.places.len(), 3, "the rooms of the round before are used again");
            memory.clear();
        }
    }

    #[test]
    fn what_is_forgotten_is_dropped_at_once_and_few_rooms_stay() {
        let held = Rc::new(());
        let mut memory = Memory::default();
        for owner in 0..20 {
            memory.put(owner, Rc::clone(&held));
        }
        assert_eq!(Rc::strong_count(&held), 21);
        memory.clear();
        assert_eq!((Rc::strong_count(&held), memory.places.len()), (1, SPARE_MAX));
    }
}
