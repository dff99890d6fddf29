//! Request targets (RFC 9112 §3.2): origin, absolute and asterisk form.

use tollhouse_stdx::target_bytes::target_bytes;

use crate::{HeadError, Span, authority};

/// A parsed request target; spans index into the head's buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Target {
    /// `host[:port]` of an absolute-form target, which replaces the `Host` header.
    pub authority: Option<Span>,
    /// Path as sent; empty means `/`. For `OPTIONS *` it is `*`.
    pub path: Span,
    /// Query without `?`; `None` if the target has no `?`.
    pub query: Option<Span>,
}

impl Target {
    pub fn is_asterisk(&self, buffer: &[u8]) -> bool {
        self.path.bytes_in(buffer) == b"*"
    }
}

/// Parses the target at `span` of `buffer`.
#[inline]
pub(crate) fn parse(buffer: &[u8], span: Span, method: &[u8]) -> Result<Target, HeadError> {
    let text = span.bytes_in(buffer);
    if text.first() == Some(&b'/') {
        return origin(buffer, span.start as usize, span.end(), None);
    }
    if text == b"*" && method == b"OPTIONS" {
        return Ok(Target { authority: None, path: span, query: None });
    }
    absolute(buffer, span)
}

#[inline]
fn origin(
    buffer: &[u8],
    start: usize,
    end: usize,
    authority: Option<Span>,
) -> Result<Target, HeadError> {
    let found = target_bytes(&buffer[start..], end - start);
    if found.has_stray {
        return Err(HeadError::BadTarget);
    }
    Ok(match found.mark {
        Some(mark) => Target {
            authority,
            path: Span::new(start, start + mark),
            query: Some(Span::new(start + mark + 1, end)),
        },
        None => Target { authority, path: Span::new(start, end), query: None },
    })
}

/// Whether path or query contains a byte that is not allowed. Fragments are never sent (RFC 9112
/// §3.2.1), and servers interpret bytes outside ASCII differently.
#[inline]
pub(crate) fn has_stray(text: &[u8]) -> bool {
    target_bytes(text, text.len()).has_stray
}

fn absolute(buffer: &[u8], span: Span) -> Result<Target, HeadError> {
    let text = span.bytes_in(buffer);
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let scheme_bytes = scheme.ok_or(HeadError::BadTarget)?.len();
    let rest = &text[scheme_bytes..];
    let authority_bytes =
        rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    authority::split(&rest[..authority_bytes]).ok_or(HeadError::BadHost)?;
    let start = span.start as usize + scheme_bytes;
    let path_start = start + authority_bytes;
    origin(buffer, path_start, span.end(), Some(Span::new(start, path_start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_taken_apart() {
        for (method, text, expected) in [
            ("GET", "/a?b=c", Ok(("", "/a", Some("b=c")))),
            ("GET", "/", Ok(("", "/", None))),
            ("GET", "/a?", Ok(("", "/a", Some("")))),
            ("GET", "//a", Ok(("", "//a", None))),
            ("GET", "http://h.com/x?y", Ok(("h.com", "/x", Some("y")))),
            ("GET", "HTTP://h.com:80", Ok(("h.com:80", "", None))),
            ("GET", "http://h?q", Ok(("h", "", Some("q")))),
            ("OPTIONS", "*", Ok(("", "*", None))),
            ("GET", "*", Err(HeadError::BadTarget)),
            ("GET", "a/b", Err(HeadError::BadTarget)),
            ("GET", "ftp://h/", Err(HeadError::BadTarget)),
            ("GET", "/a#b", Err(HeadError::BadTarget)),
            ("GET", "http://u@h/", Err(HeadError::BadHost)),
            ("GET", "http:///x", Err(HeadError::BadHost)),
        ] {
            let span = Span::new(0, text.len());
            let found = parse(text.as_bytes(), span, method.as_bytes()).map(|target| {
                let slice = |span: Span| &text[span.start as usize..span.end()];
                let authority = target.authority.map(slice).unwrap_or_default();
                (authority, slice(target.path), target.query.map(slice))
            });
            assert_eq!(found, expected, "{method} {text}");
        }
    }
}
