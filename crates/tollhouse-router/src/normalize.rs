//! Normalisation of a path for route matching (RFC 3986 §6.2.2), as in nginx.
//!
//! Percent-escapes are decoded once, repeated slashes are merged, and dot segments, decoded ones
//! included, are resolved. A path that needs none of this is recognised in one scan and left in
//! place. The query string is not part of the path and is not read.
//!
//! [`escaped_path`] writes the normalised path in the form of a request line.

use std::borrow::Cow;

use thiserror::Error;

#[cfg(test)]
mod tests;

/// Optional steps of the normalisation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NormalizeOptions {
    /// Removes `;params` of segments, and refuses segments that would become dot segments
    /// (`normalize_uri_like_servlet`).
    pub servlet_params: bool,
    /// Keeps `%2F` escaped, in upper case (`match_uri_encoded_slash`).
    pub encoded_slash: bool,
    /// Removes one trailing slash, unless the path is `/` (`delete_uri_tail_slash`).
    pub delete_tail_slash: bool,
}

/// Place of the normalised path: the input, or the output buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalized {
    /// The path was already normalised and is borrowed.
    Borrowed,
    /// The path was written to the output.
    InOut,
}

/// Why a path is refused with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadPath {
    /// The path does not begin with a slash.
    #[error("path does not begin with a slash")]
    NotAbsolute,
    /// The dot segments lead above the root.
    #[error("path leads above its root")]
    AboveRoot,
    /// A `%` is not followed by two hexadecimal digits.
    #[error("path has an incomplete percent-escape")]
    Escape,
    /// The path contains a NUL byte, which servers interpret differently.
    #[error("path has a NUL byte")]
    Nul,
    /// Removing the parameters of a segment would change the meaning of other segments.
    #[error("path hides a dot segment or a slash behind parameters")]
    HiddenSegment,
}

/// Normalises `path`. `out` is overwritten if anything changes, and unspecified after an error.
///
/// # Errors
/// [`BadPath`]: the request must be refused.
#[inline]
pub fn normalize_path(
    path: &[u8],
    options: &NormalizeOptions,
    out: &mut Vec<u8>,
) -> Result<Normalized, BadPath> {
    if is_plain(path) && !options.concern(path) {
        return Ok(Normalized::Borrowed);
    }
    rewrite(path, options, Form::Decoded, out).map(|()| Normalized::InOut)
}

/// Normalises `path` for a request line: escapes of unreserved characters are decoded (RFC 3986
/// §6.2.2.2), all others are kept in upper case, and bytes that are not allowed in a path are
/// escaped. Decoded once, the result equals that of [`normalize_path`] with equal options.
///
/// # Errors
/// [`BadPath`]: the request must be refused.
pub fn escaped_path<'p>(
    path: &'p [u8],
    options: &NormalizeOptions,
) -> Result<Cow<'p, [u8]>, BadPath> {
    if is_plain(path) && !options.concern(path) && path.iter().all(|&byte| is_path_byte(byte)) {
        return Ok(Cow::Borrowed(path));
    }
    let mut out = Vec::with_capacity(path.len() + 16);
    rewrite(path, options, Form::Escaped, &mut out)?;
    Ok(Cow::Owned(out))
}

/// Appends decoded bytes, escaped as needed in a path.
pub fn escape_into(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        if is_path_byte(byte) {
            out.push(byte);
        } else {
            escape_byte(byte, out);
        }
    }
}

impl NormalizeOptions {
    /// Whether an option changes a path that is otherwise normalised.
    #[inline]
    fn concern(&self, path: &[u8]) -> bool {
        (self.delete_tail_slash && path.len() > 1 && path.ends_with(b"/"))
            || (self.servlet_params && memchr::memchr(b';', path).is_some())
    }
}

/// Whether `path` begins with a slash and has no escape, no empty segment, no NUL, and no segment
/// that begins with a dot. A single pass without branches, so that the compiler vectorises it.
#[inline]
fn is_plain(path: &[u8]) -> bool {
    let Some((b'/', rest)) = path.split_first() else { return false };
    let is_special = |before: u8, byte: u8| {
        (byte == b'%') | (byte == 0) | ((before == b'/') & ((byte == b'/') | (byte == b'.')))
    };
    !std::iter::zip(path, rest).fold(false, |any, (before, byte)| any | is_special(*before, *byte))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Decoded form, for comparisons.
    Decoded,
    /// Escaped form, for a request line.
    Escaped,
}

