//! One stream (RFC 9113 §5.1), and all of a connection in a slab.
//!
//! A stream stays until the application releases it, whatever the peer does; its number finds it
//! through a small table of hashes, its [`StreamId`] without one.

use crate::Priority;
use crate::message::Method;

/// Places that the table of numbers begins with; a power of two, as all its sizes.
const PLACES_MIN: usize = 16;

/// A stream that the application holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId {
    number: u32,
    slot: u32,
}

impl StreamId {
    /// The identifier that travels in frames.
    #[inline]
    pub fn number(self) -> u32 {
        self.number
    }

    /// A small number that no other stream of the connection has until this one is released: for the
    /// application's own table of streams.
    #[inline]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// How far one direction of a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Half {
    /// Nothing but interim responses.
    #[default]
    Idle,
    /// The head; DATA or trailers follow.
    Body,
    /// All of it, or a reset.
    Closed,
}

/// Who reset a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reset {
    #[default]
    None,
    ByUs,
    ByPeer,
}

/// Where a stream stands among those that have DATA to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Waiting {
    /// It has none.
    #[default]
    No,
    /// Its own window is closed.
    ForWindow,
    /// It stands in the list of those that may send.
    Ready,
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// 0 for a free place.
    pub(crate) number: u32,
    next_free: u32,
    pub(crate) receiving: Half,
    pub(crate) sending: Half,
    pub(crate) reset: Reset,
    pub(crate) waiting: Waiting,
    pub(crate) priority: Priority,
    /// Bytes that may be sent; below zero after a setting shrank it.
    pub(crate) send_window: i32,
    /// Bytes that the peer may send.
    pub(crate) receive_window: i32,
    /// What the receive window is filled up to.
    pub(crate) window_target: u32,
    /// Bytes handed out and not yet consumed.
    pub(crate) unread: u32,
    /// Bytes consumed and not yet returned to the peer.
    pub(crate) credit: u32,
    /// Bytes of DATA that `content-length` still promises.
    pub(crate) body_left: Option<u64>,
    /// Of the request, at a client: what its response may be.
    pub(crate) method: Method,
    /// Whether it began before the peer knew our settings.
    pub(crate) is_early: bool,
    /// When the window was last filled up.
    pub(crate) updated_ms: u64,
    /// Since when the piece of DATA that is under way has waited.
    pub(crate) waiting_since_ms: Option<u64>,
    /// Turn in which it was last chosen to send.
    pub(crate) turn: u32,
}

impl Stream {
    fn free() -> Self {
        Self {
            number: 0,
            next_free: NONE,
            receiving: Half::Idle,
            sending: Half::Idle,
            reset: Reset::None,
            waiting: Waiting::No,
            priority: Priority::UNSAID,
            send_window: 0,
            receive_window: 0,
            window_target: 0,
            unread: 0,
            credit: 0,
            body_left: None,
            method: Method::Other,
            is_early: false,
            updated_ms: 0,
            waiting_since_ms: None,
            turn: 0,
        }
    }

    /// Whether both directions are done.
    pub(crate) fn is_closed(&self) -> bool {
        self.receiving == Half::Closed && self.sending == Half::Closed
    }

    /// Ends both directions.
    pub(crate) fn close(&mut self, reset: Reset) {
        self.receiving = Half::Closed;
        self.sending = Half::Closed;
        self.reset = reset;
    }
}

const NONE: u32 = u32::MAX;

/// All streams of a connection.
#[derive(Default)]
pub(crate) struct Streams {
    slots: Vec<Stream>,
    first_free: Option<u32>,
    length: u32,
    /// Slots plus one by number, 0 for an empty place; at most half of it is taken.
    places: Vec<u32>,
}

