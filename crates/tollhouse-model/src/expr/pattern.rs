//! Regular expressions that users write, in expressions and in plugins: compiled at load, searched
//! in time linear in the value where the pattern allows it, and with bounded backtracking where it
//! does not.

use std::ops::Range;

use fancy_regex::BytesMode;
use regex::bytes;

/// Longest pattern, in bytes: compiling costs a multiple of it, and people write far shorter ones.
const PATTERN_BYTES_MAX: usize = 8192;

/// Largest compiled form of a pattern, in bytes: thousands of routes may each carry one.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Largest cache of lazily built states, in bytes: each serving thread may fill one a pattern.
const CACHE_BYTES_MAX: usize = 1 << 20;

/// Most instructions of a pattern that backtracks: group calls expand when compiled.
const PROGRAM_LENGTH_MAX: usize = 65_536;

/// Most backtracking steps of one search, a few milliseconds: what needs more does not match.
const BACKTRACKS_MAX: usize = 100_000;

/// Whether letters match in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// `a` is not `A`.
    Sensitive,
    /// `a` is `A`.
    Ignored,
}

/// Where the groups of an occurrence lie, the whole of it first; `None` for those without part
/// in it.
pub type Groups = Vec<Option<Range<usize>>>;

/// A search took more steps than searches may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// Never backtracks.
    Linear(bytes::Regex),
    /// Look-around, back-references and the like.
    Backtracking(Box<fancy_regex::Regex>),
}

impl Pattern {
    /// Compiles a pattern, or says what is wrong with it.
    ///
    /// Bytes are what patterns match, as the gateway's users know it; Unicode classes are tried
    /// for patterns that make no sense otherwise.
    pub fn compile(text: &str, case: Case) -> Result<Pattern, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("pattern is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        let linear = linear(text, case, BytesMode::Ascii)
            .or_else(|_| linear(text, case, BytesMode::UnicodeBytes));
        let problem = match linear {
            Ok(regex) => return Ok(Pattern::Linear(regex)),
            // A pattern too large for this engine would not be smaller in the other.
            Err(error @ regex::Error::CompiledTooBig(_)) => return Err(one_line(&error)),
            Err(error) => error,
        };
        backtracking(text, case, BytesMode::Ascii)
            .or_else(|_| backtracking(text, case, BytesMode::UnicodeBytes))
            .map(|regex| Pattern::Backtracking(Box::new(regex)))
            .map_err(|_| one_line(&problem))
    }

    /// Whether it occurs in a value.
    pub fn is_match(&self, value: &[u8]) -> bool {
        match self {
            Pattern::Linear(regex) => regex.is_match(value),
            Pattern::Backtracking(regex) => regex.is_match(value).unwrap_or(false),
        }
    }

    /// Finds its first occurrence that begins at `start` or behind, with its groups.
    ///
    /// # Errors
    /// The search was given up.
    pub fn groups_at(&self, value: &[u8], start: usize) -> Result<Option<Groups>, Exhausted> {
        match self {
            Pattern::Linear(regex) => {
                let mut slots = regex.capture_locations();
                let found = regex.captures_read_at(&mut slots, value, start);
                let group = |index| slots.get(index).map(|(start, end)| start..end);
                Ok(found.map(|_| (0..slots.len()).map(group).collect()))
            }
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

/// The engine draws the pattern with a caret under the fault; its last line says what it is.
fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_either_engine() {
        // The second needs look-around.
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
}
