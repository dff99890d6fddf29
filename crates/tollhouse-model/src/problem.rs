//! What an operator reads when a document is wrong: every problem, with path, value, reason, hint.
//!
//! This is the load-time half of error reporting; errors met while serving a request live in the
//! data plane.

use std::fmt;

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

/// Whether a problem keeps its object from serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The object is quarantined: its last good version, if any, keeps serving.
    Error,
    /// The object serves; a part of it has no effect.
    Warning,
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
