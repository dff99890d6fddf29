//! Framing that the gateway adds to relayed bodies.

use tollhouse_http::chunked::{LAST_CHUNK, SizeLine};

/// Framing of a body for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Unframed: delimited by the length in the head or the end of the connection.
    Plain,
    Chunked,
}

const LINE_END: &[u8] = b"\r\n";
const LINE_END_AND_LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// Unsent framing of one chunk, whose data is in another buffer.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    size: SizeLine,
    end: &'static [u8],
    /// Whether the last chunk has been framed.
    is_last: bool,
}

impl Piece {
    /// Frames the next `data` bytes, once the previous chunk is sent; `is_last` adds the final
    /// chunk.
    #[inline]
    pub(crate) fn open(&mut self, data: usize, is_last: bool) {
        if self.is_last || !self.is_sent() {
            return;
        }
        self.is_last = is_last;
        if data > 0 {
            self.size = SizeLine::new(data);
            self.end = if is_last { LINE_END_AND_LAST_CHUNK } else { LINE_END };
        } else if is_last {
            self.end = LAST_CHUNK;
        }
    }

    /// Returns the framing before and after the data.
    #[inline]
    pub(crate) fn around(&self) -> (&[u8], &'static [u8]) {
        (self.size.as_bytes(), self.end)
    }

    /// Whether the chunk is sent completely, data included.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        // The end of a chunk is sent last.
        self.end.is_empty()
    }

    /// Counts `written` bytes of framing and of the `data` bytes left; returns how many of the
    /// written bytes are data.
    #[inline]
    pub(crate) fn count_sent(&mut self, written: usize, data: usize) -> usize {
        let of_size = written.min(self.size.as_bytes().len());
        self.size.consume(of_size);
        let of_data = (written - of_size).min(data);
        self.end = &self.end[written - of_size - of_data..];
        of_data
    }
}
