//! Strict parsers of the lines of a head (RFC 9112 §3, §4, §5).
//!
//! They work on whole lines without CRLF, in which `scan.rs` has found no control byte except HTAB.

use tollhouse_stdx::word_bytes::word_bytes;

use crate::{HeadError, Known, Version};

/// Length of `" HTTP/1.1"`, the end of a request line.
const VERSION_SUFFIX_BYTES: usize = 9;

/// Length of `"HTTP/1.1 200"`, the shortest status line.
const STATUS_LINE_BYTES_MIN: usize = 12;

/// A parsed request line; numbers are offsets into the line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestLine {
    /// End of the method, which starts the line; the target starts one byte later.
    pub(crate) method_end: usize,
    pub(crate) target_end: usize,
    pub(crate) version: Version,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusLine {
    pub(crate) version: Version,
    pub(crate) status: u16,
    /// Start of the reason phrase, which extends to the end of the line.
    pub(crate) reason_start: usize,
}

/// A parsed header line; the name starts the line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldLine {
    pub(crate) known: Known,
    pub(crate) name_end: usize,
    pub(crate) value_start: usize,
    pub(crate) value_end: usize,
}

/// Parses method, target and version, separated by exactly one space each.
#[inline]
pub(crate) fn request_line(line: &[u8]) -> Result<RequestLine, HeadError> {
    let target_end = line.len().saturating_sub(VERSION_SUFFIX_BYTES);
    let version = match &line[target_end..] {
        b" HTTP/1.1" => Version::Http11,
        b" HTTP/1.0" => Version::Http10,
        _ => return Err(version_error(line)),
    };
    let method_end = token_bytes(line);
    if method_end == 0 || method_end >= target_end || line[method_end] != b' ' {
        return Err(HeadError::BadLine);
    }
    Ok(RequestLine { method_end, target_end, version })
}

/// Distinguishes a well-formed line of another version from a malformed one.
#[cold]
fn version_error(line: &[u8]) -> HeadError {
    let mut parts = line.split(|&byte| byte == b' ');
    let (method, target, version, rest) = (parts.next(), parts.next(), parts.next(), parts.next());
    let is_request = method.is_some_and(is_token)
        && target.is_some_and(|target| !target.is_empty())
        && version.is_some_and(is_version)
        && rest.is_none();
    if is_request { HeadError::VersionNotSupported } else { HeadError::BadLine }
}

/// Whether the text is `HTTP/`, a digit, a dot and a digit (RFC 9112 §2.3).
fn is_version(text: &[u8]) -> bool {
    matches!(text, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// Parses version, three digits and, after a space, a reason phrase; space and phrase may be
/// missing.
#[inline]
pub(crate) fn status_line(line: &[u8]) -> Result<StatusLine, HeadError> {
    let version = match line.get(..9) {
        Some(b"HTTP/1.1 ") => Version::Http11,
        Some(b"HTTP/1.0 ") => Version::Http10,
        Some([version @ .., b' ']) if is_version(version) => {
            return Err(HeadError::VersionNotSupported);
        }
        _ => return Err(HeadError::BadLine),
    };
    let digits = line.get(9..STATUS_LINE_BYTES_MIN).ok_or(HeadError::BadLine)?;
    if !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
        return Err(HeadError::BadLine);
    }
    let status = digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    let reason_start = match line.get(STATUS_LINE_BYTES_MIN) {
        None => STATUS_LINE_BYTES_MIN,
        Some(b' ') => STATUS_LINE_BYTES_MIN + 1,
        Some(_) => return Err(HeadError::BadLine),
    };
    Ok(StatusLine { version, status, reason_start })
}

/// Parses a name, a colon directly after it, and a value. `text` is the head from this line on; the
/// line has `line_bytes`. A line with leading white space would continue the previous one; it is
/// refused like all names that are not tokens (RFC 9110 §5.1, RFC 9112 §5.1, §5.2).
#[inline(always)]
pub(crate) fn field_line(text: &[u8], line_bytes: usize) -> Result<FieldLine, HeadError> {
    let line = &text[..line_bytes];
    // Includes bytes after the line, because whole blocks are scanned faster than their parts.
    let words = word_bytes(text);
    let name_end = if words > 0 && line.get(words) == Some(&b':') {
        words
    } else {
        unusual_name_bytes(line).ok_or(HeadError::BadHeader)?
    };
    let known = Known::from_name(&line[..name_end]);
    let (value_start, value_end) = trimmed(line, name_end + 1);
    Ok(FieldLine { known, name_end, value_start, value_end })
}

/// Returns the length of a field name that contains other token bytes than letters, digits, `-`,
/// `.` and `_`; `None` if the text before the colon is not a token.
#[cold]
fn unusual_name_bytes(line: &[u8]) -> Option<usize> {
    let name_end = line.iter().position(|&byte| byte == b':')?;
    is_token(&line[..name_end]).then_some(name_end)
}

/// Returns the start and end of the value that begins at `from`, without surrounding blanks. The
/// only control byte of a line is HTAB, so that one comparison recognises both kinds of blank.
#[inline(always)]
fn trimmed(line: &[u8], from: usize) -> (usize, usize) {
    let is_blank = |byte: u8| byte <= b' ';
    // Nearly every line has one space before its value and none after it.
    let start = from + usize::from(line.get(from) == Some(&b' '));
    if let (Some(&first), Some(&last)) = (line.get(start), line.last())
        && !is_blank(first)
        && !is_blank(last)
    {
        return (start, line.len());
    }
    let value = &line[from..];
    let blanks = value.iter().take_while(|&&byte| is_blank(byte)).count();
    let tail = value[blanks..].iter().rev().take_while(|&&byte| is_blank(byte)).count();
    (from + blanks, line.len() - tail)
}

/// Returns the number of token bytes at the start of `text`.
#[inline]
fn token_bytes(text: &[u8]) -> usize {
    text.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(text.len())
}

#[inline]
pub(crate) fn is_token(text: &[u8]) -> bool {
    // No early exit, because names are short and most are tokens.
    !text.is_empty() && text.iter().fold(true, |token, &byte| token & is_token_byte(byte))
}

/// Whether the byte may occur in a token, such as a method or a field name (RFC 9110 §5.6.2).
#[inline]
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    TOKEN_BYTES[byte as usize]
}

static TOKEN_BYTES: [bool; 256] = byte_table(b"!#$%&'*+-.^_`|~");

/// Returns a table that is true for ASCII letters, digits and `marks`.
pub(crate) const fn byte_table(marks: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < marks.len() {
        table[marks[index] as usize] = true;
        index += 1;
    }
    table
}
