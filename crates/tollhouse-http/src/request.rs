//! Request heads, parsed into spans over the read buffer, with the properties for framing and
//! routing.

use std::borrow::Cow;

use crate::field::list_elements;
use crate::framing::{self, DeclaredFraming};
use crate::grammar;
use crate::limits::CONNECTION_OPTIONS_MAX;
use crate::scan::{Bounds, HeadScan, header_count_max};
use crate::target::{self, Target};
use crate::{BodyLength, Field, Fields, HeadError, HeadLimits, Known, Span, authority};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    Http10,
    #[default]
    Http11,
}

/// Interim response that the client expects before it sends the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expectation {
    #[default]
    None,
    /// An interim 100 response (RFC 9110 §10.1.1).
    Continue,
}

/// A request head, reused for every request of a connection. Its spans index into the buffer of the
/// last [`RequestHead::parse`].
#[derive(Debug, Default)]
pub struct RequestHead {
    scan: HeadScan,
    /// Length of the head with its final empty line; the body starts here.
    pub head_bytes: usize,
    /// Position of the method, a token.
    pub method: Span,
    /// Position of the request target as sent.
    pub target: Span,
    /// Parts of the request target: authority, path and query.
    pub parts: Target,
    /// `host[:port]` of an absolute target, else of the `Host` header; empty for HTTP/1.0 without
    /// one.
    pub authority: Span,
    /// Length of the host within `authority`.
    pub host_bytes: u32,
    /// Version in the request line, 1.0 or 1.1.
    pub version: Version,
    pub fields: Fields,
    /// Delimitation of the body; never `UntilClose`.
    pub body: BodyLength,
    /// Whether the client keeps the connection open after this exchange.
    pub keep_alive: bool,
    /// Whether the request has `Connection: upgrade` and an `Upgrade` header that contains
    /// `websocket`. Other protocols are not passed on, because a client could use them to talk to
    /// the node unseen.
    pub upgrade: bool,
    /// Interim response to send before the body is read.
    pub expectation: Expectation,
}

impl RequestHead {
    /// Resets the parser, so that the next `parse` starts a new request.
    pub fn reset(&mut self) {
        self.scan = HeadScan::default();
    }

    /// Returns the number of bytes of complete empty lines at the start of `buffer`. A connection
    /// that waits for a request may drop them before `parse`, to keep its buffer empty; `parse`
    /// skips a few as well.
    #[inline]
    pub fn leading_empty_bytes(buffer: &[u8]) -> usize {
        2 * buffer.chunks_exact(2).take_while(|pair| pair == b"\r\n").count()
    }

    /// Parses the head at the start of `buffer`. `Ok(false)` requests more bytes; a further call
    /// for this request must pass the buffer with more bytes appended.
    ///
    /// # Errors
    /// The first rule that the head violates; the connection cannot be read further.
    #[inline]
    pub fn parse(&mut self, buffer: &[u8], limits: &HeadLimits) -> Result<bool, HeadError> {
        if !self.parse_lines(buffer, limits)? {
            return Ok(false);
        }
        self.head_bytes = self.scan.bytes();
        let head = buffer.get(..self.head_bytes).unwrap_or_default();
        if self.fields.repeats_what_stands_once() {
            return Err(HeadError::BadHeader);
        }
        self.fields.hide_reserved();
        self.read_host(head)?;
        self.body = match framing::declared(&self.fields, head, self.version)? {
            DeclaredFraming::Chunked => BodyLength::Chunked,
            DeclaredFraming::Length(bytes) if bytes > 0 => BodyLength::Known(bytes),
            DeclaredFraming::Length(_) | DeclaredFraming::Nothing => BodyLength::None,
        };
        self.read_connection(head)?;
        self.read_expectation(head)?;
        Ok(true)
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
        while !scan.has_first() {
            let Some(range) = scan.first_line(buffer, bounds)? else { return Ok(false) };
            if range.is_empty() {
                scan.skip_leading_line()?;
            } else {
                self.parse_first_line(buffer, range.start, &buffer[range.clone()])?;
            }
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

    fn parse_first_line(
        &mut self,
        buffer: &[u8],
        start: usize,
        line: &[u8],
    ) -> Result<(), HeadError> {
        let parts = grammar::request_line(line)?;
        let method = &line[..parts.method_end];
        match method {
            b"CONNECT" => return Err(HeadError::MethodNotImplemented),
            b"TRACE" => return Err(HeadError::MethodNotAllowed),
            _ => {}
        }
        let target = Span::new(start + parts.method_end + 1, start + parts.target_end);
        // A space within the target means that the line has more than three parts.
        self.parts = target::parse(buffer, target, method).map_err(|error| {
            if target.bytes_in(buffer).contains(&b' ') { HeadError::BadLine } else { error }
        })?;
        self.target = target;
        self.method = Span::new(start, start + parts.method_end);
        self.version = parts.version;
        self.fields.clear();
        Ok(())
    }

    /// Checks that `Host` occurs exactly once in HTTP/1.1 (RFC 9112 §3.2) and is well-formed.
    fn read_host(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        let header = self.fields.first(Known::Host);
        if self.fields.is_repeated(Known::Host)
            || (header.is_none() && self.version == Version::Http11)
        {
            return Err(HeadError::BadHost);
        }
        if let Some(header) = header {
            let (host, _) = authority::split(header.bytes_in(buffer)).ok_or(HeadError::BadHost)?;
            self.authority = header;
            self.host_bytes = host.len;
        } else {
            self.authority = Span::default();
            self.host_bytes = 0;
        }
        if let Some(absolute) = self.parts.authority {
            let split = authority::split(absolute.bytes_in(buffer)).ok_or(HeadError::BadHost)?;
            self.authority = absolute;
            self.host_bytes = split.0.len;
            // `Host` gets the value that the request is routed by (RFC 9112 §3.2.2).
            self.fields.set_value(Known::Host, absolute);
        }
        Ok(())
    }

    /// Appends the authority in the form in which hosts are compared: in lower case, without a
    /// final dot of the name. Its first `host_bytes` are the host.
    #[inline]
    pub fn write_host(&self, buffer: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let (host, behind) = self.authority.bytes_in(buffer).split_at(self.host_bytes as usize);
        out.extend_from_slice(host);
        out.extend_from_slice(behind.strip_prefix(b".").unwrap_or(behind));
        out[start..].make_ascii_lowercase();
    }

    /// Returns the path and query as sent, for a node: without the scheme and host of an absolute
    /// target, and with `/` in place of an empty path.
    #[inline]
    pub fn origin_form<'b>(&self, buffer: &'b [u8]) -> Cow<'b, [u8]> {
        let Target { path, query, .. } = self.parts;
        if !path.is_empty() {
            let end = query.map_or(path.end(), Span::end);
            return Cow::Borrowed(buffer.get(path.start as usize..end).unwrap_or_default());
        }
        match query {
            None => Cow::Borrowed(b"/"),
            Some(query) => Cow::Owned([b"/?", query.bytes_in(buffer)].concat()),
        }
    }

