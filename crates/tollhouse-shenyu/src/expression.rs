//! Regular expressions from untrusted configuration: RE2 syntax, linear time, limited memory.

use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled expression in bytes. Expressions for paths take some kilobytes.
const EXPRESSION_BYTES_MAX: usize = 256 << 10;

/// Why an expression is refused, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// The compiled expression would exceed the memory limit.
    #[error("it has more than {EXPRESSION_BYTES_MAX} bytes when compiled")]
    TooLarge,
    /// The text is not a valid expression.
    #[error("{0}")]
    Malformed(String),
}

/// Compiles an expression that must match the whole text.
///
/// # Errors
///
/// If the expression is invalid or too large.
pub(crate) fn compile_whole(text: &str) -> Result<Regex, ExpressionError> {
    // Compiled alone first, because `a)(b` would close the group that is added below.
    build(text)?;
    build(&format!(r"\A(?:{text})\z"))
}

/// Compiles an expression that may match any part of the text.
///
/// # Errors
///
/// As [`compile_whole`].
pub fn compile(text: &str) -> Result<Regex, ExpressionError> {
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
