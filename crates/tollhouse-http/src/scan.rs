//! Cuts a head that arrives piece by piece into its lines, each byte looked at once.
//!
//! Also the place where bare line feeds and the head's limits are refused. Every verdict depends
//! on the bytes alone, never on how they were split over reads: it belongs to the earliest byte
//! that decides it.

use std::ops::Range;

use tollhouse_stdx::control_bytes::control_position_from;

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
    #[inline(always)]
    pub(crate) fn next_line(
        &mut self,
        buffer: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<Range<usize>>, HeadError> {
        let Some(end) = self.find_control(buffer) else {
            return self.wait(buffer, limits, buffer.len()).map(|()| None);
        };
        match (buffer[end], buffer.get(end + 1)) {
            (b'\r', Some(b'\n')) => {}
            // Whether this CR ends the line is decided by the next byte.
            (b'\r', None) => return self.wait(buffer, limits, end).map(|()| None),
            (byte, _) => return Err(self.stray(byte, end, limits)),
        }
        self.check(end + CRLF_BYTES, limits)?;
        let line = self.line_start..end;
        self.line_start = end + CRLF_BYTES;
        self.scanned = self.line_start;
        self.lines += 1;
        Ok(Some(line))
    }

    /// The next byte that no line may hold: a control byte other than HTAB (RFC 9110 §5.5).
    #[inline(always)]
    fn find_control(&mut self, buffer: &[u8]) -> Option<usize> {
        loop {
            let found = control_position_from(buffer, self.scanned)?;
            if buffer[found] != b'\t' {
                return Some(found);
            }
            self.scanned = found + 1;
        }
    }

    /// What a control byte at `at` that does not end a line is refused as.
    #[cold]
    fn stray(&self, byte: u8, at: usize, limits: &HeadLimits) -> HeadError {
        if let Err(error) = self.check(at + 1, limits) {
            return error;
        }
        match (byte, self.lines) {
            (b'\n', _) => HeadError::BareLineFeed,
            (_, 0) => HeadError::BadLine,
            _ => HeadError::BadHeader,
        }
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
    fn wait(
        &mut self,
        buffer: &[u8],
        limits: &HeadLimits,
        scanned: usize,
    ) -> Result<(), HeadError> {
        self.check(buffer.len(), limits)?;
        self.scanned = self.scanned.max(scanned);
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