#[cold]
fn rewrite(
    path: &[u8],
    options: &NormalizeOptions,
    form: Form,
    out: &mut Vec<u8>,
) -> Result<(), BadPath> {
    out.clear();
    let Some((b'/', mut rest)) = path.split_first() else { return Err(BadPath::NotAbsolute) };
    out.push(b'/');
    let mut segment_start = 1;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let byte = if first == b'%' {
            let (high, low) = escape(after).ok_or(BadPath::Escape)?;
            rest = &after[2..];
            high << 4 | low
        } else {
            first
        };
        match byte {
            0 => return Err(BadPath::Nul),
            // With `encoded_slash`, an escaped slash is part of its segment.
            b'/' if first == b'%' && options.encoded_slash => escape_byte(b'/', out),
            b'/' => segment_start = end_segment(out, segment_start, Ending::Slash)?,
            byte if form == Form::Decoded => out.push(byte),
            // Reserved characters differ in meaning between escaped and plain (RFC 3986 §2.2), so
            // they are kept as sent.
            byte if first == b'%' && is_unreserved(byte) => out.push(byte),
            byte if first != b'%' && is_path_byte(byte) => out.push(byte),
            byte => escape_byte(byte, out),
        }
    }
    end_segment(out, segment_start, Ending::Path)?;
    if options.servlet_params {
        cut_params(out)?;
    }
    if options.delete_tail_slash && out.len() > 1 && out.ends_with(b"/") {
        out.pop();
    }
    Ok(())
}

/// Whether a byte means the same escaped and plain (RFC 3986 §2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a byte is allowed in a path; the bytes that nginx keeps when it escapes whole URIs.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(
            byte,
            b'"' | b'#' | b'%' | b'<' | b'>' | b'?' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
        )
}

fn escape_byte(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// Character or limit at which a segment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Slash,
    Path,
}

/// Ends the segment that begins at `start`, and resolves it if it is empty or a dot segment;
/// returns the start of the next one.
fn end_segment(out: &mut Vec<u8>, start: usize, ending: Ending) -> Result<usize, BadPath> {
    match &out[start..] {
        b"" => Ok(start),
        b"." => {
            out.truncate(start);
            Ok(start)
        }
        b".." => {
            // Every segment is preceded by its slash; the root has no parent.
            let above = &out[..start - 1];
            let parent = above.iter().rposition(|&byte| byte == b'/').ok_or(BadPath::AboveRoot)?;
            out.truncate(parent + 1);
            Ok(parent + 1)
        }
        _ => {
            if ending == Ending::Slash {
                out.push(b'/');
            }
            Ok(out.len())
        }
    }
}

fn escape(after_percent: &[u8]) -> Option<(u8, u8)> {
    let [high, low, ..] = after_percent else { return None };
    // The digits are at most 15, so the casts are lossless.
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    digit(*high).zip(digit(*low))
}

/// Removes `;…` from every segment of a path that is otherwise normalised.
fn cut_params(path: &mut Vec<u8>) -> Result<(), BadPath> {
    let mut segments = path.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let Some(cut) = memchr::memchr(b';', segment) else { continue };
        let is_inner = segments.peek().is_some();
        let kept = &segment[..cut];
        if is_dots(kept) || hides_slash(kept) || (kept.is_empty() && is_inner) {
            return Err(BadPath::HiddenSegment);
        }
    }
    let mut in_params = false;
    path.retain(|&byte| {
        in_params = byte != b'/' && (in_params || byte == b';');
        !in_params
    });
    Ok(())
}

/// Whether a segment is `.` or `..`, or would be after another round of decoding.
fn is_dots(segment: &[u8]) -> bool {
    let mut dots = 0;
    let mut rest = segment;
    while !rest.is_empty() {
        rest = match rest {
            [b'.', after @ ..] | [b'%', b'2', b'e' | b'E', after @ ..] => after,
            _ => return false,
        };
        dots += 1;
    }
    (1..=2).contains(&dots)
}

/// Whether a segment would contain a slash or backslash after another round of decoding.
fn hides_slash(segment: &[u8]) -> bool {
    segment
        .windows(3)
        .any(|part| part.eq_ignore_ascii_case(b"%2f") || part.eq_ignore_ascii_case(b"%5c"))
}
