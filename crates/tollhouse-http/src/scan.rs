//! Cuts a head that arrives piece by piece into its lines, each byte looked at once.
//!
//! Also the place where bare line feeds and the head's limits are refused. Every verdict depends
//! on the bytes alone, never on how they were split over reads: it belongs to the earliest byte
//! that decides it.

use std::ops::Range;

use memchr::memchr;

use crate::HeadError;
use crate::limits::{HEAD_BYTES_MAX, HEADER_COUNT_MAX, HeadLimits, LEADING_EMPTY_LINES_MAX};

/// Bytes of a line's end.
const CRLF_BYTES: usize = 2;

/// Progress through a head; lives as long as one head is being read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadScan {
    /// Where the line under way starts.
    line_start: usize,
    /// Bytes already looked at; never before `line_start`.
    scanned: usize,
    /// Lines finished, empty ones before the first line left out.
    lines: usize,
}

impl HeadScan {
    /// Lines handed out.
    #[inline]
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Bytes up to the end of the last line.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.line_start
    }

    /// The next line, its end left out, or `None` while more bytes are needed.
    #[inline]
    pub(crate) fn next_line(
        &mut self,
        buffer: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<Range<usize>>, HeadError> {
        let unread = buffer.get(self.scanned..).unwrap_or_default();
        let Some(offset) = memchr(b'\n', unread) else {
            return self.wait(buffer, limits).map(|()| None);
        };
        let line_feed = self.scanned + offset;
        self.check(line_feed + 1, limits)?;
        if line_feed == self.line_start || buffer[line_feed - 1] != b'\r' {
            return Err(HeadError::BareLineFeed);
        }
        let line = self.line_start..line_feed - 1;
        self.line_start = line_feed + 1;
        self.scanned = line_feed + 1;
        self.lines += 1;
        Ok(Some(line))
    }

    /// Takes back an empty line that stood before the first line (RFC 9112 §2.2).
    #[cold]
    pub(crate) fn skip_leading_line(&mut self) -> Result<(), HeadError> {
        if self.line_start > LEADING_EMPTY_LINES_MAX * CRLF_BYTES {
            return Err(HeadError::BadLine);
        }
        self.lines = 0;
        Ok(())
    }

    /// Remembers how far the search came.
    #[cold]
    fn wait(&mut self, buffer: &[u8], limits: &HeadLimits) -> Result<(), HeadError> {
        self.check(buffer.len(), limits)?;
        // A lone CR may be half of a leading empty line that the caller drops once it is whole;
        // progress must then not point past the dropped bytes.
        if buffer != b"\r" {
            self.scanned = self.scanned.max(buffer.len());
        }
        Ok(())
    }

    /// Limits at `end`, the end of a line or of what has arrived. Where both are passed, the one
    /// that an earlier byte passed counts.
    #[inline]
    fn check(&self, end: usize, limits: &HeadLimits) -> Result<(), HeadError> {
        let head_bytes_max = limits.head_bytes.min(HEAD_BYTES_MAX);
        if self.lines == 0 {
            let line_end_max = limits.line_bytes.saturating_add(self.line_start + CRLF_BYTES);
            if end > line_end_max && line_end_max <= head_bytes_max {
                return Err(HeadError::LineTooLong);
            }
        }
        if end > head_bytes_max { Err(HeadError::HeadTooLong) } else { Ok(()) }
    }
}

/// The number of header lines that `limits` allow.
#[inline]
pub(crate) fn header_count_max(limits: &HeadLimits) -> usize {
    limits.header_count.min(HEADER_COUNT_MAX)
}
