//! Finds the end of a head in bytes that arrive piece by piece, each byte looked at once.
//!
//! Also the place where bare line feeds and the head's limits are refused, so that the grammar
//! parser only ever sees whole heads within bounds.

use memchr::memchr;

use crate::HeadError;
use crate::limits::HeadLimits;

/// Progress of the search; lives as long as one head is being read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadScan {
    /// Where the line under way starts.
    line_start: usize,
    /// Bytes already looked at.
    scanned: usize,
    /// Lines finished.
    lines: usize,
}

impl HeadScan {
    /// The head's length with its closing empty line, or `None` while more bytes are needed.
    #[inline]
    pub(crate) fn find_end(
        &mut self,
        buffer: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        while let Some(offset) = memchr(b'\n', &buffer[self.scanned..]) {
            let line_feed = self.scanned + offset;
            if line_feed == self.line_start || buffer[line_feed - 1] != b'\r' {
                return Err(HeadError::BareLineFeed);
            }
            let is_empty = line_feed == self.line_start + 1;
            self.check(line_feed + 1, limits)?;
            self.lines += usize::from(!is_empty);
            if self.lines > limits.header_count + 1 {
                return Err(HeadError::TooManyHeaders);
            }
            self.line_start = line_feed + 1;
            self.scanned = line_feed + 1;
            if is_empty {
                return Ok(Some(line_feed + 1));
            }
        }
        self.scanned = buffer.len();
        self.check(buffer.len(), limits).map(|()| None)
    }

    /// Limits at `end`, the end of a line or of what has arrived.
    #[inline]
    fn check(&self, end: usize, limits: &HeadLimits) -> Result<(), HeadError> {
        if self.lines == 0 && end - self.line_start > limits.line_bytes + 2 {
            return Err(HeadError::LineTooLong);
        }
        if end > limits.head_bytes {
            return Err(HeadError::HeadTooLong);
        }
        Ok(())
    }
}
