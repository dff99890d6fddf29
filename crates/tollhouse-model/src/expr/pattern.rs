//! Regular expressions in expressions and plugins. Compiled on load; searched in linear time if the
//! pattern allows it, otherwise with bounded backtracking. A search that exceeds the bound returns
//! an error, which a rule that denies access must not treat as a mismatch.
//!
//! The syntax is that of PCRE: `$` also matches before a line feed at the end of the value.

use std::ops::Range;

use fancy_regex::BytesMode;
use regex::bytes;

/// Maximum length of a pattern in bytes. Compilation costs a multiple of the length, and
/// handwritten patterns are far shorter.
const PATTERN_BYTES_MAX: usize = 8192;

/// Maximum size of a compiled pattern in bytes, because thousands of routes may each have a
/// pattern.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Maximum size of the cache of lazily built states, in bytes. Each worker thread may fill one
/// cache per pattern.
const CACHE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of instructions of a backtracking pattern. Group calls expand during compilation,
/// so a short pattern may become a long program.
const PROGRAM_LENGTH_MAX: usize = 65_536;

/// Maximum number of backtracking steps of one search; they take a few milliseconds. Longer
/// searches fail with [`Exhausted`].
const BACKTRACKS_MAX: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Sensitive,
    Ignored,
}

/// Ranges of the groups of a match; the whole match is first. `None` for groups that did not
/// participate.
pub type Groups = Vec<Option<Range<usize>>>;

/// Why a pattern is invalid: the message of the regex engine, on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

impl PatternError {
    /// Returns the message, such as `unclosed group`.
    pub fn reason(&self) -> &str {
        &self.0
    }

    /// Takes the last line of the engine's message, because the lines above draw the pattern with a
    /// caret under the fault.
    fn from_engine(error: &regex::Error) -> Self {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim();
        Self(last.strip_prefix("error: ").unwrap_or(last).to_owned())
    }
}

/// Error of a search that needs more than `BACKTRACKS_MAX` steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

/// Regular expression, compiled for one of two engines.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// Pattern whose search time is linear in the text.
    Linear(Linear),
    /// A pattern with look-around, back-references and the like.
    Backtracking(Box<fancy_regex::Regex>),
}

/// A pattern searched in linear time.
#[derive(Debug, Clone)]
pub struct Linear {
    regex: bytes::Regex,
    /// Whether the pattern contains `$` as the end of the value. If the value ends with a line
    /// feed, the end is at two positions, of which the engine only knows the last.
    has_end: bool,
}

impl Pattern {
    /// Compiles a pattern, or returns why it is invalid.
    ///
    /// Patterns match bytes, as in nginx. Unicode classes are only tried for patterns that are
    /// invalid otherwise.
    pub fn compile(text: &str, case: Case) -> Result<Pattern, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            let reason = format!("pattern is longer than {PATTERN_BYTES_MAX} bytes");
            return Err(PatternError(reason));
        }
        let linear = linear(text, case, BytesMode::Ascii)
            .or_else(|_| linear(text, case, BytesMode::UnicodeBytes));
        let problem = match linear {
            Ok(regex) => return Ok(Pattern::Linear(Linear { regex, has_end: has_end(text) })),
            // A pattern too large for this engine would not be smaller in the other.
            Err(error @ regex::Error::CompiledTooBig(_)) => {
                return Err(PatternError::from_engine(&error));
            }
            Err(error) => error,
        };
        let text = with_both_ends(text);
        backtracking(&text, case, BytesMode::Ascii)
            .or_else(|_| backtracking(&text, case, BytesMode::UnicodeBytes))
            .map(|regex| Pattern::Backtracking(Box::new(regex)))
            .map_err(|_| PatternError::from_engine(&problem))
    }

    /// Whether the pattern matches anywhere in a value.
    ///
    /// # Errors
    /// If the search exceeds its limit.
    pub fn is_match(&self, value: &[u8]) -> Result<bool, Exhausted> {
        match self {
            Pattern::Linear(linear) => Ok(linear.regex.is_match(value)
                || linear
                    .before_line_end(value, 0)
                    .is_some_and(|rest| linear.regex.is_match(rest))),
            Pattern::Backtracking(regex) => regex.is_match(value).map_err(|_| Exhausted),
        }
    }

    /// Finds the first match at or after `start`, with its groups.
    ///
    /// # Errors
    /// If the search exceeds its limit.
    pub fn groups_at(&self, value: &[u8], start: usize) -> Result<Option<Groups>, Exhausted> {
        match self {
            Pattern::Linear(linear) => Ok(linear.groups_at(value, start)),
            Pattern::Backtracking(regex) => {
                let found = regex.captures_from_pos(value, start).map_err(|_| Exhausted)?;
                Ok(found.map(|groups| {
                    let group = |index| groups.get(index).map(|part| part.start()..part.end());
                    (0..groups.len()).map(group).collect()
                }))
            }
        }
    }
}

impl Linear {
    /// Returns the value without its final line feed, if the pattern may end there too.
    fn before_line_end<'v>(&self, value: &'v [u8], start: usize) -> Option<&'v [u8]> {
        let rest = value.strip_suffix(b"\n").filter(|_| self.has_end)?;
        (start <= rest.len()).then_some(rest)
    }

    /// Searches with and without the final line feed. The match that begins first wins; on a tie,
    /// the longer one.
    fn groups_at(&self, value: &[u8], start: usize) -> Option<Groups> {
        let whole = self.search(value, start);
        let Some(rest) = self.before_line_end(value, start) else { return whole };
        let begins = |groups: &Groups| groups.first().cloned().flatten().map(|range| range.start);
        let earlier = self
            .search(rest, start)
            .filter(|shorter| whole.as_ref().is_none_or(|whole| begins(shorter) < begins(whole)));
        earlier.or(whole)
    }

    fn search(&self, value: &[u8], start: usize) -> Option<Groups> {
        let mut slots = self.regex.capture_locations();
        self.regex.captures_read_at(&mut slots, value, start)?;
        let group = |index| slots.get(index).map(|(start, end)| start..end);
        Some((0..slots.len()).map(group).collect())
    }
}

