//! Detection of paths that servers interpret in more than one way.
//!
//! Such paths are refused on routes with a plugin that judges the path, because the node might
//! serve another resource than the judged one. All other irregularities of a path are normalised
//! (`normalize.rs`).

use crate::NormalizeOptions;

#[cfg(test)]
mod tests;

/// Treatment of ambiguous paths on routes that judge the path (`ambiguous_paths`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AmbiguousPaths {
    /// The request is refused with 400.
    #[default]
    Refuse,
    /// The path is passed on as sent; the operator asserts that nodes interpret paths as the
    /// gateway does.
    Allow,
}

/// Bytes of which every ambiguous spelling contains at least one.
static MARKS: [bool; 256] = {
    let mut marks = [false; 256];
    marks[b'%' as usize] = true;
    marks[b';' as usize] = true;
    marks[b'\\' as usize] = true;
    marks
};

/// Whether a path may be ambiguous: it contains an escape, a parameter or a backslash. A single
/// pass without branches.
#[inline]
pub fn may_be_ambiguous(path: &[u8]) -> bool {
    path.iter().fold(false, |any, &byte| any | MARKS[usize::from(byte)])
}

/// Whether servers interpret a path, as it was sent, in more than one way:
///
/// - An escaped slash is data for some servers and a slash for others. With
///   `match_uri_encoded_slash`, the operator declares it as data; dot segments between such slashes
///   remain ambiguous.
/// - A backslash, escaped or not, is a slash on Windows and in browsers.
/// - `;` begins parameters, which servlet containers remove before they look up the resource:
///   `/a;x/b` becomes `/a/b`, and `..;` becomes `..`. With `normalize_uri_like_servlet`, routes see
///   the path without parameters, and an escaped `;` is ambiguous instead.
pub fn is_ambiguous(sent: &[u8], options: &NormalizeOptions) -> bool {
    if !may_be_ambiguous(sent) {
        return false;
    }
    let has = |text: &[u8]| sent.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text));
    let parameters = if options.servlet_params { &b"%3b"[..] } else { b";" };
    has(b"\\")
        || has(b"%5c")
        || has(parameters)
        || (has(b"%2f") && (!options.encoded_slash || climbs_by_escaped_slashes(sent)))
}

/// Whether a part between slashes, escaped ones included, is a dot segment with an escaped slash
/// next to it.
fn climbs_by_escaped_slashes(sent: &[u8]) -> bool {
    let (mut dots, mut is_dots, mut after_escape) = (0_u8, true, false);
    let mut rest = sent;
    while let Some((&byte, after)) = rest.split_first() {
        let (width, is_slash, is_escaped, is_dot) = match rest {
            [b'%', b'2', b'f' | b'F', ..] => (3, true, true, false),
            [b'%', b'2', b'e' | b'E', ..] => (3, false, true, true),
            _ => (1, byte == b'/', false, byte == b'.'),
        };
        if is_slash {
            if is_dots && matches!(dots, 1 | 2) && (is_escaped || after_escape) {
                return true;
            }
            (dots, is_dots, after_escape) = (0, true, is_escaped);
        } else {
            is_dots &= is_dot;
            dots = dots.saturating_add(u8::from(is_dot));
        }
        rest = if width == 1 { after } else { &rest[width..] };
    }
    after_escape && is_dots && matches!(dots, 1 | 2)
}
