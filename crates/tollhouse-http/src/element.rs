//! The elements a head is written from, checked: each type holds only bytes that the parsers of
//! this crate read back as that one element, so that no byte of it can end a line or begin another
//! element (RFC 9112 §3, §4, §5), whoever made it.
//!
//! What is assembled from them is in `writer.rs`.

use crate::grammar::{is_token, is_token_byte};
use crate::{RequestHead, Span, authority, target};

/// A method (RFC 9110 §9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method<'a>(&'a [u8]);

impl<'a> Method<'a> {
    /// `None` for what is not a token, and for CONNECT, whose target is not a path.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        (is_token(text) && text != b"CONNECT").then_some(Self(text))
    }

    /// The one that `head` was sent with; `buffer` is what it was parsed from.
    #[inline]
    pub fn from_head(head: &RequestHead, buffer: &'a [u8]) -> Self {
        Self(head.method.bytes_in(buffer))
    }

    /// Its bytes.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// A request target in origin form (RFC 9112 §3.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginForm<'a> {
    /// Path and query; the path is left out where it is empty.
    text: &'a [u8],
    /// Whether the slash is still to be written that an empty path stands for.
    lacks_path: bool,
}

impl<'a> OriginForm<'a> {
    /// `None` for what does not start with a slash, or has a byte that must be percent-encoded.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let is_good = text.first() == Some(&b'/') && !target::has_stray(text);
        is_good.then_some(Self { text, lacks_path: false })
    }

    /// The one that `head` was sent with, the absolute form reduced to it; `buffer` is what it was
    /// parsed from.
    #[inline]
    pub fn from_head(head: &RequestHead, buffer: &'a [u8]) -> Self {
        let (path, query) = (head.parts.path, head.parts.query);
        // The query stands right behind the path, but for its mark.
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

/// `host[:port]`, as it stands in `Host` (RFC 9110 §7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'a>(&'a [u8]);

impl<'a> Authority<'a> {
    /// `None` for what could be read in two ways.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        authority::split(text).map(|_| Self(text))
    }

    /// The one that `head` asks for; `None` where it names none. `buffer` is what it was parsed
    /// from.
    #[inline]
    pub fn from_head(head: &RequestHead, buffer: &'a [u8]) -> Option<Self> {
        let text = head.authority.bytes_in(buffer);
        (!text.is_empty()).then_some(Self(text))
    }

    /// Its bytes.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// An authority of the program's own configuration: checked once, written many times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedAuthority(Box<[u8]>);

impl OwnedAuthority {
    /// `None` for what could be read in two ways.
    pub fn parse(text: impl Into<Box<[u8]>>) -> Option<Self> {
        let text = text.into();
        authority::split(&text)?;
        Some(Self(text))
    }

    /// The same, borrowed.
    #[inline]
    pub fn borrowed(&self) -> Authority<'_> {
        Authority(&self.0)
    }
}

/// A field name (RFC 9110 §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldName<'a>(&'a [u8]);

impl<'a> FieldName<'a> {
    /// `None` for what is not a token.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        is_token(text).then_some(Self(text))
    }

    /// A name of the program's own, checked when the program is compiled.
    ///
    /// # Panics
    /// For what is not a token.
    pub const fn literal(text: &'static str) -> FieldName<'static> {
        let bytes = text.as_bytes();
        assert!(!bytes.is_empty());
        let mut at = 0;
        while at < bytes.len() {
            assert!(is_token_byte(bytes[at]), "no byte of a field name");
            at += 1;
        }
        FieldName(bytes)
    }

    /// Its bytes.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// A field value, or a reason phrase (RFC 9110 §5.5, RFC 9112 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldValue<'a>(&'a [u8]);

impl<'a> FieldValue<'a> {
    /// `None` for what has a control byte other than HTAB.
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

    /// A value of the program's own, checked when the program is compiled.
    ///
    /// # Panics
    /// For what has a control byte.
    pub const fn literal(text: &'static str) -> FieldValue<'static> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            assert!(!bytes[at].is_ascii_control(), "no byte of a field value");
            at += 1;
        }
        FieldValue(bytes)
    }

    /// The value at `span` of a head that was parsed from `buffer`.
    #[inline]
    pub fn from_span(span: Span, buffer: &'a [u8]) -> Self {
        Self(span.bytes_in(buffer))
    }

    /// Its bytes.
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

/// A status of three digits, 100 to 999.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(u16);

impl Status {
    /// `None` for what has not three digits.
    #[inline]
    pub const fn new(number: u16) -> Option<Self> {
        if number >= 100 && number <= 999 { Some(Self(number)) } else { None }
    }

    /// 500, for what should have been one and is none.
    pub const INTERNAL_ERROR: Self = Self(500);

    /// The number.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Whether an answer may end with it: interim ones announce another.
    #[inline]
    pub const fn is_final(self) -> bool {
        self.0 >= 200
    }

    /// Whether an answer with it never has a body, to whatever request (RFC 9110 §6.4.1).
    #[inline]
    pub const fn is_bodiless(self) -> bool {
        self.0 < 200 || matches!(self.0, 204 | 304)
    }

    /// Whether an answer with it says nothing about a length either (RFC 9110 §8.6).
    #[inline]
    pub const fn is_lengthless(self) -> bool {
        self.0 < 200 || self.0 == 204
    }
}
