//! Regular expressions of `~~` and `~*`: compiled at load, searched in time linear in the value
//! where the pattern allows it, and with bounded backtracking where it does not.

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
pub(crate) enum Case {
    Sensitive,
    Ignored,
}

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
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
    pub(crate) fn compile(text: &str, case: Case) -> Result<Pattern, String> {
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
    pub(crate) fn is_match(&self, value: &[u8]) -> bool {
        match self {
            Pattern::Linear(regex) => regex.is_match(value),
            Pattern::Backtracking(regex) => regex.is_match(value).unwrap_or(false),
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
