//! Ranges of a head buffer: heads are stored as spans over the bytes they were read from.

/// A range of the buffer that a head was parsed from. Limits keep heads far below 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub start: u32,
    pub len: u32,
}

impl Span {
    /// Returns the span from `start` to `end`.
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end, "a span never runs backwards");
        Self { start: start as u32, len: (end - start) as u32 }
    }

    /// Returns the offset just past the last byte.
    #[inline]
    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of the span; empty if `buffer` is too short to contain it.
    #[inline]
    pub fn bytes_in(self, buffer: &[u8]) -> &[u8] {
        buffer.get(self.start as usize..self.end()).unwrap_or_default()
    }
}
