//! Response heads from upstreams, parsed into spans over the read buffer.

use crate::framing::{self, DeclaredFraming};
use crate::grammar;
use crate::request::read_connection_options;
use crate::scan::{Bounds, HeadScan, header_count_max};
use crate::{BodyLength, Fields, HeadError, HeadLimits, Known, Span, Version};

/// A response head, reused for every response. Its spans index into the buffer of the last
/// [`ResponseHead::parse`].
#[derive(Debug, Default)]
pub struct ResponseHead {
    scan: HeadScan,
    /// Length of the head with its final empty line; the body starts here.
    pub head_bytes: usize,
    pub status: u16,
    pub reason: Span,
    /// Offset of the first header line.
    pub fields_start: usize,
    /// Version in the status line, 1.0 or 1.1.
    pub version: Version,
    pub fields: Fields,
    pub body: BodyLength,
    /// `Content-Length` as declared, also if no body follows (HEAD, 304).
    pub declared_length: Option<u64>,
    /// Whether the upstream keeps the connection open after this exchange.
    pub keep_alive: bool,
    /// Whether a body was declared where it is not allowed (RFC 9110 §8.6), for example with 204.
    /// The following bytes may be that body or the next response.
    is_dubious: bool,
}

impl ResponseHead {
    /// Resets the parser, so that the next `parse` starts a new response.
    pub fn reset(&mut self) {
        self.scan = HeadScan::default();
    }

    /// Parses the head at the start of `buffer`; `request_method` determines whether a body
    /// follows. `Ok(false)` requests more bytes; a further call for this response must pass the
    /// buffer with more bytes appended.
    ///
    /// # Errors
    /// The first rule that the head violates; the connection cannot be used further.
    #[inline]
    pub fn parse(
        &mut self,
        buffer: &[u8],
        limits: &HeadLimits,
        request_method: &[u8],
    ) -> Result<bool, HeadError> {
        if !self.parse_lines(buffer, limits)? {
            return Ok(false);
        }
        self.head_bytes = self.scan.bytes();
        let head = buffer.get(..self.head_bytes).unwrap_or_default();
        self.read_framing(head, request_method)?;
        self.read_connection(head)?;
        Ok(true)
    }

    /// Whether this is an interim response, which another response follows.
    #[inline]
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Parses the lines received so far; `Ok(true)` at the empty line that ends the head.
    fn parse_lines(&mut self, buffer: &[u8], limits: &HeadLimits) -> Result<bool, HeadError> {
        let mut scan = self.scan;
        let is_whole = self.parse_scanned(&mut scan, buffer, limits);
        self.scan = scan;
        is_whole
    }

    #[inline(always)]
    fn parse_scanned(
        &mut self,
        scan: &mut HeadScan,
        buffer: &[u8],
        limits: &HeadLimits,
    ) -> Result<bool, HeadError> {
        let bounds = Bounds::new(limits);
        if !scan.has_first() {
            let Some(range) = scan.first_line(buffer, bounds)? else { return Ok(false) };
            self.parse_first_line(&buffer[range], scan.bytes())?;
        }
        let count_max = header_count_max(limits);
        while let Some(range) = scan.next_line(buffer, bounds)? {
            if range.is_empty() {
                return Ok(true);
            }
            if self.fields.len() >= count_max {
                return Err(HeadError::TooManyHeaders);
            }
            let text = &buffer[range.start..];
            self.fields.push(grammar::field_line(text, range.len())?, range.start);
        }
        Ok(false)
    }

    fn parse_first_line(&mut self, line: &[u8], line_end: usize) -> Result<(), HeadError> {
        let parts = grammar::status_line(line)?;
        self.version = parts.version;
        self.status = parts.status;
        self.reason = Span::new(parts.reason_start, line.len());
        self.fields_start = line_end;
        self.fields.clear();
        Ok(())
    }

    /// Determines the body (RFC 9112 §6.3); refuses every ambiguous combination.
    fn read_framing(&mut self, buffer: &[u8], request_method: &[u8]) -> Result<(), HeadError> {
        let declared = framing::declared(&self.fields, buffer, self.version)?;
        self.declared_length = match declared {
            DeclaredFraming::Length(bytes) => Some(bytes),
            DeclaredFraming::Nothing | DeclaredFraming::Chunked => None,
        };
        let declares_body =
            !matches!(declared, DeclaredFraming::Nothing | DeclaredFraming::Length(0));
        // It is unclear whether the upstream sends that body before the final response.
        if self.is_interim() && declares_body {
            return Err(HeadError::BadFraming);
        }
        let has_none = self.status < 200 || matches!(self.status, 204 | 304);
        self.is_dubious = declares_body && (self.status < 200 || self.status == 204);
        self.body = match declared {
            _ if has_none || request_method == b"HEAD" => BodyLength::None,
            DeclaredFraming::Length(0) => BodyLength::None,
            DeclaredFraming::Length(bytes) => BodyLength::Known(bytes),
            DeclaredFraming::Chunked => BodyLength::Chunked,
            DeclaredFraming::Nothing => BodyLength::UntilClose,
        };
        Ok(())
    }

    fn read_connection(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        self.keep_alive = self.version == Version::Http11;
        if self.fields.has(Known::Connection) {
            let options = read_connection_options(&mut self.fields, buffer)?;
            self.keep_alive = !options.close && (self.keep_alive || options.keep_alive);
        }
        if self.body == BodyLength::UntilClose || self.is_dubious {
            self.keep_alive = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
