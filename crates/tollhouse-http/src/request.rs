//! Request heads: parsed into spans over the read buffer, framing and routing facts ready to use.

use std::mem::MaybeUninit;

use crate::field::list_elements;
use crate::framing::{self, Declared};
use crate::limits::{HEADER_COUNT_MAX, LEADING_EMPTY_LINES_MAX};
use crate::scan::HeadScan;
use crate::target::{self, Target};
use crate::{BodyLength, Fields, HeadError, HeadLimits, Known, Span, authority};

/// The version a message was sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

/// What the client wants to hear before it sends the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expectation {
    /// Nothing.
    #[default]
    None,
    /// An interim 100 response (RFC 9110 §10.1.1).
    Continue,
}

/// A request head. One value is reused for every request of a connection; all spans point into
/// the buffer handed to the last [`RequestHead::parse`].
#[derive(Debug, Default)]
pub struct RequestHead {
    scan: HeadScan,
    /// Bytes of the head, closing empty line included; the body starts here.
    pub head_bytes: usize,
    /// The method, a token.
    pub method: Span,
    /// The target as sent.
    pub target: Span,
    /// The target, taken apart.
    pub parts: Target,
    /// `host[:port]`: of an absolute target, else of the `Host` header; empty for HTTP/1.0
    /// without one.
    pub authority: Span,
    /// Bytes of `authority` that are the host.
    pub host_bytes: u32,
    /// HTTP/1.0 or 1.1.
    pub version: Version,
    /// The header lines.
    pub fields: Fields,
    /// How the body is delimited; never `UntilClose`.
    pub body: BodyLength,
    /// Whether the client keeps the connection open after this exchange.
    pub keep_alive: bool,
    /// Whether `Connection: upgrade` stands with an `Upgrade` header.
    pub upgrade: bool,
    /// What to send before the body is read.
    pub expectation: Expectation,
}

impl Default for BodyLength {
    fn default() -> Self {
        BodyLength::None
    }
}

impl RequestHead {
    /// Forgets the last request, so that the next `parse` starts over.
    pub fn reset(&mut self) {
        self.scan = HeadScan::default();
    }

    /// Bytes of empty lines at the start of `buffer`, to be dropped before parsing.
    #[inline]
    pub fn leading_empty_bytes(buffer: &[u8]) -> usize {
        let lines = buffer.chunks_exact(2).take(LEADING_EMPTY_LINES_MAX);
        2 * lines.take_while(|pair| pair == b"\r\n").count()
    }

    /// Parses the head at the start of `buffer`. `Ok(false)` asks for more bytes; calls for one
    /// request must hand in a buffer that only grew.
    ///
    /// # Errors
    /// The first rule that the head breaks; the connection cannot be read further.
    #[inline]
    pub fn parse(&mut self, buffer: &[u8], limits: &HeadLimits) -> Result<bool, HeadError> {
        let Some(end) = self.scan.find_end(buffer, limits)? else { return Ok(false) };
        self.head_bytes = end;
        self.parse_grammar(&buffer[..end])?;
        self.parts = target::parse(buffer, self.target, self.method.of_buffer(buffer))?;
        self.read_host(buffer)?;
        self.body = match framing::declared(&self.fields, buffer, self.version)? {
            Declared::Chunked => BodyLength::Chunked,
            Declared::Length(bytes) if bytes > 0 => BodyLength::Known(bytes),
            Declared::Length(_) | Declared::Nothing => BodyLength::None,
        };
        self.read_connection(buffer);
        self.read_expectation(buffer)?;
        Ok(true)
    }

