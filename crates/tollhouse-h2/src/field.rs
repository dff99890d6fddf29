//! Single fields: what a name is known as, and which bytes names and values may have.
//!
//! A field is looked at once: what its kind is, stands beside it in the tables of HPACK, so that one
//! that comes again costs no second look. What a message may be made of is in `message.rs`.

use tollhouse_http::element::OriginForm;
use tollhouse_stdx::control_bytes::control_position;

/// A field of a message, as it is handed in and out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// In lower case, a token, or the name of a pseudo-header field with its colon.
    pub name: &'a [u8],
    /// Without white space at its ends and without control bytes, but HTAB.
    pub value: &'a [u8],
    /// What the name is known as.
    pub kind: FieldKind,
    /// Whether no table may remember it, here or further on (RFC 7541 §7.1.3).
    pub is_sensitive: bool,
}

impl<'a> Field<'a> {
    /// One to be sent, which tables may remember.
    #[inline]
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value, kind: FieldKind::Regular, is_sensitive: false }
    }

    /// One to be sent that no table may remember.
    #[inline]
    pub fn sensitive(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { is_sensitive: true, ..Self::new(name, value) }
    }
}

/// What a field is known as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FieldKind {
    /// Any that is not named below.
    Regular,
    /// None that a message may have; never handed out.
    Malformed,
    /// `:method`, a token.
    Method,
    /// `:scheme`.
    Scheme,
    /// `:authority`, a host with or without a port.
    Authority,
    /// `:path`, an origin form or `*`.
    Path,
    /// `:protocol` of an extended CONNECT (RFC 8441 §4).
    Protocol,
    /// `:status`, three digits.
    Status,
    /// `host`, a host with or without a port.
    Host,
    /// `content-length`, digits.
    ContentLength,
    /// `cookie`, perhaps one of several crumbs (RFC 9113 §8.2.3).
    Cookie,
    /// `priority` (RFC 9218 §5).
    Priority,
}

impl FieldKind {
    /// Whether it is one of those with a colon.
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

/// Why a field, or the message around it, is malformed (RFC 9113 §8.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// A name that is empty or no token in lower case.
    Name,
    /// A value with a control byte, or with white space at an end.
    Value,
    /// A pseudo-header field that is unknown, or not of this kind of message.
    UnknownPseudo,
    /// A pseudo-header field that stands twice, behind a regular field, or in trailers.
    MisplacedPseudo,
    /// A pseudo-header field that is missing.
    MissingPseudo,
    /// A method, scheme, path, authority, protocol or status that is none.
    PseudoValue,
    /// A field that speaks of one connection: `connection`, `transfer-encoding` and their like.
    ConnectionSpecific,
    /// `host` that is none, or says something else than `:authority`.
    Host,
    /// `content-length` that is no number, or stands twice.
    ContentLength,
    /// More or less DATA than `content-length` said.
    BodyLength,
    /// A message that ends where it may not, or goes on where it should end.
    Sequence,
    /// More or larger fields than [`crate::Limits`] allow.
    TooLarge,
}

impl Malformed {
    /// A fragment that says it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Name => "a field name is empty or no token in lower case",
            Self::Value => "a field value has a control byte, or white space at an end",
            Self::UnknownPseudo => "an unknown pseudo-header field",
            Self::MisplacedPseudo => "a pseudo-header field stands twice, late, or in trailers",
            Self::MissingPseudo => "a pseudo-header field is missing",
            Self::PseudoValue => "a pseudo-header field has a value that is none",
            Self::ConnectionSpecific => "a field that speaks of one connection only",
            Self::Host => "a host that is none, or another than :authority",
            Self::ContentLength => "a content-length that is no number, or stands twice",
            Self::BodyLength => "a body of another length than content-length says",
            Self::Sequence => "a message that ends, or goes on, where it may not",
            Self::TooLarge => "too many or too large fields",
        }
    }
}

/// Names may have it.
const NAME: u8 = 1;
/// An upper-case letter.
const UPPER: u8 = 2;

/// By byte: [`NAME`] for those of a token in lower case (RFC 9110 §5.6.2), [`UPPER`] for letters that
/// are a token's in upper case.
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
    // Without branches for each byte.
    !text.is_empty() && text.iter().fold(NAME, |all, &byte| all & BYTES[usize::from(byte)]) == NAME
}

/// Whether `text` is a token, whatever its case.
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| BYTES[usize::from(byte)] != 0)
}

/// Whether a value may be `text` (RFC 9113 §8.2.1): CTL other than HTAB pass no server alike, and
/// white space at an end would be gone behind the next hop.
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

/// What the field is known as; [`FieldKind::Malformed`] for what no message may have.
#[inline]
pub(crate) fn classify(name: &[u8], value: &[u8]) -> FieldKind {
    examine(name, value).unwrap_or(FieldKind::Malformed)
}

/// What the field is known as, or what is wrong with it.
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

/// RFC 3986 §3.1.
fn is_scheme(text: &[u8]) -> bool {
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(is_good)
}

fn host(text: &[u8]) -> Result<(), Malformed> {
    tollhouse_http::authority::split(text).map(drop).ok_or(Malformed::Host)
}

/// The number of a status of three digits.
pub(crate) fn status(text: &[u8]) -> Option<u16> {
    let [hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = text else {
        return None;
    };
    let digit = |byte: &u8| u16::from(byte - b'0');
    Some(digit(hundreds) * 100 + digit(tens) * 10 + digit(ones))
}

/// Digits of the largest `content-length`: what fits in 63 bits, as in most servers.
const CONTENT_LENGTH_DIGITS_MAX: usize = 18;

/// The number of a `content-length`.
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
