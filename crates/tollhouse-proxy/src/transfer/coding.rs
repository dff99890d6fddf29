//! Framing of our own around the pieces of a body that is passed on.

use tollhouse_http::chunked::{LAST_CHUNK, SizeLine};

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// As it is: by the length in the head, or to the end of the connection.
    Plain,
    Chunked,
}

const LINE_END: &[u8] = b"\r\n";
const LINE_END_AND_LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// The framing of one chunk, around data that stands elsewhere: what of it is still to be sent.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    size: SizeLine,
    end: &'static [u8],
    /// Whether the last chunk has been framed.
    is_last: bool,
}

impl Piece {
    /// Frames `data` bytes that are to be sent next, once what was framed before is sent; with the
    /// last of them comes the chunk that ends the body.
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

    /// What is to be sent before the data, and behind it.
    #[inline]
    pub(crate) fn around(&self) -> (&[u8], &'static [u8]) {
        (self.size.as_bytes(), self.end)
    }

    /// Whether nothing of it is left, the data included.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        // What ends a chunk is sent last.
        self.end.is_empty()
    }

    /// Counts `written` bytes, of framing and of the `data` that was left; returns those of data.
    #[inline]
    pub(crate) fn count_sent(&mut self, written: usize, data: usize) -> usize {
        let of_size = written.min(self.size.as_bytes().len());
        self.size.consume(of_size);
        let of_data = (written - of_size).min(data);
        self.end = &self.end[written - of_size - of_data..];
        of_data
    }
}
