//! Cuts a head that arrives piece by piece into its lines, each byte looked at once.
//!
//! Also the place where bare line feeds and the head's limits are refused. Every verdict depends
//! on the bytes alone, never on how they were split over reads: it belongs to the earliest byte
//! that decides it.

use std::ops::Range;

use tollhouse_stdx::control_bytes::Controls;

use crate::HeadError;
use crate::limits::{
    CRLF_BYTES, HEAD_BYTES_MAX, HEADER_COUNT_MAX, HeadLimits, LEADING_EMPTY_LINES_MAX,
};

/// Progress through a head; lives as long as one head is being read. Copied out while lines are taken
/// apart, so that it stays in registers meanwhile.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadScan {
    /// Where the line under way starts.
    line_start: usize,
    /// The control bytes from there on.
    controls: Controls,
    /// Largest end of the head; known once the first line has been handed out.
    end_max: usize,
    /// Whether the first line has been handed out; empty ones before it do not count.
    has_first: bool,
}

/// The limits of a head, as far as they are about bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    line_bytes: usize,
    fields_bytes: usize,
}

impl Bounds {
    #[inline]
    pub(crate) fn new(limits: &HeadLimits) -> Self {
        Self { line_bytes: limits.line_bytes, fields_bytes: limits.fields_bytes }
    }
}

impl HeadScan {
    /// Whether the first line has been handed out.
    #[inline]
    pub(crate) fn has_first(&self) -> bool {
        self.has_first
    }

    /// Bytes up to the end of the last line.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.line_start
    }

    /// The first line, or an empty one before it; its end left out, `None` while more bytes are needed.
    #[inline(always)]
    pub(crate) fn first_line(
        &mut self,
        buffer: &[u8],
        bounds: Bounds,
    ) -> Result<Option<Range<usize>>, HeadError> {
        let Some(line) = self.cut_line(buffer, bounds)? else { return Ok(None) };
        let line_end = line.end + CRLF_BYTES;
        self.check_first(line_end, bounds, line.start)?;
        self.end_max = line_end.saturating_add(bounds.fields_bytes).min(HEAD_BYTES_MAX);
        self.has_first = true;
        Ok(Some(line))
    }

    /// The next line behind the first one, in the same way.
    #[inline(always)]
    pub(crate) fn next_line(
        &mut self,
        buffer: &[u8],
        bounds: Bounds,
    ) -> Result<Option<Range<usize>>, HeadError> {
        let Some(line) = self.cut_line(buffer, bounds)? else { return Ok(None) };
        if line.end + CRLF_BYTES > self.end_max {
            return Err(HeadError::HeadTooLong);
        }
        Ok(Some(line))
    }

    /// The line up to the next control byte that is no HTAB: no line may hold one (RFC 9110 §5.5).
    #[inline(always)]
    fn cut_line(
        &mut self,
        buffer: &[u8],
        bounds: Bounds,
    ) -> Result<Option<Range<usize>>, HeadError> {
        loop {
            let Some(end) = self.controls.next(buffer) else {
                return self.check(buffer.len(), bounds).map(|()| None);
            };
            if buffer.get(end..end + CRLF_BYTES) == Some(b"\r\n") {
                let line = self.line_start..end;
                self.line_start = end + CRLF_BYTES;
                self.controls.skip_adjacent();
                return Ok(Some(line));
            }
            match buffer.get(end) {
                Some(b'\t') => {}
                // Whether this CR ends the line is decided by the next byte.
                Some(b'\r') if end + 1 == buffer.len() => {
                    self.controls.put_back(end);
                    return self.check(buffer.len(), bounds).map(|()| None);
                }
                Some(byte) => return Err(self.stray(*byte, end, bounds)),
                // The buffer has shrunk, which it must not.
                None => return Ok(None),
            }
        }
    }

    /// What a control byte at `at` that does not end a line is refused as.
    #[cold]
    fn stray(self, byte: u8, at: usize, bounds: Bounds) -> HeadError {
        if let Err(error) = self.check(at + 1, bounds) {
            return error;
        }
        match (byte, self.has_first) {
            (b'\n', _) => HeadError::BareLineFeed,
            (_, false) => HeadError::BadLine,
            (_, true) => HeadError::BadHeader,
        }
    }

    /// Takes back an empty line that stood before the first line (RFC 9112 §2.2).
    #[inline]
    pub(crate) fn skip_leading_line(&mut self) -> Result<(), HeadError> {
        if self.line_start > LEADING_EMPTY_LINES_MAX * CRLF_BYTES {
            return Err(HeadError::BadLine);
        }
        self.has_first = false;
        Ok(())
    }

    /// Limits at `end`, where what has arrived ends, or a byte that is refused. Where both are passed, the
    /// one that an earlier byte passed counts.
    #[cold]
    fn check(self, end: usize, bounds: Bounds) -> Result<(), HeadError> {
        if !self.has_first {
            return self.check_first(end, bounds, self.line_start);
        }
        if end > self.end_max { Err(HeadError::HeadTooLong) } else { Ok(()) }
    }

    /// The same in the first line, or before it, where `start` is.
    #[inline]
    fn check_first(self, end: usize, bounds: Bounds, start: usize) -> Result<(), HeadError> {
        let line_end_max = bounds.line_bytes.saturating_add(start + CRLF_BYTES);
        if end > line_end_max && line_end_max <= HEAD_BYTES_MAX {
            return Err(HeadError::LineTooLong);
        }
        if end > HEAD_BYTES_MAX { Err(HeadError::HeadTooLong) } else { Ok(()) }
    }
}

/// The number of header lines that `limits` allow.
#[inline]
pub(crate) fn header_count_max(limits: &HeadLimits) -> usize {
    limits.header_count.min(HEADER_COUNT_MAX)
}
