//! Brings a path into the form that routes are matched against (apisix.md §3.5, RFC 3986 §6.2.2).
//!
//! Percent-escapes are decoded once, repeated slashes merged, dot segments resolved. A path that
//! needs none of this is recognised in one scan and left where it is.

/// What is done beside the ordinary.
#[derive(Debug, Clone, Copy, Default)]
pub struct NormalizeOptions {
    /// `;params` of a segment are cut off, and escapes that hide path syntax are refused.
    pub servlet_params: bool,
    /// `%2F` stays encoded while matching.
    pub encoded_slash: bool,
    /// One trailing slash is cut off.
    pub delete_tail_slash: bool,
}

/// Where the normalised path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalized {
    /// The path was in order already.
    Borrowed,
    /// It was written to the output.
    InOut,
}

/// A path that leads above its root, is badly encoded, or holds a NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPath;

/// Normalises `path`, which begins with `/`; `out` is overwritten when something had to change.
///
/// # Errors
/// [`BadPath`]: the request is to be refused with 400.
#[inline]
pub fn normalize_path(
    path: &[u8],
    options: &NormalizeOptions,
    out: &mut Vec<u8>,
) -> Result<Normalized, BadPath> {
    if is_normal(path, options) {
        return Ok(Normalized::Borrowed);
    }
    out.clear();
    decode(path, options, out)?;
    if options.servlet_params {
        cut_params(out);
    }
    resolve_dots(out)?;
    if options.delete_tail_slash && out.len() > 1 && out.last() == Some(&b'/') {
        out.pop();
    }
    Ok(Normalized::InOut)
}

/// One scan: no escapes, no empty or dot-led segments, nothing that the options touch.
#[inline]
fn is_normal(path: &[u8], options: &NormalizeOptions) -> bool {
    let mut previous = 0;
    for &byte in path {
        let is_special = byte == b'%'
            || (previous == b'/' && (byte == b'/' || byte == b'.'))
            || (byte == b';' && options.servlet_params);
        if is_special {
            return false;
        }
        previous = byte;
    }
    !(options.delete_tail_slash && path.len() > 1 && previous == b'/')
}

fn decode(path: &[u8], options: &NormalizeOptions, out: &mut Vec<u8>) -> Result<(), BadPath> {
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = after.get(..2).ok_or(BadPath)?;
        let decoded = hex(digits[0])? << 4 | hex(digits[1])?;
        rest = &after[2..];
        match decoded {
            0 => return Err(BadPath),
            b'/' if options.encoded_slash => out.extend_from_slice(&[b'%', digits[0], digits[1]]),
            b'/' | b'\\' | b'.' | b'%' | b';' if options.servlet_params => return Err(BadPath),
            decoded => out.push(decoded),
        }
    }
    Ok(())
}

fn hex(digit: u8) -> Result<u8, BadPath> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(BadPath),
    }
}

/// Cuts `;…` off every segment.
fn cut_params(path: &mut Vec<u8>) {
    let mut in_params = false;
    path.retain(|&byte| {
        in_params = byte != b'/' && (in_params || byte == b';');
        !in_params
    });
}

/// Merges slashes and resolves `.` and `..` in place.
fn resolve_dots(path: &mut Vec<u8>) -> Result<(), BadPath> {
    let bytes = std::mem::take(path);
    let mut segments = bytes.split(|&byte| byte == b'/').peekable();
    // The path begins with a slash: what stands before it is empty.
    segments.next();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"" | b"." => {
                if is_last {
                    path.push(b'/');
                }
            }
            b".." => {
                let parent = path.iter().rposition(|&byte| byte == b'/').ok_or(BadPath)?;
                path.truncate(parent);
                if is_last {
                    path.push(b'/');
                }
            }
            _ => {
                path.push(b'/');
                path.extend_from_slice(segment);
            }
        }
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, options: NormalizeOptions, expected: Result<&str, BadPath>) {
        let mut out = Vec::new();
        let found = normalize_path(path.as_bytes(), &options, &mut out);
        let text = found.map(|normalized| match normalized {
            Normalized::Borrowed => path.to_owned(),
            Normalized::InOut => String::from_utf8_lossy(&out).into_owned(),
        });
        assert_eq!(text.as_deref().map_err(|bad| *bad), expected, "{path}");
    }

    #[test]
    fn paths_are_normalised_or_refused() {
        for (path, expected) in [
            ("/", Ok("/")),
            ("/a/b", Ok("/a/b")),
            ("/a.b/c..d", Ok("/a.b/c..d")),
            ("/a%20b", Ok("/a b")),
            ("/%61", Ok("/a")),
            ("/a%2Fb", Ok("/a/b")),
            ("/a%2fb", Ok("/a/b")),
            ("/%2e%2e/a", Err(BadPath)),
            ("/a/%2e%2e/b", Ok("/b")),
            ("//a///b", Ok("/a/b")),
            ("/a/./b", Ok("/a/b")),
            ("/a/.", Ok("/a/")),
            ("/a/..", Ok("/")),
            ("/a/../b/", Ok("/b/")),
            ("/a/b/../..", Ok("/")),
            ("/..", Err(BadPath)),
            ("/a/../..", Err(BadPath)),
            ("/a%2", Err(BadPath)),
            ("/a%", Err(BadPath)),
            ("/a%zz", Err(BadPath)),
            ("/a%00", Err(BadPath)),
            ("/a%2541", Ok("/a%41")),
            ("/...", Ok("/...")),
            ("/a;b/c", Ok("/a;b/c")),
        ] {
            check(path, NormalizeOptions::default(), expected);
        }
    }

    #[test]
    fn options_change_single_rules() {
        let servlet = NormalizeOptions { servlet_params: true, ..Default::default() };
        check("/a;x=1/b;y", servlet, Ok("/a/b"));
        check("/a%2e/b", servlet, Err(BadPath));
        check("/a%20/b", servlet, Ok("/a /b"));
        let slash = NormalizeOptions { encoded_slash: true, ..Default::default() };
        check("/a%2Fb%20", slash, Ok("/a%2Fb "));
        let tail = NormalizeOptions { delete_tail_slash: true, ..Default::default() };
        check("/a/", tail, Ok("/a"));
        check("/", tail, Ok("/"));
        check("/a//", tail, Ok("/a"));
    }

    proptest::proptest! {
        #[test]
        fn a_normal_path_stays_as_it_is(path in "/[a-z./%0-9A-F]{0,30}") {
            let mut out = Vec::new();
            let options = NormalizeOptions::default();
            if normalize_path(path.as_bytes(), &options, &mut out) == Ok(Normalized::InOut)
                && !out.contains(&b'%')
            {
                let mut again = Vec::new();
                let second = normalize_path(&out, &options, &mut again);
                let text = if second == Ok(Normalized::Borrowed) { &out } else { &again };
                proptest::prop_assert_eq!(text, &out);
            }
        }
    }
}
