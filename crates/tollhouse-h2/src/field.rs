//! Single fields: their kinds, and the bytes that names and values may contain.
//!
//! Each field is checked once: its kind is stored next to it in the HPACK tables, so a field that
//! is sent again needs no second check. The rules for whole messages are in `message.rs`.

use tollhouse_http::element::OriginForm;
use tollhouse_stdx::control_bytes::control_position;

/// A field of a message, sent or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// A lower-case token, or the name of a pseudo-header field with its colon.
    pub name: &'a [u8],
    /// A value without leading or trailing white space, and without control bytes except HTAB.
    pub value: &'a [u8],
    /// The kind of field, by its name.
    pub kind: FieldKind,
    /// Whether no table may store it, here or at a later hop (RFC 7541 §7.1.3).
    pub is_sensitive: bool,
}

impl<'a> Field<'a> {
    /// Creates a field to be sent that tables may store.
    #[inline]
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value, kind: FieldKind::Regular, is_sensitive: false }
    }

    /// Creates a field to be sent that no table may store.
    #[inline]
    pub fn sensitive(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { is_sensitive: true, ..Self::new(name, value) }
    }
}

/// Classification of a field by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FieldKind {
    /// Field without a kind in this list.
    Regular,
    /// A field that no message may contain; never handed out.
    Malformed,
    /// Pseudo-header `:method`, a token.
    Method,
    /// Pseudo-header `:scheme`, such as `https`.
    Scheme,
    /// `:authority`, a host with or without a port.
    Authority,
    /// `:path`, an origin form or `*`.
    Path,
    /// `:protocol` of an extended CONNECT (RFC 8441 §4).
    Protocol,
    /// Pseudo-header `:status`, three digits.
    Status,
    /// `host`, a host with or without a port.
    Host,
    /// Header `content-length`, only digits.
    ContentLength,
    /// `cookie`, possibly one of several crumbs (RFC 9113 §8.2.3).
    Cookie,
    /// Header `priority` (RFC 9218 §5).
    Priority,
}

impl FieldKind {
    /// Whether this is a pseudo-header field.
    #[inline]
    pub fn is_pseudo(self) -> bool {
        matches!(
            self,
            Self::Method
                | Self::Scheme
                | Self::Authority
                | Self::Path
                | Self::Protocol
                | Self::Status
        )
    }
}

/// Why a field, or the message that contains it, is malformed (RFC 9113 §8.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// A name that is empty or not a lower-case token.
    Name,
    /// A value with a control byte, or with leading or trailing white space.
    Value,
    /// A pseudo-header field that is unknown or not allowed in this kind of message.
    UnknownPseudo,
    /// A pseudo-header field that is repeated, after a regular field, or in trailers.
    MisplacedPseudo,
    /// A pseudo-header field that is missing.
    MissingPseudo,
    /// An invalid method, scheme, path, authority, protocol or status.
    PseudoValue,
    /// A connection-specific field such as `connection` or `transfer-encoding`.
    ConnectionSpecific,
    /// A `host` that is invalid or differs from `:authority`.
    Host,
    /// A `content-length` that is invalid or repeated.
    ContentLength,
    /// The length of the DATA differs from `content-length`.
    BodyLength,
    /// A message that ends too early, or continues after its end.
    Sequence,
    /// The fields are more or larger than [`crate::Limits`] allow.
    TooLarge,
}

impl Malformed {
    /// Returns the reason as a sentence fragment.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Name => "a field name is empty or not a lower-case token",
            Self::Value => "a field value has a control byte, or leading or trailing white space",
            Self::UnknownPseudo => "an unknown pseudo-header field",
            Self::MisplacedPseudo => "a repeated or misplaced pseudo-header field",
            Self::MissingPseudo => "a pseudo-header field is missing",
            Self::PseudoValue => "a pseudo-header field has an invalid value",
            Self::ConnectionSpecific => "a connection-specific field",
            Self::Host => "a host that is invalid or differs from :authority",
            Self::ContentLength => "an invalid or repeated content-length",
            Self::BodyLength => "a body whose length differs from content-length",
            Self::Sequence => "a message that ends too early or continues after its end",
            Self::TooLarge => "too many or too large fields",
        }
    }
}