/// Returns the positions of each `$` that means the end of the value: outside classes, and only if
/// no `(?m)` makes it the end of a line.
fn ends(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut is_escaped, mut in_class) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'$' if !in_class => found.push(at),
            _ => {}
        }
    }
    let is_flag = |byte: u8| byte.is_ascii_alphabetic() || byte == b'-';
    let sets_lines = text.match_indices("(?").any(|(at, _)| {
        text.bytes().skip(at + 2).take_while(|byte| is_flag(*byte)).any(|byte| byte == b'm')
    });
    if sets_lines { Vec::new() } else { found }
}

fn has_end(text: &str) -> bool {
    !ends(text).is_empty()
}

/// Replaces each `$` by an explicit look-ahead, for an engine whose `$` only matches at the very
/// end.
fn with_both_ends(text: &str) -> String {
    let mut spelt = String::with_capacity(text.len());
    let mut copied = 0;
    for at in ends(text) {
        spelt.push_str(&text[copied..at]);
        spelt.push_str(r"(?=\n?\z)");
        copied = at + 1;
    }
    spelt.push_str(&text[copied..]);
    spelt
}

fn linear(text: &str, case: Case, mode: BytesMode) -> Result<bytes::Regex, regex::Error> {
    bytes::RegexBuilder::new(text)
        .unicode(mode == BytesMode::UnicodeBytes)
        .case_insensitive(case == Case::Ignored)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(CACHE_BYTES_MAX)
        .build()
}

fn backtracking(
    text: &str,
    case: Case,
    mode: BytesMode,
) -> Result<fancy_regex::Regex, Box<fancy_regex::Error>> {
    fancy_regex::RegexBuilder::new(text)
        .bytes_mode(mode)
        .case_insensitive(case == Case::Ignored)
        .backtrack_limit(BACKTRACKS_MAX)
        .delegate_size_limit(COMPILED_BYTES_MAX)
        .delegate_dfa_size_limit(CACHE_BYTES_MAX)
        .max_prog_size(PROGRAM_LENGTH_MAX)
        .build()
        .map_err(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_either_engine() {
        // The second pattern needs look-around, and thus the backtracking engine.
        for text in ["^/a/(x)?(.*)", "(?<!b)/a/(x)?(.*)"] {
            let pattern = Pattern::compile(text, Case::Sensitive).unwrap();
            let groups = pattern.groups_at(b"/a/bc", 0).unwrap().unwrap();
            assert_eq!(groups, [Some(0..5), None, Some(3..5)], "{text}");
            assert_eq!(pattern.groups_at(b"/b/bc", 0), Ok(None), "{text}");
        }
    }

    #[test]
    fn a_search_begins_where_it_is_told_to() {
        let pattern = Pattern::compile("l", Case::Ignored).unwrap();
        let first = |start| pattern.groups_at(b"heLlo", start).unwrap().map(|g| g[0].clone());
        assert_eq!(first(0), Some(Some(2..3)));
        assert_eq!(first(3), Some(Some(3..4)));
        assert_eq!(first(4), None);
    }

    #[test]
    fn a_search_without_end_is_given_up() {
        let pattern = Pattern::compile("(?=(a+)+$)b", Case::Sensitive).unwrap();
        let pattern_of_doom = Pattern::compile("(a*)*(?<!c)\\1x", Case::Sensitive).unwrap();
        assert_eq!(pattern.groups_at(b"aaa", 0), Ok(None));
        let value = [b'a'; 64];
        assert_eq!(pattern_of_doom.groups_at(&value, 0), Err(Exhausted));
    }

    #[test]
    fn what_is_given_up_is_no_miss() {
        let pattern = Pattern::compile("(?:(?!pub)\\w+/?)+\\.php$", Case::Sensitive).unwrap();
        assert_eq!(pattern.is_match(b"/a.php"), Ok(true));
        assert_eq!(pattern.is_match(b"/a.html"), Ok(false));
        let value = [&b"/"[..], &[b'a'; 40], b"!/evil.php"].concat();
        assert_eq!(pattern.is_match(&value), Err(Exhausted));
    }

    #[test]
    fn the_end_is_also_before_a_line_feed_that_ends_the_value() {
        // With `(?<!x)` in front, the other engine must give the same result.
        for (text, value, expected) in [
            ("b$", "ab\n", Some(1..2)),
            ("b$", "ab", Some(1..2)),
            ("b$", "ab\n\n", None),
            ("b$", "ab\nc", None),
            ("^$", "\n", Some(0..0)),
            ("[^x]*$", "ab\n", Some(0..3)),
            ("(?:a|b$)", "b\n", Some(0..1)),
            ("b\\$", "ab\n", None),
            ("b[$]", "ab\n", None),
            (r"b\z", "ab\n", None),
        ] {
            for text in [text.to_owned(), format!("(?<!x){text}")] {
                let pattern = Pattern::compile(&text, Case::Sensitive).unwrap();
                let found = pattern.groups_at(value.as_bytes(), 0).unwrap();
                let whole = found.and_then(|groups| groups[0].clone());
                assert_eq!(whole, expected, "{text} in {value:?}");
                assert_eq!(pattern.is_match(value.as_bytes()), Ok(expected.is_some()), "{text}");
            }
        }
        let lines = Pattern::compile("(?m)b$", Case::Sensitive).unwrap();
        assert_eq!(lines.is_match(b"b\nc"), Ok(true));
    }
}
