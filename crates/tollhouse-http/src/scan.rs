//! Splits a head that arrives in pieces into its lines, visiting each byte once.
//!
//! Bare line feeds and exceeded limits are refused here. A refusal is determined by the earliest
//! byte that violates a rule, and never by the way the bytes were split over reads.

use std::ops::Range;

use tollhouse_stdx::control_bytes::Controls;

use crate::HeadError;
use crate::limits::{
    CRLF_BYTES, HEAD_BYTES_MAX, HEADER_COUNT_MAX, HeadLimits, LEADING_EMPTY_LINES_MAX,
};

/// Progress through a head. Copied into a local while lines are parsed, so that it stays in
/// registers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadScan {
    /// Offset of the current line.
    line_start: usize,
    /// Control bytes found since the start of the current line.
    controls: Controls,
    /// Maximum offset of the end of the head; known once the first line has been returned.
    end_max: usize,
    /// Whether the first line has been returned; empty lines before it do not count.
    has_first: bool,
}

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
    /// Whether the first line has been returned.
    #[inline]
    pub(crate) fn has_first(&self) -> bool {
        self.has_first
    }

    /// Returns the number of bytes up to the end of the last line.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.line_start
    }

    /// Returns the first line, or an empty line before it, without CRLF; `None` if more bytes are
    /// needed.
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

    /// Returns the next line after the first one, without CRLF; `None` if more bytes are needed.
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

    /// Cuts the line at the next control byte other than HTAB, which lines may not contain (RFC
    /// 9110 §5.5).
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
                // The next byte decides whether this CR ends the line.
                Some(b'\r') if end + 1 == buffer.len() => {
                    self.controls.put_back(end);
                    return self.check(buffer.len(), bounds).map(|()| None);
                }
                Some(byte) => return Err(self.stray(*byte, end, bounds)),
                // The buffer has shrunk, which violates the contract.
                None => return Ok(None),
            }
        }
    }

    /// Returns the error for a control byte at `at` that does not end a line.
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

    /// Discards an empty line before the first line (RFC 9112 §2.2).
    #[inline]
    pub(crate) fn skip_leading_line(&mut self) -> Result<(), HeadError> {
        if self.line_start > LEADING_EMPTY_LINES_MAX * CRLF_BYTES {
            return Err(HeadError::BadLine);
        }
        self.has_first = false;
        Ok(())
    }

    /// Checks the limits at `end`: the end of the received bytes, or a byte that is refused. If
    /// both limits are exceeded, the error is that of the earlier byte.
    #[cold]
    fn check(self, end: usize, bounds: Bounds) -> Result<(), HeadError> {
        if !self.has_first {
            return self.check_first(end, bounds, self.line_start);
        }
        if end > self.end_max { Err(HeadError::HeadTooLong) } else { Ok(()) }
    }

    /// Checks the limits within or before the first line, which starts at `start`.
    #[inline]
    fn check_first(self, end: usize, bounds: Bounds, start: usize) -> Result<(), HeadError> {
        let line_end_max = bounds.line_bytes.saturating_add(start + CRLF_BYTES);
        if end > line_end_max && line_end_max <= HEAD_BYTES_MAX {
            return Err(HeadError::LineTooLong);
        }
        if end > HEAD_BYTES_MAX { Err(HeadError::HeadTooLong) } else { Ok(()) }
    }
}

/// Returns the maximum number of header lines under `limits`.
#[inline]
pub(crate) fn header_count_max(limits: &HeadLimits) -> usize {
    limits.header_count.min(HEADER_COUNT_MAX)
}