/// Flag of characters that names may contain.
const NAME: u8 = 1;
/// Flag of upper-case letters, which HTTP/2 names must not contain.
const UPPER: u8 = 2;

/// The class of each byte: [`NAME`] for the bytes of a lower-case token (RFC 9110 §5.6.2),
/// [`UPPER`] for upper-case letters.
static BYTES: [u8; 256] = byte_classes();

const fn byte_classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let class = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' => NAME,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' => NAME,
            b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~' => NAME,
            b'A'..=b'Z' => UPPER,
            _ => 0,
        };
        classes[byte] = class;
        byte += 1;
    }
    classes
}

/// Whether `text` is a token without upper-case letters.
#[inline]
pub(crate) fn is_lower_token(text: &[u8]) -> bool {
    // Avoids a branch per byte.
    !text.is_empty() && text.iter().fold(NAME, |all, &byte| all & BYTES[usize::from(byte)]) == NAME
}

/// Whether `text` is a token in any case.
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| BYTES[usize::from(byte)] != 0)
}

/// Whether `text` is a valid field value (RFC 9113 §8.2.1). Servers treat control characters other
/// than HTAB differently, and the next hop would drop leading or trailing white space.
#[inline]
pub(crate) fn is_value(text: &[u8]) -> bool {
    let (Some(first), Some(last)) = (text.first(), text.last()) else { return true };
    if matches!(first, b' ' | b'\t') || matches!(last, b' ' | b'\t') {
        return false;
    }
    let mut rest = text;
    while let Some(position) = control_position(rest) {
        if rest[position] != b'\t' {
            return false;
        }
        rest = &rest[position + 1..];
    }
    true
}

/// Returns the kind of a field; [`FieldKind::Malformed`] if no message may contain it.
#[inline]
pub(crate) fn classify(name: &[u8], value: &[u8]) -> FieldKind {
    examine(name, value).unwrap_or(FieldKind::Malformed)
}

/// Returns the kind of a field, or what is wrong with it.
pub(crate) fn examine(name: &[u8], value: &[u8]) -> Result<FieldKind, Malformed> {
    if name.first() == Some(&b':') {
        return examine_pseudo(name, value);
    }
    if !is_lower_token(name) {
        return Err(Malformed::Name);
    }
    if !is_value(value) {
        return Err(Malformed::Value);
    }
    match name {
        b"cookie" => Ok(FieldKind::Cookie),
        b"priority" => Ok(FieldKind::Priority),
        b"host" => host(value).map(|()| FieldKind::Host),
        b"content-length" => content_length(value).map(|_| FieldKind::ContentLength),
        b"te" if !value.eq_ignore_ascii_case(b"trailers") => Err(Malformed::ConnectionSpecific),
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
            Err(Malformed::ConnectionSpecific)
        }
        _ => Ok(FieldKind::Regular),
    }
}

fn examine_pseudo(name: &[u8], value: &[u8]) -> Result<FieldKind, Malformed> {
    let (kind, is_good) = match name {
        b":method" => (FieldKind::Method, is_token(value)),
        b":scheme" => (FieldKind::Scheme, is_scheme(value)),
        b":authority" => (FieldKind::Authority, host(value).is_ok()),
        b":path" => (FieldKind::Path, value == b"*" || OriginForm::parse(value).is_some()),
        b":protocol" => (FieldKind::Protocol, is_token(value)),
        b":status" => (FieldKind::Status, status(value).is_some()),
        _ => return Err(Malformed::UnknownPseudo),
    };
    if is_good { Ok(kind) } else { Err(Malformed::PseudoValue) }
}

/// Checks a scheme (RFC 3986 §3.1).
fn is_scheme(text: &[u8]) -> bool {
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(is_good)
}

