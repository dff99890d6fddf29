//! Read buffers, and a pool of unused ones per core.
//!
//! A connection holds a buffer only while it has bytes to read; an idle connection holds none,
//! which saves memory.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use tollhouse_stdx::{ByteRoom, MemoryBudget, Reservation};

use crate::offload::{self, DISCARDED_BYTES_MIN};
use crate::turn::TURN_BYTES;

/// Size of an ordinary buffer in bytes: fits nearly every head, or a response of 2 KB with room to
/// spare.
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;

/// Size in bytes of a buffer for long bodies: fewer system calls per megabyte, but still small
/// enough for the L2 cache.
pub(crate) const BODY_BUFFER_BYTES: usize = 64 * 1024;

/// Maximum number of ordinary buffers pooled per core (16 MiB together). More concurrent requests
/// on one core are rare.
const ORDINARY_KEPT_MAX: usize = 1024;

/// Maximum number of large buffers pooled per core (4 MiB together).
const LARGE_KEPT_MAX: usize = 64;

/// A contiguous buffer: bytes read but not yet consumed, with room behind them.
#[derive(Debug)]
pub struct Buffer {
    bytes: ByteRoom,
    start: usize,
    end: usize,
    /// Reservation in the process's memory budget, if the buffer holds a whole body.
    reservation: Option<Box<Reservation>>,
}

impl Buffer {
    fn new(size: usize) -> Self {
        Self { bytes: ByteRoom::new(size).unwrap_or_default(), start: 0, end: 0, reservation: None }
    }

    /// Returns an empty placeholder that allocates no memory, for idle connections.
    pub fn absent() -> Self {
        Self { bytes: ByteRoom::default(), start: 0, end: 0, reservation: None }
    }

    /// Returns a buffer filled with `bytes` and without room, for the rest of a head while its
    /// connection is a tunnel.
    pub fn holding(bytes: &[u8]) -> Self {
        let mut buffer = Self::new(bytes.len());
        buffer.bytes.copy_from_slice(bytes);
        buffer.end = bytes.len();
        buffer
    }

    #[inline]
    pub fn is_absent(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the capacity of the buffer in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes that were read from the socket and not consumed.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns the bytes read and not consumed, for changes in place.
    #[inline]
    pub fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Removes `range` from the filled bytes and moves the rest forward.
    #[inline]
    pub fn cut(&mut self, range: Range<usize>) {
        let (from, to) = (self.start + range.end, self.start + range.start);
        if from > to && from <= self.end {
            self.bytes.copy_within(from..self.end, to);
            self.end -= from - to;
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the room after the filled bytes, at most `TURN_BYTES`; may be empty.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        let end = self.bytes.len().min(self.end + TURN_BYTES);
        &mut self.bytes[self.end..end]
    }

    /// Marks `bytes` of the room as filled.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.bytes.len());
    }

    /// Removes `bytes` bytes from the front.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Removes all filled bytes after the first `keep`.
    #[inline]
    pub fn truncate(&mut self, keep: usize) {
        self.end = self.end.min(self.start + keep);
    }

    /// Makes room: moves the filled bytes to the front or, if they already begin there, doubles the
    /// capacity. Returns `false` if the capacity has reached `size_max` bytes.
    pub fn make_room(&mut self, size_max: usize) -> bool {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            return true;
        }
        if self.bytes.len() >= size_max {
            return false;
        }
        self.bytes.grow((self.bytes.len() * 2).min(size_max))
    }

    /// Makes room for a body that is kept whole: `size` bytes in all, or twice the capacity if the
    /// length is unknown. Room that is not written to occupies no physical memory.
    pub fn make_body_room(&mut self, size: Option<usize>, size_max: usize) -> bool {
        if self.start > 0 {
            return self.make_room(size_max);
        }
        let size = size.unwrap_or(self.bytes.len() * 2).min(size_max);
        size > self.bytes.len() && self.bytes.grow(size)
    }

    /// Reserves the filled bytes in the memory budget; returns `false` if they do not fit. The
    /// reservation ends with the buffer, or when the pool takes it back.
    pub fn reserve(&mut self, budget: &Arc<MemoryBudget>) -> bool {
        let bytes = self.len() as u64;
        match &mut self.reservation {
            Some(reservation) => reservation.resize(bytes),
            None => {
                self.reservation = budget.take(bytes).map(Box::new);
                self.reservation.is_some()
            }
        }
    }
}

impl Drop for Buffer {
    /// Frees a long buffer on another thread, so that the request does not wait for that.
    #[inline]
    fn drop(&mut self) {
        if self.bytes.len() >= DISCARDED_BYTES_MIN {
            // The reservation lasts until the memory is freed.
            let reservation = self.reservation.take();
            offload::discard((std::mem::take(&mut self.bytes), reservation));
        }
    }
}

/// Read buffers of one core that wait for reuse.
#[derive(Debug, Default)]
pub struct BufferPool {
    ordinary: RefCell<Vec<Buffer>>,
    large: RefCell<Vec<Buffer>>,
}

impl BufferPool {
    #[inline]
    pub fn take(&self) -> Buffer {
        self.ordinary.borrow_mut().pop().unwrap_or_else(|| Buffer::new(BUFFER_BYTES))
    }

    pub fn take_large(&self) -> Buffer {
        self.large.borrow_mut().pop().unwrap_or_else(|| Buffer::new(BODY_BUFFER_BYTES))
    }

    /// Returns a buffer to the pool. A buffer that has grown, or for which the pool has no place,
    /// is freed.
    #[inline]
    pub fn give(&self, mut buffer: Buffer) {
        let (kept, kept_max) = match buffer.bytes.len() {
            BUFFER_BYTES => (&self.ordinary, ORDINARY_KEPT_MAX),
            BODY_BUFFER_BYTES => (&self.large, LARGE_KEPT_MAX),
            _ => return,
        };
        buffer.start = 0;
        buffer.end = 0;
        buffer.reservation = None;
        let mut kept = kept.borrow_mut();
        if kept.len() < kept_max {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_consumed_and_moved() {
        let pool = BufferPool::default();
        let mut buffer = pool.take();
        buffer.room()[..5].copy_from_slice(b"abcde");
        buffer.add(5);
        buffer.consume(2);
        assert_eq!(buffer.filled(), b"cde");
        assert!(buffer.make_room(BUFFER_BYTES));
        assert_eq!(buffer.room().len(), BUFFER_BYTES - 3);
        buffer.truncate(1);
        assert_eq!(buffer.filled(), b"c");
    }

    #[test]
    fn a_run_is_taken_out_of_the_middle() {
        let mut buffer = Buffer::holding(b"abcdefg");
        buffer.consume(1);
        buffer.cut(1..3);
        assert_eq!(buffer.filled(), b"befg");
        buffer.cut(2..4);
        assert_eq!(buffer.filled(), b"be");
        buffer.cut(1..1);
        assert_eq!(buffer.filled(), b"be");
    }

    #[test]
    fn growing_stops_at_the_bound() {
        let mut buffer = Buffer::new(4);
        buffer.add(4);
        assert!(buffer.make_room(6));
        assert_eq!(buffer.room().len(), 2);
        buffer.add(2);
        assert!(!buffer.make_room(6));
    }

    #[test]
    fn a_grown_buffer_is_not_kept() {
        let pool = BufferPool::default();
        let mut buffer = pool.take();
        buffer.add(BUFFER_BYTES);
        assert!(buffer.make_room(2 * BUFFER_BYTES));
        pool.give(buffer);
        assert_eq!(pool.take().room().len(), BUFFER_BYTES);
    }
}
