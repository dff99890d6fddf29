//! Replacement of matches of a regular expression, like nginx's Lua module: `$1`, `${1}` and `$0`
//! stand for groups, `$$` for a dollar sign.

use tollhouse_model::expr::pattern::{Exhausted, Groups, Pattern};
use tollhouse_plugin::ConfError;

/// Replacement text for a regular expression, parsed once.
#[derive(Debug, Clone)]
pub(crate) struct Replacement {
    parts: Box<[Part]>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(Box<str>),
    Group(usize),
}

impl Replacement {
    /// Parses a replacement.
    ///
    /// # Errors
    /// If a dollar sign is not followed by a group. The text is that of nginx's module.
    pub(crate) fn parse(text: &str) -> Result<Replacement, ConfError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            literal.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(behind) = after.strip_prefix('$') {
                literal.push('$');
                rest = behind;
                continue;
            }
            let (number, behind) =
                group_number(after).ok_or("failed to compile the replacement template")?;
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal).into()));
            }
            parts.push(Part::Group(number));
            rest = behind;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal.into()));
        }
        Ok(Replacement { parts: parts.into() })
    }

    fn render(&self, value: &[u8], groups: &Groups, write: &mut dyn FnMut(OutputPart<'_>)) {
        for part in &self.parts {
            match part {
                Part::Text(text) => write(OutputPart::Text(text.as_bytes())),
                Part::Group(number) => write(OutputPart::Value(group(value, groups, *number))),
            }
        }
    }
}

/// Part of a text with replacements.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OutputPart<'a> {
    /// Literal text of the replacement.
    Text(&'a [u8]),
    Value(&'a [u8]),
}

impl<'a> OutputPart<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            OutputPart::Text(bytes) | OutputPart::Value(bytes) => bytes,
        }
    }
}

/// Returns the text of a group; empty if the group did not match or does not exist.
pub(crate) fn group<'v>(value: &'v [u8], groups: &Groups, number: usize) -> &'v [u8] {
    let range = groups.get(number).cloned().flatten();
    range.and_then(|range| value.get(range)).unwrap_or_default()
}

/// Parses the number of a group after a dollar sign, with or without braces, and returns the rest.
pub(crate) fn group_number(text: &str) -> Option<(usize, &str)> {
    let digits = |text: &str| text.find(|letter: char| !letter.is_ascii_digit());
    if let Some(inside) = text.strip_prefix('{') {
        let (number, rest) = inside.split_once('}')?;
        return (digits(number).is_none()).then(|| number.parse().ok().map(|n| (n, rest)))?;
    }
    let end = digits(text).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Replaces the first match; `None` without a match.
///
/// # Errors
/// If the search was aborted.
pub(crate) fn first(
    pattern: &Pattern,
    value: &[u8],
    replacement: &Replacement,
) -> Result<Option<(Vec<u8>, Groups)>, Exhausted> {
    let mut out = Vec::with_capacity(value.len());
    let write = &mut |part: OutputPart<'_>| out.extend_from_slice(part.bytes());
    Ok(first_in_parts(pattern, value, replacement, write)?.map(|groups| (out, groups)))
}

/// Replaces the first match and passes the result to `write` part by part; `None` without a match.
///
/// # Errors
/// If the search was aborted.
pub(crate) fn first_in_parts(
    pattern: &Pattern,
    value: &[u8],
    replacement: &Replacement,
    write: &mut dyn FnMut(OutputPart<'_>),
) -> Result<Option<Groups>, Exhausted> {
    let Some(groups) = pattern.groups_at(value, 0)? else { return Ok(None) };
    let Some(whole) = groups.first().cloned().flatten() else { return Ok(None) };
    write(OutputPart::Value(&value[..whole.start]));
    replacement.render(value, &groups, write);
    write(OutputPart::Value(&value[whole.end..]));
    Ok(Some(groups))
}

/// Replaces every match until the output exceeds `out_bytes_max`; the rest is copied unchanged.
///
/// # Errors
/// If the search was aborted.
pub(crate) fn every(
    pattern: &Pattern,
    value: &[u8],
    replacement: &Replacement,
    out_bytes_max: usize,
) -> Result<Vec<u8>, Exhausted> {
    let mut out = Vec::with_capacity(value.len());
    // End of the last match, and start of the next search: one byte further after an empty match.
    let (mut copied, mut from) = (0, 0);
    while from <= value.len() && out.len() <= out_bytes_max {
        let Some(groups) = pattern.groups_at(value, from)? else { break };
        let Some(whole) = groups.first().cloned().flatten() else { break };
        out.extend_from_slice(&value[copied..whole.start]);
        replacement.render(value, &groups, &mut |part| out.extend_from_slice(part.bytes()));
        copied = whole.end;
        from = if whole.is_empty() { whole.end + 1 } else { whole.end };
    }
    out.extend_from_slice(&value[copied..]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use tollhouse_model::expr::pattern::Case;

    use super::*;

    fn replace(pattern: &str, value: &str, replacement: &str) -> (String, String) {
        let pattern = Pattern::compile(pattern, Case::Sensitive).unwrap();
        let replacement = Replacement::parse(replacement).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let once = first(&pattern, value.as_bytes(), &replacement).unwrap();
        let all = every(&pattern, value.as_bytes(), &replacement, 1000).unwrap();
        (once.map_or("none".into(), |(bytes, _)| text(bytes)), text(all))
    }

    #[test]
    fn occurrences_are_replaced_and_the_rest_stays() {
        for (pattern, value, replacement, once, all) in [
            ("^/a/(.*)/(.*)", "/a/b/c", "/$2/${1}x", "/c/bx", "/c/bx"),
            ("l", "hello", "[$0]", "he[l]lo", "he[l][l]o"),
            ("x", "hello", "y", "none", "hello"),
            ("(a)|b", "b", "<$1$7>", "<>", "<>"),
            ("a", "a", "$$1", "$1", "$1"),
            ("x*", "ab", "-", "-ab", "-a-b-"),
            ("(?<=a)b", "abab", "", "aab", "aa"),
        ] {
            let found = replace(pattern, value, replacement);
            assert_eq!(found, (once.into(), all.into()), "{pattern} in {value}");
        }
    }

    #[test]
    fn a_dollar_that_means_nothing_is_refused() {
        for text in ["$", "a$b", "${x}", "${1", "$-"] {
            assert!(Replacement::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_replacement_that_grows_without_end_stops() {
        let pattern = Pattern::compile("a", Case::Sensitive).unwrap();
        let replacement = Replacement::parse("0123456789").unwrap();
        let out = every(&pattern, &[b'a'; 100], &replacement, 50).unwrap();
        assert_eq!(out.len(), 60 + 94);
    }
}
