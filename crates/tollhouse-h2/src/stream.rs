//! A stream (RFC 9113 §5.1), and all streams of a connection in a slab.
//!
//! A stream is kept until the application releases it, whatever the peer does. It is found by
//! number through a small hash table, or directly by its [`StreamId`].

use crate::Priority;
use crate::message::{EndStream, Method};

/// Initial size of the hash table of numbers; all sizes are powers of two.
const PLACES_MIN: usize = 16;

/// A stream held by the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId {
    number: u32,
    slot: u32,
}

impl StreamId {
    /// Returns the stream identifier used in frames.
    #[inline]
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns a small number that is unique on the connection until the stream is released; meant
    /// as an index into the application's own table of streams.
    #[inline]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// The state of one direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Half {
    /// The message has not begun, apart from interim responses.
    #[default]
    Idle,
    /// The head was sent or received; DATA or trailers follow.
    Body,
    /// The direction is complete or was reset.
    Closed,
}

impl Half {
    /// Returns the state after a final head.
    pub(crate) fn after(ends: EndStream) -> Self {
        match ends {
            EndStream::Yes => Self::Closed,
            EndStream::No => Self::Body,
        }
    }
}

/// The side that reset a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reset {
    #[default]
    None,
    ByUs,
    ByPeer,
}

/// The state of DATA that waits to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Waiting {
    #[default]
    No,
    /// The stream's own window is closed.
    ForWindow,
    /// Listed among the streams that may send.
    Ready,
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// Stream number; 0 if the slot is free.
    pub(crate) number: u32,
    next_free: u32,
    pub(crate) receiving: Half,
    pub(crate) sending: Half,
    pub(crate) reset: Reset,
    pub(crate) waiting: Waiting,
    pub(crate) priority: Priority,
    /// Bytes we may send; negative after a setting shrank the window.
    pub(crate) send_window: i32,
    /// Number of bytes that the peer may send.
    pub(crate) receive_window: i32,
    /// Size to which the receive window is refilled.
    pub(crate) window_target: u32,
    /// Bytes handed out and not yet consumed.
    pub(crate) unread: u32,
    /// Bytes consumed and not yet returned to the peer.
    pub(crate) credit: u32,
    /// Bytes of DATA that remain according to `content-length`.
    pub(crate) body_left: Option<u64>,
    /// The request's method, on clients; it determines what the response may contain.
    pub(crate) method: Method,
    /// Whether the stream began before the peer knew our settings.
    pub(crate) is_early: bool,
    /// Time of the last refill of the window.
    pub(crate) updated_ms: u64,
    /// Time at which the current piece of DATA began to wait.
    pub(crate) waiting_since_ms: Option<u64>,
    /// The turn in which it was last chosen to send.
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

    /// Whether both directions are closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.receiving == Half::Closed && self.sending == Half::Closed
    }

    pub(crate) fn close(&mut self, reset: Reset) {
        self.receiving = Half::Closed;
        self.sending = Half::Closed;
        self.reset = reset;
    }
}

const NONE: u32 = u32::MAX;

/// Streams of a connection, by number.
#[derive(Default)]
pub(crate) struct Streams {
    slots: Vec<Stream>,
    first_free: Option<u32>,
    length: u32,
    /// Slot plus one for each number; 0 for an empty place. At most half full.
    places: Vec<u32>,
}

impl Streams {
    /// Returns the number of occupied stream slots.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.length
    }

    /// Returns the heap memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Stream>() + self.places.capacity() * 4
    }

    /// Frees memory if no streams are held.
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
        // Later entries move up, so that a search can stop at the first empty place.
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

    /// Finds the stream with this number; `None` if the stream is unknown or released.
    #[inline]
    pub(crate) fn find(&self, number: u32) -> Option<StreamId> {
        let position = self.position(number)?;
        Some(StreamId { number, slot: self.places[position] - 1 })
    }

    /// Returns the stream, unless it was released.
    #[inline]
    pub(crate) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.slots.get(id.slot as usize).filter(|stream| stream.number == id.number)
    }

    /// Returns the stream, unless it was released.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.slots.get_mut(id.slot as usize).filter(|stream| stream.number == id.number)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut Stream)> {
        let slots = self.slots.iter_mut().enumerate().filter(|(_, stream)| stream.number != 0);
        slots.map(|(slot, stream)| (StreamId { number: stream.number, slot: slot as u32 }, stream))
    }

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
