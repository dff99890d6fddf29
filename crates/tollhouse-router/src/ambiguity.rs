//! Spellings of a path that servers read in more than one way.
//!
//! Where something protects a node by the path, these are refused: the node might serve another
//! resource than the one that was judged. Everything else that a path may hold is normalised instead
//! (`normalize.rs`).

use crate::NormalizeOptions;

#[cfg(test)]
mod tests;

/// Handling of ambiguous paths where a request is judged (`ambiguous_paths`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AmbiguousPaths {
    /// Answered by 400.
    #[default]
    Refuse,
    /// Passed on as sent: the operator knows that nodes read them as the gateway does.
    Allow,
}

/// Bytes that every ambiguous spelling has one of.
static MARKS: [bool; 256] = {
    let mut marks = [false; 256];
    marks[b'%' as usize] = true;
    marks[b';' as usize] = true;
    marks[b'\\' as usize] = true;
    marks
};

/// Whether a path may be ambiguous: it has an escape, a parameter or a backslash. One pass without
/// branches.
#[inline]
pub fn may_be_ambiguous(path: &[u8]) -> bool {
    path.iter().fold(false, |any, &byte| any | MARKS[usize::from(byte)])
}

/// Whether servers read a path, as it was sent, in more than one way:
///
/// - an escaped slash is data to some, a slash to others. With `match_uri_encoded_slash` the operator
///   says that it is data; dots between such slashes would still climb where it is not;
/// - a backslash, escaped or not, is a slash on Windows and in browsers;
/// - `;` begins parameters that servlet containers cut off before they look for the resource, which
///   turns `/a;x/b` into `/a/b` and `..;` into `..`. With `normalize_uri_like_servlet` routes see the
///   path without them, and an escaped `;` is ambiguous instead.
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

/// Whether any part between slashes, escaped ones included, would be a dot segment, and one of the
/// slashes next to it is escaped.
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
