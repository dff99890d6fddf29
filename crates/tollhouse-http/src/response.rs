//! Response heads from upstreams, parsed into spans over the read buffer.

use crate::framing::{self, Declared};
use crate::grammar;
use crate::request::read_connection_options;
use crate::scan::{Bounds, HeadScan, header_count_max};
use crate::{BodyLength, Fields, HeadError, HeadLimits, Known, Span, Version};

/// A response head. One value is reused for every response; all spans point into the buffer
/// handed to the last [`ResponseHead::parse`].
#[derive(Debug, Default)]
pub struct ResponseHead {
    scan: HeadScan,
    /// Bytes of the head, closing empty line included; the body starts here.
    pub head_bytes: usize,
    /// The status code, 100 to 999.
    pub status: u16,
    /// The reason phrase; may be empty.
    pub reason: Span,
    /// Where the header lines start.
    pub fields_start: usize,
    /// HTTP/1.0 or 1.1.
    pub version: Version,
    /// The header lines.
    pub fields: Fields,
    /// How the body is delimited.
    pub body: BodyLength,
    /// `Content-Length` as declared, also where no body follows (HEAD, 304).
    pub declared_length: Option<u64>,
    /// Whether the upstream keeps the connection open after this exchange.
    pub keep_alive: bool,
    /// Whether a body was declared where none may be (RFC 9110 §8.6), such as with 204: what
    /// follows on the connection may be that body or the next response.
    is_dubious: bool,
}

impl ResponseHead {
    /// Forgets the last response, so that the next `parse` starts over.
    pub fn reset(&mut self) {
        self.scan = HeadScan::default();
    }

    /// Parses the head at the start of `buffer`; `request_method` decides about the body.
    /// `Ok(false)` asks for more bytes; calls for one response must hand in a buffer that only
    /// grew.
    ///
    /// # Errors
    /// The first rule that the head breaks; the connection is of no further use.
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

    /// Whether this is an interim response, to be followed by the real one.
    #[inline]
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Takes apart the lines that have arrived; `Ok(true)` at the empty line that ends the head.
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
        while let Some(range) = scan.next_line(buffer, bounds)? {
            if range.is_empty() {
                return Ok(true);
            }
            if self.fields.len() >= header_count_max(limits) {
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

    /// RFC 9112 §6.3, with every ambiguous combination refused.
    fn read_framing(&mut self, buffer: &[u8], request_method: &[u8]) -> Result<(), HeadError> {
        let declared = framing::declared(&self.fields, buffer, self.version)?;
        self.declared_length = match declared {
            Declared::Length(bytes) => Some(bytes),
            Declared::Nothing | Declared::Chunked => None,
        };
        let declares_body = !matches!(declared, Declared::Nothing | Declared::Length(0));
        // Nobody can say whether the upstream means to send that body before the real response.
        if self.is_interim() && declares_body {
            return Err(HeadError::BadFraming);
        }
        let has_none = self.status < 200 || matches!(self.status, 204 | 304);
        self.is_dubious = declares_body && (self.status < 200 || self.status == 204);
        self.body = match declared {
            _ if has_none || request_method == b"HEAD" => BodyLength::None,
            Declared::Length(0) => BodyLength::None,
            Declared::Length(bytes) => BodyLength::Known(bytes),
            Declared::Chunked => BodyLength::Chunked,
            Declared::Nothing => BodyLength::UntilClose,
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
