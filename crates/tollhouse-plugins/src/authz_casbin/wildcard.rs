//! Patterns of paths in policies.

/// Meaning of a pattern's marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `keyMatch`: the first `*` stands for any rest, and what follows it is ignored.
    Star,
    /// `keyMatch2`: `:name` stands for a part of a path, `*` for any text.
    Colon,
    /// `keyMatch3`: `{name}` stands for a part of a path, `*` for any text.
    Braces,
    /// `globMatch`: `*` stands for a text without slashes, `?` for one such letter.
    Glob,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Byte(u8),
    /// At least one byte that is not a slash.
    Segment,
    /// Any bytes that are not slashes.
    WithoutSlash,
    /// A byte that is not a slash.
    One,
    /// Any bytes.
    Anything,
}

/// Whether `text` matches `pattern`. The time is bounded by the product of their lengths.
pub(super) fn is_match(style: Style, pattern: &str, text: &str) -> bool {
    let parts = parts(style, pattern.as_bytes());
    // Positions in `parts` that the text so far may have reached.
    let mut reached = vec![false; parts.len() + 1];
    reached[0] = true;
    skip_empty(&parts, &mut reached);
    for &byte in text.as_bytes() {
        let mut next = vec![false; parts.len() + 1];
        for (index, part) in parts.iter().enumerate().filter(|(index, _)| reached[*index]) {
            let is_slash = byte == b'/';
            match part {
                Part::Byte(own) => next[index + 1] |= *own == byte,
                Part::One => next[index + 1] |= !is_slash,
                Part::Segment => {
                    next[index] |= !is_slash;
                    next[index + 1] |= !is_slash;
                }
                Part::WithoutSlash => next[index] |= !is_slash,
                Part::Anything => next[index] = true,
            }
        }
        skip_empty(&parts, &mut next);
        reached = next;
    }
    reached[parts.len()]
}

/// Adds the positions after parts that may be empty.
fn skip_empty(parts: &[Part], reached: &mut [bool]) {
    for (index, part) in parts.iter().enumerate() {
        if matches!(part, Part::Anything | Part::WithoutSlash) && reached[index] {
            reached[index + 1] = true;
        }
    }
}

fn parts(style: Style, pattern: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        match (style, first) {
            (Style::Star, b'*') => {
                parts.push(Part::Anything);
                break;
            }
            (Style::Colon | Style::Braces, b'*') => parts.push(Part::Anything),
            (Style::Glob, b'*') => parts.push(Part::WithoutSlash),
            (Style::Glob, b'?') => parts.push(Part::One),
            (Style::Colon, b':') => {
                let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
                rest = &rest[end..];
                parts.push(Part::Segment);
            }
            (Style::Braces, b'{') if rest.contains(&b'}') => {
                let end = rest.iter().position(|byte| *byte == b'}').unwrap_or_default();
                rest = &rest[end + 1..];
                parts.push(Part::Segment);
            }
            _ => parts.push(Part::Byte(first)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_casbin_says() {
        for (style, pattern, text, expected) in [
            (Style::Star, "/foo", "/foo", true),
            (Style::Star, "/foo", "/foo/bar", false),
            (Style::Star, "/foo/*", "/foo/bar", true),
            (Style::Star, "/foo*", "/foobar/x", true),
            (Style::Star, "*", "", true),
            (Style::Colon, "/res/:id", "/res/1", true),
            (Style::Colon, "/res/:id", "/res/1/2", false),
            (Style::Colon, "/res/:id", "/res/", false),
            (Style::Colon, "/:a/x/*", "/b/x/c/d", true),
            (Style::Colon, "/foo", "/foo?x", false),
            (Style::Braces, "/res/{id}/x", "/res/1/x", true),
            (Style::Braces, "/res/{id", "/res/{id", true),
            (Style::Glob, "/a/*", "/a/b", true),
            (Style::Glob, "/a/*", "/a/b/c", false),
            (Style::Glob, "/a?", "/ab", true),
        ] {
            assert_eq!(is_match(style, pattern, text), expected, "{pattern} {text}");
        }
    }
}
