//! The two languages of path patterns: Ant's (`match`, `exclude`, metadata, paths of applications) and
//! Spring's PathPattern. Both are compiled once and matched without an allocation.
//!
//! In a segment `?` is one character, `*` any run, `{name}` as `*`, `{name:regex}` what the expression takes
//! as a whole. They differ in what stands between segments; see [`AntPattern`] and [`PathPattern`].
//! Paths are matched as they came, still encoded, as ShenYu does since 2.7.

mod ant;
mod path_pattern;
mod segment;

pub use ant::AntPattern;
pub use path_pattern::PathPattern;

/// Bytes of a pattern: more than any path that a client may ask for.
pub(crate) const PATTERN_BYTES_MAX: usize = 4096;

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is longer than a path can be.
    #[error("the pattern has more than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// An expression in it cannot be compiled.
    #[error("the regular expression `{expression}` cannot be compiled: {reason}")]
    Expression {
        /// The expression.
        expression: String,
        /// Why.
        reason: String,
    },
    /// `**` or `{*name}` before the end of a PathPattern.
    #[error("no more pattern data allowed after {{*...}} or ** pattern element")]
    DataAfterRest,
}

/// What every path that a pattern takes begins with, so that an index finds the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anchor {
    /// The path is this.
    Exact(String),
    /// The path begins so.
    Prefix(String),
}
