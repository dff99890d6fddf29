//! Patterns of paths in policies, compiled when the conf is put into service.

use tollhouse_plugin::ConfError;

/// Meaning of a pattern's marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// Compiled pattern of a policy.
#[derive(Debug)]
pub(super) struct Wildcard {
    /// Bytes before the first mark.
    prefix: Box<[u8]>,
    /// The pattern from its first mark on.
    parts: Box<[Part]>,
}

/// Error: a decision needs more work than one request may cost, so the request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Undecided;

/// Buffers and remaining work of one decision.
#[derive(Debug)]
pub(super) struct Search {
    reached: Vec<bool>,
    next: Vec<bool>,
    steps_left: usize,
}

impl Search {
    /// Maximum number of steps of one decision; they take some ten milliseconds. A path of 50 bytes
    /// against 10,000 policies needs about a million.
    const STEPS_MAX: usize = 10_000_000;

    pub(super) fn new() -> Self {
        Self { reached: Vec::new(), next: Vec::new(), steps_left: Self::STEPS_MAX }
    }

    /// Takes steps from the remaining work.
    ///
    /// # Errors
    /// If fewer are left.
    pub(super) fn charge(&mut self, steps: usize) -> Result<(), Undecided> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(Undecided)?;
        Ok(())
    }
}

impl Wildcard {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If a glob uses marks that are not supported, because it would match other paths than meant.
    pub(super) fn compile(style: Style, pattern: &str) -> Result<Self, ConfError> {
        if style == Style::Glob && pattern.contains(['[', '{', '\\']) {
            let text = format!(
                "unsupported pattern {pattern:?} of globMatch: only \"*\" and \"?\" are supported, \
                 not \"[\", \"{{\" or \"\\\"; use regexMatch"
            );
            return Err(text.into());
        }
        let parts = parts(style, pattern.as_bytes());
        let byte = |part: &Part| if let Part::Byte(byte) = part { Some(*byte) } else { None };
        let prefix: Box<[u8]> = parts.iter().map_while(byte).collect();
        let parts = parts[prefix.len()..].into();
        Ok(Self { prefix, parts })
    }

    /// Whether the pattern matches a text. Costs at most the product of their lengths; nothing is
    /// allocated once the buffers of `search` are large enough.
    ///
    /// # Errors
    /// If the work of the decision is used up.
    pub(super) fn is_match(&self, text: &str, search: &mut Search) -> Result<bool, Undecided> {
        search.charge(1)?;
        let Some(rest) = text.as_bytes().strip_prefix(&*self.prefix) else { return Ok(false) };
        let parts = &*self.parts;
        match parts {
            [] => return Ok(rest.is_empty()),
            [Part::Anything] => return Ok(true),
            _ => {}
        }
        // Positions in `parts` that the text so far may have reached.
        restart(&mut search.reached, parts);
        search.reached[0] = true;
        skip_empty(parts, &mut search.reached);
        for &byte in rest {
            search.charge(parts.len())?;
            restart(&mut search.next, parts);
            advance(parts, byte, &search.reached, &mut search.next);
            skip_empty(parts, &mut search.next);
            std::mem::swap(&mut search.reached, &mut search.next);
            if !search.reached.contains(&true) {
                return Ok(false);
            }
        }
        Ok(search.reached[parts.len()])
    }
}

/// Empties a buffer of positions.
fn restart(positions: &mut Vec<bool>, parts: &[Part]) {
    positions.clear();
    positions.resize(parts.len() + 1, false);
}

/// Adds the positions that one more byte reaches.
fn advance(parts: &[Part], byte: u8, reached: &[bool], next: &mut [bool]) {
    let is_slash = byte == b'/';
    for (index, part) in parts.iter().enumerate().filter(|(index, _)| reached[*index]) {
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
            let wildcard = Wildcard::compile(style, pattern).unwrap();
            let mut search = Search::new();
            assert_eq!(wildcard.is_match(text, &mut search), Ok(expected), "{pattern} {text}");
        }
    }

    #[test]
    fn work_is_bounded_and_ends_where_nothing_can_match() {
        let text = "a".repeat(8192);
        let mut search = Search::new();
        let steps = |search: &Search| Search::STEPS_MAX - search.steps_left;
        let wildcard = Wildcard::compile(Style::Colon, "/b/:id/c").unwrap();
        assert_eq!(wildcard.is_match(&text, &mut search), Ok(false));
        assert_eq!(steps(&search), 1, "the prefix differs");
        let wildcard = Wildcard::compile(Style::Glob, "?b*").unwrap();
        assert_eq!(wildcard.is_match(&text, &mut search), Ok(false));
        assert!(steps(&search) < 10, "{}", steps(&search));
        let wildcard = Wildcard::compile(Style::Colon, &"*a".repeat(1000)).unwrap();
        assert_eq!(wildcard.is_match(&text, &mut search), Err(Undecided));
    }
}
