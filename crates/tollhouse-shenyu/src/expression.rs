//! Regular expressions of strangers: RE2's syntax, matched in linear time, bounded in memory.

use regex::{Regex, RegexBuilder};

/// Bytes of one compiled expression. Expressions of paths take some kilobytes; thousands of them fit.
const EXPRESSION_BYTES_MAX: usize = 256 << 10;

/// Why an expression is refused, on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It would take too much memory.
    #[error("it takes more than {EXPRESSION_BYTES_MAX} bytes when compiled")]
    TooLarge,
    /// It is none.
    #[error("{0}")]
    Malformed(String),
}

/// Compiles an expression that has to take the whole text.
///
/// # Errors
/// Why it cannot be compiled, on one line.
pub(crate) fn compile_whole(text: &str) -> Result<Regex, ExpressionError> {
    // Alone first: `a)(b` would close the group that is put around it.
    build(text)?;
    build(&format!(r"\A(?:{text})\z"))
}

/// Compiles an expression that is searched for.
///
/// # Errors
/// As [`compile_whole`].
pub(crate) fn compile(text: &str) -> Result<Regex, ExpressionError> {
    build(text)
}

fn build(text: &str) -> Result<Regex, ExpressionError> {
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(EXPRESSION_BYTES_MAX).dfa_size_limit(EXPRESSION_BYTES_MAX);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => ExpressionError::TooLarge,
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or("malformed").trim();
            ExpressionError::Malformed(last.to_owned())
        }
    })
}
