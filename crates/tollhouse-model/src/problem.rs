//! Problems of a document, for the operator: all problems at once, each with path, value, reason
//! and hint.
//!
//! These are errors at load time. Errors while serving a request are defined in the data plane.

use std::fmt::{self, Write};

use serde_json::Value;

use crate::limits::PROBLEM_VALUE_CHARS_MAX;

/// A problem found in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path of the invalid value, such as `routes[3].upstream.nodes`. For an object from the store,
    /// the key is the prefix: `routes/7`.
    pub path: String,
    /// The invalid value as JSON text, shortened; empty if a value is missing.
    pub value: String,
    /// Reason as a fragment that begins in lower case.
    pub reason: String,
    /// Advice for the operator; empty when there is nothing useful to add.
    pub hint: String,
    pub severity: Severity,
}

impl Problem {
    /// Returns a problem that keeps its object from serving.
    pub fn error(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            value: String::new(),
            reason: reason.into(),
            hint: String::new(),
            severity: Severity::Error,
        }
    }

    /// Returns a problem despite which its object serves.
    pub fn warning(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, reason) }
    }

    /// Adds the invalid value, shortened to
    /// [`PROBLEM_VALUE_CHARS_MAX`](crate::limits::PROBLEM_VALUE_CHARS_MAX).
    #[must_use]
    pub fn with_value(mut self, value: &Value) -> Self {
        self.value = excerpt(value);
        self
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// Returns a value as JSON text, shortened to `PROBLEM_VALUE_CHARS_MAX`. Costs the length of the
/// result, not of the value.
pub fn excerpt(value: &Value) -> String {
    let mut quoted = QuoteWriter { text: String::new(), chars_left: PROBLEM_VALUE_CHARS_MAX };
    // The only possible error is the one that truncates the value.
    if write!(quoted, "{value}").is_err() {
        quoted.text.push('…');
    }
    quoted.text
}

/// A writer that accepts a limited number of characters and refuses the rest.
struct QuoteWriter {
    text: String,
    chars_left: usize,
}

impl fmt::Write for QuoteWriter {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for letter in part.chars() {
            if self.chars_left == 0 {
                return Err(fmt::Error);
            }
            self.chars_left -= 1;
            self.text.push(letter);
        }
        Ok(())
    }
}

/// Effect of a problem on its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The object is quarantined: its last good version, if any, keeps serving.
    Error,
    /// The object serves, but a part has no effect.
    Warning,
}

impl Severity {
    /// Returns the name of the severity in API responses.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// All problems of one document or object, in the order of detection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    pub fn extend(&mut self, other: Problems) {
        self.0.extend(other.0);
    }

    /// Whether there are neither errors nor warnings.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any problem keeps its object from serving.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self(problems.into_iter().collect())
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path, self.reason)?;
        if !self.value.is_empty() {
            write!(out, " (got {})", self.value)?;
        }
        if !self.hint.is_empty() {
            write!(out, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            problem.fmt(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(excerpt(&json!({"a": [1, null, "é"]})), r#"{"a":[1,null,"é"]}"#);
        let cut = excerpt(&json!("é".repeat(10_000)));
        assert_eq!(cut.chars().count(), PROBLEM_VALUE_CHARS_MAX + 1);
        assert!(cut.ends_with('…'));
    }

    #[test]
    fn a_problem_reads_as_one_line() {
        let problem = Problem::error("routes[3].uri", "wrong type: expected string, got number")
            .with_value(&json!(7))
            .with_hint("put quotes around it");
        assert_eq!(
            problem.to_string(),
            "routes[3].uri: wrong type: expected string, got number (got 7); put quotes around it"
        );
    }
}