    fn parse_grammar(&mut self, head: &[u8]) -> Result<(), HeadError> {
        let mut scratch = [const { MaybeUninit::uninit() }; HEADER_COUNT_MAX];
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(head, &mut scratch) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(HeadError::BadHeader),
            Err(error) => return Err(grammar_error(error, head)),
        }
        self.version = if request.version == Some(0) { Version::Http10 } else { Version::Http11 };
        let method = request.method.unwrap_or_default().as_bytes();
        if method == b"CONNECT" {
            return Err(HeadError::MethodNotImplemented);
        }
        self.method = Span::of(method, head);
        self.target = Span::of(request.path.unwrap_or_default().as_bytes(), head);
        self.fields.clear();
        for header in request.headers.iter() {
            self.fields.push(header.name.as_bytes(), header.value, head);
        }
        Ok(())
    }

    /// `Host` must stand exactly once in HTTP/1.1 (RFC 9112 §3.2) and be well-formed.
    fn read_host(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        let mut hosts = self.fields.iter().filter(|field| field.known == Known::Host);
        let header = hosts.next().map(|field| field.value());
        if hosts.next().is_some() || (header.is_none() && self.version == Version::Http11) {
            return Err(HeadError::BadHost);
        }
        if let Some(header) = header {
            let (host, _) = authority::split(header.of_buffer(buffer)).ok_or(HeadError::BadHost)?;
            self.authority = header;
            self.host_bytes = host.len;
        } else {
            self.authority = Span::default();
            self.host_bytes = 0;
        }
        if let Some(absolute) = self.parts.authority {
            let split = authority::split(absolute.of_buffer(buffer)).ok_or(HeadError::BadHost)?;
            self.authority = absolute;
            self.host_bytes = split.0.len;
        }
        Ok(())
    }

    /// Reads `Connection` (RFC 9110 §7.6.1, RFC 9112 §9.3): persistence, upgrade, options.
    fn read_connection(&mut self, buffer: &[u8]) {
        self.keep_alive = self.version == Version::Http11;
        self.upgrade = false;
        if !self.fields.has(Known::Connection) {
            return;
        }
        let options = read_connection_options(&mut self.fields, buffer);
        self.upgrade =
            options.upgrade && self.fields.has(Known::Upgrade) && self.version == Version::Http11;
        self.keep_alive = !options.close && (self.keep_alive || options.keep_alive);
    }

    /// `Expect` other than `100-continue` cannot be met (RFC 9110 §10.1.1); an HTTP/1.0 client
    /// does not understand the interim response, so its expectation is not one.
    fn read_expectation(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        self.expectation = Expectation::None;
        let Some(value) = self.fields.first(Known::Expect) else { return Ok(()) };
        if !value.of_buffer(buffer).eq_ignore_ascii_case(b"100-continue") {
            return Err(HeadError::ExpectationFailed);
        }
        if self.version == Version::Http11 && self.body != BodyLength::None {
            self.expectation = Expectation::Continue;
        }
        Ok(())
    }
}

/// What a `Connection` header asks for.
#[derive(Default)]
pub(crate) struct ConnectionOptions {
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
}

/// Reads all `Connection` lines and marks the fields they name.
pub(crate) fn read_connection_options(fields: &mut Fields, buffer: &[u8]) -> ConnectionOptions {
    let mut options = ConnectionOptions::default();
    for index in 0..fields.len() {
        let Some(field) = fields.iter().nth(index).copied() else { break };
        if field.known != Known::Connection {
            continue;
        }
        for option in list_elements(field.value().of_buffer(buffer)) {
            if option.eq_ignore_ascii_case(b"close") {
                options.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                options.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                options.upgrade = true;
            } else {
                fields.mark_connection_option(option, buffer);
            }
        }
    }
    options
}

/// Names the rule behind the grammar parser's refusal.
#[cold]
fn grammar_error(error: httparse::Error, head: &[u8]) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyHeaders,
        httparse::Error::Version if names_other_version(head) => HeadError::VersionNotSupported,
        httparse::Error::Version | httparse::Error::Token | httparse::Error::NewLine => {
            HeadError::BadLine
        }
        _ => HeadError::BadHeader,
    }
}

/// Whether the first line ends in a well-formed version that is not 1.0 or 1.1.
fn names_other_version(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let version = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit())
}

#[cfg(test)]
mod tests;
