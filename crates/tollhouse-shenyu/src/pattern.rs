//! Two languages of path patterns: Ant (`match`, `exclude`, metadata, paths of applications) and
//! Spring's PathPattern. Patterns are compiled once; matching allocates nothing.
//!
//! In a segment, `?` matches one character, `*` and `{name}` any text, and `{name:regex}` text that
//! the whole expression matches. The languages differ in how they match segments and slashes; see
//! [`AntPattern`] and [`PathPattern`]. Paths are matched percent-encoded, as in ShenYu since 2.7.

mod ant;
mod path_pattern;
mod segment;

pub use ant::AntPattern;
pub use path_pattern::PathPattern;

/// Maximum length of a pattern in bytes; longer than any accepted path.
pub(crate) const PATTERN_BYTES_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is longer than `PATTERN_BYTES_MAX`.
    #[error("the pattern has more than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// An expression in the pattern is invalid.
    #[error("the regular expression `{expression}` cannot be compiled: {reason}")]
    Expression {
        expression: String,
        /// Message of the regex compiler.
        reason: String,
    },
    /// `**` or `{*name}` occurs before the end of a PathPattern.
    #[error("no more pattern data allowed after {{*...}} or ** pattern element")]
    DataAfterRest,
}

/// Necessary start of every matching path, under which an index lists the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anchor {
    Exact(String),
    /// The path begins with this text.
    Prefix(String),
}