fn host(text: &[u8]) -> Result<(), Malformed> {
    tollhouse_http::authority::split(text).map(drop).ok_or(Malformed::Host)
}

/// Parses a status of three digits, the first not 0.
pub(crate) fn status(text: &[u8]) -> Option<u16> {
    let [hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = text else {
        return None;
    };
    let digit = |byte: &u8| u16::from(byte - b'0');
    Some(digit(hundreds) * 100 + digit(tens) * 10 + digit(ones))
}

/// Maximum number of digits in `content-length`: fits in 63 bits, as in most servers.
const CONTENT_LENGTH_DIGITS_MAX: usize = 18;

/// Parses a `content-length`; refuses signs, spaces and too many digits.
pub(crate) fn content_length(text: &[u8]) -> Result<u64, Malformed> {
    let is_good = !text.is_empty()
        && text.len() <= CONTENT_LENGTH_DIGITS_MAX
        && text.iter().all(u8::is_ascii_digit);
    let number = || text.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    if is_good { Ok(number()) } else { Err(Malformed::ContentLength) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_known_or_malformed() {
        for (name, value, expected) in [
            ("a", "", Ok(FieldKind::Regular)),
            ("x_y.z", "a\tb", Ok(FieldKind::Regular)),
            ("x", "caf\u{e9}", Ok(FieldKind::Regular)),
            ("Foo", "x", Err(Malformed::Name)),
            ("a b", "x", Err(Malformed::Name)),
            ("a:b", "x", Err(Malformed::Name)),
            ("", "x", Err(Malformed::Name)),
            ("a\u{e9}", "x", Err(Malformed::Name)),
            ("a\0", "x", Err(Malformed::Name)),
            ("a", "x\ry", Err(Malformed::Value)),
            ("a", "x\ny", Err(Malformed::Value)),
            ("a", "x\0y", Err(Malformed::Value)),
            ("a", "x\u{7f}", Err(Malformed::Value)),
            ("a", "x ", Err(Malformed::Value)),
            ("a", " x", Err(Malformed::Value)),
            ("a", "x\t", Err(Malformed::Value)),
            ("connection", "close", Err(Malformed::ConnectionSpecific)),
            ("transfer-encoding", "chunked", Err(Malformed::ConnectionSpecific)),
            ("upgrade", "h2c", Err(Malformed::ConnectionSpecific)),
            ("te", "gzip", Err(Malformed::ConnectionSpecific)),
            ("te", "trailers", Ok(FieldKind::Regular)),
            ("host", "a.com:80", Ok(FieldKind::Host)),
            ("host", "a@b", Err(Malformed::Host)),
            ("content-length", "5", Ok(FieldKind::ContentLength)),
            ("content-length", "5, 5", Err(Malformed::ContentLength)),
            ("content-length", "+5", Err(Malformed::ContentLength)),
            ("content-length", "", Err(Malformed::ContentLength)),
            (":method", "GET", Ok(FieldKind::Method)),
            (":method", "GET / HTTP/1.1", Err(Malformed::PseudoValue)),
            (":path", "/a?b", Ok(FieldKind::Path)),
            (":path", "/a b", Err(Malformed::PseudoValue)),
            (":path", "/x\r\nHost: y", Err(Malformed::PseudoValue)),
            (":path", "", Err(Malformed::PseudoValue)),
            (":path", "a", Err(Malformed::PseudoValue)),
            (":authority", "u@a", Err(Malformed::PseudoValue)),
            (":scheme", "https", Ok(FieldKind::Scheme)),
            (":scheme", "ht tp", Err(Malformed::PseudoValue)),
            (":status", "200", Ok(FieldKind::Status)),
            (":status", "20", Err(Malformed::PseudoValue)),
            (":status", "099", Err(Malformed::PseudoValue)),
            (":foo", "x", Err(Malformed::UnknownPseudo)),
            (":", "x", Err(Malformed::UnknownPseudo)),
        ] {
            assert_eq!(examine(name.as_bytes(), value.as_bytes()), expected, "{name:?}: {value:?}");
        }
    }
}
