//! Table of an application's streams.

use crate::StreamId;

/// States of streams, found by index. A released stream is not found, even if its slot is in use
/// again.
#[derive(Debug)]
pub struct StreamTable<S>(Vec<Option<(StreamId, S)>>);

impl<S> Default for StreamTable<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S> StreamTable<S> {
    /// Inserts a stream, and returns its state.
    pub fn insert(&mut self, stream: StreamId, state: S) -> &mut S {
        let slot = stream.slot();
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, || None);
        }
        &mut self.0[slot].insert((stream, state)).1
    }

    /// Returns the state of a stream; `None` if it was removed.
    #[inline]
    pub fn get(&self, stream: StreamId) -> Option<&S> {
        let (id, state) = self.0.get(stream.slot())?.as_ref()?;
        (*id == stream).then_some(state)
    }

    /// Returns the state of a stream for changes; `None` if it was removed.
    #[inline]
    pub fn get_mut(&mut self, stream: StreamId) -> Option<&mut S> {
        let (id, state) = self.0.get_mut(stream.slot())?.as_mut()?;
        (*id == stream).then_some(state)
    }

    /// Removes a stream, and returns its state.
    pub fn remove(&mut self, stream: StreamId) -> Option<S> {
        let entry = self.0.get_mut(stream.slot())?;
        entry.take_if(|(id, _)| *id == stream).map(|(_, state)| state)
    }

    /// Removes the streams for which `keep` returns `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(StreamId, &mut S) -> bool) {
        for entry in &mut self.0 {
            entry.take_if(|(stream, state)| !keep(*stream, state));
        }
    }

    /// Returns the streams in the order of their slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut S)> {
        self.0.iter_mut().flatten().map(|(stream, state)| (*stream, state))
    }

    /// Whether it holds no stream. Costs a look at every slot.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}
