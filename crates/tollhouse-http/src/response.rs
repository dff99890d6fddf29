//! Response heads from upstreams, parsed into spans over the read buffer.

use std::mem::MaybeUninit;

use crate::framing::{self, Declared};
use crate::limits::HEADER_COUNT_MAX;
use crate::request::read_connection_options;
use crate::scan::HeadScan;
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
}

impl ResponseHead {
    /// Forgets the last response, so that the next `parse` starts over.
    pub fn reset(&mut self) {
        self.scan = HeadScan::default();
    }

    /// Parses the head at the start of `buffer`; `request_method` decides about the body.
    /// `Ok(false)` asks for more bytes; calls for one response must hand in a buffer that only grew.
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
        let Some(end) = self.scan.find_end(buffer, limits)? else { return Ok(false) };
        self.head_bytes = end;
        self.parse_grammar(&buffer[..end])?;
        self.read_framing(buffer, request_method)?;
        self.read_connection(buffer);
        Ok(true)
    }

    /// Whether this is an interim response, to be followed by the real one.
    #[inline]
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    fn parse_grammar(&mut self, head: &[u8]) -> Result<(), HeadError> {
        let mut scratch = [const { MaybeUninit::uninit() }; HEADER_COUNT_MAX];
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let parsed = config.parse_response_with_uninit_headers(&mut response, head, &mut scratch);
        match parsed {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(HeadError::BadHeader),
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyHeaders),
            Err(httparse::Error::Version) => return Err(HeadError::VersionNotSupported),
            Err(httparse::Error::Status) => return Err(HeadError::BadLine),
            Err(_) => return Err(HeadError::BadHeader),
        }
        self.version = if response.version == Some(0) { Version::Http10 } else { Version::Http11 };
        self.status = response.code.unwrap_or_default();
        if self.status < 100 {
            return Err(HeadError::BadLine);
        }
        let line_end = memchr::memchr(b'\r', head).unwrap_or(head.len());
        let reason_start = line_end.min(b"HTTP/1.1 200 ".len());
        self.reason = Span::new(reason_start, line_end);
        self.fields_start = line_end + 2;
        self.fields.clear();
        for header in response.headers.iter() {
            self.fields.push(header.name.as_bytes(), header.value, head);
        }
        Ok(())
    }

    /// RFC 9112 §6.3, with every ambiguous combination refused.
    fn read_framing(&mut self, buffer: &[u8], request_method: &[u8]) -> Result<(), HeadError> {
        let declared = framing::declared(&self.fields, buffer, self.version)?;
        self.declared_length = match declared {
            Declared::Length(bytes) => Some(bytes),
            Declared::Nothing | Declared::Chunked => None,
        };
        let has_none = self.status < 200 || matches!(self.status, 204 | 304);
        self.body = match declared {
            _ if has_none || request_method == b"HEAD" => BodyLength::None,
            Declared::Length(0) => BodyLength::None,
            Declared::Length(bytes) => BodyLength::Known(bytes),
            Declared::Chunked => BodyLength::Chunked,
            Declared::Nothing => BodyLength::UntilClose,
        };
        Ok(())
    }

    fn read_connection(&mut self, buffer: &[u8]) {
        self.keep_alive = self.version == Version::Http11;
        if self.fields.has(Known::Connection) {
            let options = read_connection_options(&mut self.fields, buffer);
            self.keep_alive = !options.close && (self.keep_alive || options.keep_alive);
        }
        if self.body == BodyLength::UntilClose {
            self.keep_alive = false;
        }
    }
}

#[cfg(test)]
mod tests;
