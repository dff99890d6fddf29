//! Per-request memory of plugins: what one phase leaves for a later one of the same instance.
//!
//! Whatever is left here is dropped when the request ends, however it ends, so that a guard kept
//! here lets go of what it holds even when the client disappears.

use std::any::Any;

/// Values by the instance that left them.
#[derive(Default)]
pub struct Memory {
    entries: Vec<(usize, Box<dyn Any>)>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Memory({})", self.entries.len())
    }
}

impl Memory {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Leaves `value` for the instance `owner`, instead of what it left before.
    pub fn put<T: 'static>(&mut self, owner: usize, value: T) {
        self.entries.retain(|(other, kept)| *other != owner || !kept.is::<T>());
        self.entries.push((owner, Box::new(value)));
    }

    /// What `owner` left.
    pub fn get<T: 'static>(&mut self, owner: usize) -> Option<&mut T> {
        let mut own = self.entries.iter_mut().filter(|(other, _)| *other == owner);
        own.find_map(|(_, value)| value.downcast_mut())
    }

    /// Takes what `owner` left.
    pub fn take<T: 'static>(&mut self, owner: usize) -> Option<T> {
        let at =
            self.entries.iter().position(|(other, value)| *other == owner && value.is::<T>())?;
        self.entries.swap_remove(at).1.downcast().ok().map(|value| *value)
    }
}
