//! What an operator reads when a document is wrong: every problem, with path, value, reason, hint.
//!
//! This is the load-time half of error reporting; errors met while serving a request live in the
//! data plane.

use std::fmt::{self, Write};

use serde_json::Value;

use crate::limits::PROBLEM_VALUE_CHARS_MAX;

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: `routes[3].upstream.nodes`, or an object's key such as `routes/7` as the prefix.
    pub path: String,
    /// The offending value as JSON text, shortened; empty when something is missing.
    pub value: String,
    /// What is wrong, as a lower-case fragment.
    pub reason: String,
    /// What to do about it; empty when there is nothing useful to add.
    pub hint: String,
    /// Whether the object still serves in spite of it.
    pub severity: Severity,
}

impl Problem {
    /// A problem that keeps its object from serving.
    pub fn error(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            value: String::new(),
            reason: reason.into(),
            hint: String::new(),
            severity: Severity::Error,
        }
    }

    /// A problem in spite of which its object serves.
    pub fn warning(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, reason) }
    }

    /// The same, quoting the offending value.
    #[must_use]
    pub fn with_value(mut self, value: &Value) -> Self {
        self.value = excerpt(value);
        self
    }

    /// The same, saying what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// A value as JSON text, cut to what a problem quotes. Costs the length of the cut, not of the
/// value.
pub fn excerpt(value: &Value) -> String {
    let mut quoted = Quoted { text: String::new(), chars_left: PROBLEM_VALUE_CHARS_MAX };
    // The only error is the one that ends a value which is too long.
    if write!(quoted, "{value}").is_err() {
        quoted.text.push('…');
    }
    quoted.text
}

/// Takes so many characters and refuses the rest.
struct Quoted {
    text: String,
    chars_left: usize,
}

impl fmt::Write for Quoted {
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

/// Whether a problem keeps its object from serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The object is quarantined: its last good version, if any, keeps serving.
    Error,
    /// The object serves; a part of it has no effect.
    Warning,
}

impl Severity {
    /// Its name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// All problems of one document or object; never only the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// No problems yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: Problems) {
        self.0.extend(other.0);
    }

    /// Whether nothing at all was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any of them keeps its object from serving.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// In the order they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// How many.
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