    /// Reads `Connection` (RFC 9110 §7.6.1, RFC 9112 §9.3): persistence, upgrade, options.
    fn read_connection(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        self.keep_alive = self.version == Version::Http11;
        self.upgrade = false;
        if !self.fields.has(Known::Connection) {
            return Ok(());
        }
        let options = read_connection_options(&mut self.fields, buffer)?;
        self.upgrade = options.upgrade
            && self.version == Version::Http11
            && names_websocket(&self.fields, buffer);
        self.keep_alive = !options.close && (self.keep_alive || options.keep_alive);
        Ok(())
    }

    /// Reads `Expect`; a value other than `100-continue` is refused (RFC 9110 §10.1.1). The
    /// expectation of an HTTP/1.0 client is ignored, because it does not understand the interim
    /// response.
    fn read_expectation(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        self.expectation = Expectation::None;
        if !self.fields.has(Known::Expect) {
            return Ok(());
        }
        let is_continue =
            |field: &Field| field.value().bytes_in(buffer).eq_ignore_ascii_case(b"100-continue");
        let mut expectations = self.fields.iter().filter(|field| field.known == Known::Expect);
        if !expectations.all(is_continue) {
            return Err(HeadError::ExpectationFailed);
        }
        if self.version == Version::Http11 && self.body != BodyLength::None {
            self.expectation = Expectation::Continue;
        }
        Ok(())
    }
}

/// Whether `Upgrade` contains the protocol `websocket`.
fn names_websocket(fields: &Fields, buffer: &[u8]) -> bool {
    let mut lines = fields.iter().filter(|field| field.known == Known::Upgrade);
    let is_websocket = |name: &[u8]| name.eq_ignore_ascii_case(b"websocket");
    lines.any(|field| list_elements(field.value().bytes_in(buffer)).any(is_websocket))
}

/// Options of all `Connection` headers of a message.
#[derive(Default)]
pub(crate) struct ConnectionOptions {
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
    /// Number of options in lists so far.
    count: usize,
}

/// Reads all `Connection` lines and hides the fields that they name.
pub(crate) fn read_connection_options(
    fields: &mut Fields,
    buffer: &[u8],
) -> Result<ConnectionOptions, HeadError> {
    let mut options = ConnectionOptions::default();
    if !fields.is_repeated(Known::Connection) {
        // The most frequent values need no splitting.
        match fields.first(Known::Connection).unwrap_or_default().bytes_in(buffer) {
            b"keep-alive" => options.keep_alive = true,
            b"close" => options.close = true,
            list => options.read_list(list, fields, buffer)?,
        }
        return Ok(options);
    }
    for index in 0..fields.len() {
        let Some(value) = fields.value_at(index, Known::Connection) else { continue };
        options.read_list(value.bytes_in(buffer), fields, buffer)?;
    }
    Ok(options)
}

impl ConnectionOptions {
    fn read_list(
        &mut self,
        list: &[u8],
        fields: &mut Fields,
        buffer: &[u8],
    ) -> Result<(), HeadError> {
        for option in list_elements(list) {
            self.count += 1;
            if self.count > CONNECTION_OPTIONS_MAX {
                return Err(HeadError::BadHeader);
            }
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else {
                fields.mark_connection_option(option, buffer);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