impl Streams {
    /// Streams that are held.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.length
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Stream>() + self.places.capacity() * 4
    }

    /// Gives memory back where there are no streams.
    pub(crate) fn shrink(&mut self) {
        if self.length == 0 {
            *self = Self::default();
        }
    }

    pub(crate) fn insert(&mut self, number: u32) -> StreamId {
        if (self.length as usize + 1) * 2 > self.places.len() {
            self.grow();
        }
        let slot = match self.first_free {
            Some(slot) => {
                let next = self.slots[slot as usize].next_free;
                self.first_free = (next != NONE).then_some(next);
                slot
            }
            None => {
                self.slots.push(Stream::free());
                self.slots.len() as u32 - 1
            }
        };
        self.slots[slot as usize] = Stream { number, ..Stream::free() };
        self.length += 1;
        self.place(number, slot);
        StreamId { number, slot }
    }

    pub(crate) fn remove(&mut self, id: StreamId) {
        let Some(mut hole) = self.position(id.number) else { return };
        let mask = self.places.len() - 1;
        // Those behind it move up, so that a search still ends at the first empty place.
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let Some(slot) = self.places[next].checked_sub(1) else { break };
            let home = (self.slots[slot as usize].number as usize >> 1) & mask;
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.places[hole] = self.places[next];
                hole = next;
            }
        }
        self.places[hole] = 0;
        let stream = &mut self.slots[id.slot as usize];
        stream.number = 0;
        stream.next_free = self.first_free.unwrap_or(NONE);
        self.first_free = Some(id.slot);
        self.length -= 1;
    }

    /// The stream with this number.
    #[inline]
    pub(crate) fn find(&self, number: u32) -> Option<StreamId> {
        let position = self.position(number)?;
        Some(StreamId { number, slot: self.places[position] - 1 })
    }

    /// The stream, unless it was released.
    #[inline]
    pub(crate) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.slots.get(id.slot as usize).filter(|stream| stream.number == id.number)
    }

    /// The stream, unless it was released.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.slots.get_mut(id.slot as usize).filter(|stream| stream.number == id.number)
    }

    /// All of them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut Stream)> {
        let slots = self.slots.iter_mut().enumerate().filter(|(_, stream)| stream.number != 0);
        slots.map(|(slot, stream)| (StreamId { number: stream.number, slot: slot as u32 }, stream))
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        let slots = self.slots.iter().enumerate().filter(|(_, stream)| stream.number != 0);
        slots.map(|(slot, stream)| (StreamId { number: stream.number, slot: slot as u32 }, stream))
    }

    #[inline]
    fn position(&self, number: u32) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut position = (number as usize >> 1) & mask;
        loop {
            let slot = self.places[position].checked_sub(1)?;
            if self.slots[slot as usize].number == number {
                return Some(position);
            }
            position = (position + 1) & mask;
        }
    }

    fn place(&mut self, number: u32, slot: u32) {
        let mask = self.places.len() - 1;
        let mut position = (number as usize >> 1) & mask;
        while self.places[position] != 0 {
            position = (position + 1) & mask;
        }
        self.places[position] = slot + 1;
    }

    fn grow(&mut self) {
        self.places = vec![0; (self.places.len() * 2).max(PLACES_MIN)];
        for slot in 0..self.slots.len() {
            let number = self.slots[slot].number;
            if number != 0 {
                self.place(number, slot as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn streams_agree_with_a_map(
            steps in proptest::collection::vec((0..40_u32, any::<bool>()), 0..300),
        ) {
            let mut streams = Streams::default();
            let mut map: HashMap<u32, StreamId> = HashMap::new();
            for (number, scatters) in steps {
                let number = if scatters { number * 64 + 1 } else { number * 2 + 1 };
                match map.remove(&number) {
                    Some(id) => streams.remove(id),
                    None => {
                        map.insert(number, streams.insert(number));
                    }
                }
                prop_assert_eq!(streams.len() as usize, map.len());
                prop_assert_eq!(streams.iter().count(), map.len());
                for (number, id) in &map {
                    prop_assert_eq!(streams.find(*number), Some(*id));
                    prop_assert_eq!(streams.get(*id).map(|stream| stream.number), Some(*number));
                }
                prop_assert_eq!(streams.find(999), None);
            }
        }
    }

    #[test]
    fn a_released_stream_is_gone_though_its_place_is_taken_again() {
        let mut streams = Streams::default();
        let first = streams.insert(1);
        streams.remove(first);
        let second = streams.insert(3);
        assert_eq!(first.slot(), second.slot());
        assert!(streams.get(first).is_none() && streams.get(second).is_some());
    }
}
