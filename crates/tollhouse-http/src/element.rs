//! Checked elements of a head: each type holds only bytes that the parsers of this crate read back
//! as that single element, so that no byte can end a line or begin another element (RFC 9112 §3,
//! §4, §5).
//!
//! `writer.rs` assembles heads from them.

use crate::grammar::{is_token, is_token_byte};
use crate::{RequestHead, Span, authority, target};

/// Request method, a token (RFC 9110 §9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method<'a>(&'a [u8]);

impl<'a> Method<'a> {
    /// Checks a method. `None` if it is not a token, or is CONNECT, whose target is not a path.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        (is_token(text) && text != b"CONNECT").then_some(Self(text))
    }

    /// Returns the method of `head`, which was parsed from `buffer`.
    #[inline]
    pub fn from_head(head: &RequestHead, buffer: &'a [u8]) -> Self {
        Self(head.method.bytes_in(buffer))
    }

    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Request target in origin form (RFC 9112 §3.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginForm<'a> {
    /// Path and query; without the path if that is empty.
    text: &'a [u8],
    /// Whether a slash must be written in place of an empty path.
    lacks_path: bool,
}

impl<'a> OriginForm<'a> {
    /// Checks a target. `None` if it does not begin with a slash or contains a byte that must be
    /// percent-encoded.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let is_good = text.first() == Some(&b'/') && !target::has_stray(text);
        is_good.then_some(Self { text, lacks_path: false })
    }

    /// Returns the target of `head`, with an absolute form reduced to path and query; `buffer` is
    /// the text that `head` was parsed from.
    #[inline]
    pub fn from_head(head: &RequestHead, buffer: &'a [u8]) -> Self {
        let (path, query) = (head.parts.path, head.parts.query);
        // The query directly follows the path and its `?`.
        let end = query.map_or(path.end(), Span::end);
        let text = buffer.get(path.start as usize..end).unwrap_or_default();
        Self { text, lacks_path: path.is_empty() }
    }

    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        if self.lacks_path {
            out.push(b'/');
        }
        out.extend_from_slice(self.text);
    }
}

/// `host[:port]` for the `Host` header (RFC 9110 §7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'a>(&'a [u8]);

impl<'a> Authority<'a> {
    /// Checks an authority. `None` if it is not `host` or `host:port` in a form that all servers
    /// read alike; see [`OwnedAuthority::parse`].
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        authority::split(text).map(|_| Self(text))
    }

    /// Returns the authority of `head`, which was parsed from `buffer`; `None` if the request has
    /// no host.
    #[inline]
    pub fn from_head(head: &RequestHead, buffer: &'a [u8]) -> Option<Self> {
        let text = head.authority.bytes_in(buffer);
        (!text.is_empty()).then_some(Self(text))
    }

    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// An authority from the configuration: checked once, written many times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedAuthority(Box<[u8]>);

impl OwnedAuthority {
    /// Returns the authority if it is `host` or `host:port` in a form that all servers read alike;
    /// otherwise `None`, for example if it is empty or has user info, an empty label or a stray
    /// colon.
    pub fn parse(text: impl Into<Box<[u8]>>) -> Option<Self> {
        let text = text.into();
        authority::split(&text)?;
        Some(Self(text))
    }

    /// Returns the authority as a borrowed element.
    #[inline]
    pub fn borrowed(&self) -> Authority<'_> {
        Authority(&self.0)
    }
}

/// A field name (RFC 9110 §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldName<'a>(&'a [u8]);

impl<'a> FieldName<'a> {
    /// Checks a field name. `None` if it is not a token.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        is_token(text).then_some(Self(text))
    }

    /// Returns a constant name, checked at compile time.
    ///
    /// # Panics
    /// If the text is not a token.
    pub const fn literal(text: &'static str) -> FieldName<'static> {
        let bytes = text.as_bytes();
        assert!(!bytes.is_empty());
        let mut at = 0;
        while at < bytes.len() {
            assert!(is_token_byte(bytes[at]), "invalid byte in a field name");
            at += 1;
        }
        FieldName(bytes)
    }

    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// A field value, or a reason phrase (RFC 9110 §5.5, RFC 9112 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldValue<'a>(&'a [u8]);

impl<'a> FieldValue<'a> {
    /// Checks a value. `None` if it contains a control byte other than HTAB.
    #[inline]
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let mut rest = text;
        while let Some(at) = tollhouse_stdx::control_bytes::control_position(rest) {
            if rest[at] != b'\t' {
                return None;
            }
            rest = &rest[at + 1..];
        }
        Some(Self(text))
    }

    /// Returns a constant value, checked at compile time.
    ///
    /// # Panics
    /// If the text contains a control byte.
    pub const fn literal(text: &'static str) -> FieldValue<'static> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            assert!(!bytes[at].is_ascii_control(), "invalid byte in a field value");
            at += 1;
        }
        FieldValue(bytes)
    }

    /// Returns the value at `span` of a head that was parsed from `buffer`.
    #[inline]
    pub fn from_span(span: Span, buffer: &'a [u8]) -> Self {
        Self(span.bytes_in(buffer))
    }

    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> From<Authority<'a>> for FieldValue<'a> {
    #[inline]
    fn from(authority: Authority<'a>) -> Self {
        Self(authority.0)
    }
}

/// A status code from 100 to 999.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(u16);

impl Status {
    /// Checks a status. `None` if it does not have three digits.
    #[inline]
    pub const fn new(number: u16) -> Option<Self> {
        if number >= 100 && number <= 999 { Some(Self(number)) } else { None }
    }

    /// Status 500, in place of an invalid status.
    pub const INTERNAL_ERROR: Self = Self(500);

    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Whether the status is final; an interim status announces another response.
    #[inline]
    pub const fn is_final(self) -> bool {
        self.0 >= 200
    }

    /// Whether a response with this status never has a body, for any request (RFC 9110 §6.4.1).
    #[inline]
    pub const fn is_bodiless(self) -> bool {
        self.0 < 200 || matches!(self.0, 204 | 304)
    }

    /// Whether a response with this status must not declare a length (RFC 9110 §8.6).
    #[inline]
    pub const fn is_lengthless(self) -> bool {
        self.0 < 200 || self.0 == 204
    }
}
