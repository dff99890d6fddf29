//! Collection of all faults of a value with the pointer of each, for forms that show a fault beside
//! its field.

use std::fmt::Write;

use tollhouse_stdx::nearest;

use super::{Verdict, Voice, Walk};

/// Maximum number of faults collected for one value. A page shows no more, and a long list can have
/// a fault for each item.
const FAULTS_MAX: usize = 100;

/// Maximum number of known words in a hint; more are not read.
const WORDS_SHOWN_MAX: usize = 16;

/// A violation of a schema and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// JSON pointer (RFC 6901) to the invalid value, such as `/upstream/nodes/0/port`; empty for
    /// the value as a whole. A missing required property has the pointer it would have if present.
    pub pointer: String,
    /// Error text, such as `wrong type: expected string, got number`.
    pub text: String,
    /// Suggestion, such as `did you mean "uri"?`, for unknown fields and values that
    /// an `enum` does not contain.
    pub hint: Option<String>,
}

/// Faults collected so far and the current position of the walk.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<Fault>,
    pointer: String,
    /// Lengths of `pointer` before each step, so that leaving a step can truncate it.
    lengths: Vec<usize>,
    /// Hint for the violation that is on its way to the enclosing step.
    hint: Option<String>,
}

/// A step from a value to one of its parts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'n> {
    Name(&'n str),
    Index(usize),
}

impl Walk<'_> {
    /// Makes the walk continue after a fault.
    pub(in crate::schema) fn collecting(mut self) -> Self {
        self.faults = Some(Faults::default());
        self
    }

    /// Returns all faults of a value, in the order of the schema.
    pub(in crate::schema) fn run_to_end(
        mut self,
        root: usize,
        value: &mut serde_json::Value,
    ) -> Vec<Fault> {
        let verdict = self.check(root, value);
        let verdict = self.stopped.take().map_or(verdict, Err);
        let Faults { mut found, hint, .. } = self.faults.take().unwrap_or_default();
        if let Err(violation) = verdict {
            found.push(Fault { pointer: String::new(), text: violation.into(), hint });
        }
        found
    }

    /// Sets the hint of the violation that is about to be returned: the known word nearest to
    /// `word`, or all known words. Without effect unless faults are collected.
    pub(super) fn suggest<'k>(
        &mut self,
        word: &str,
        nouns: &str,
        known: impl Iterator<Item = &'k str> + Clone,
    ) {
        if self.is_collecting()
            && let Some(faults) = &mut self.faults
        {
            faults.hint = Some(hint(word, nouns, known));
        }
    }

    /// Whether faults are collected now; not while a branch is only tried.
    pub(super) fn is_collecting(&self) -> bool {
        self.faults.is_some() && self.voice == Voice::Speaking
    }

    pub(super) fn enter(&mut self, step: Step<'_>) {
        let Some(faults) = &mut self.faults else { return };
        faults.lengths.push(faults.pointer.len());
        faults.pointer.push('/');
        match step {
            Step::Name(name) => {
                faults.pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            Step::Index(index) => {
                let _ = write!(faults.pointer, "{index}");
            }
        }
    }

    /// Records the fault of a part and returns `Ok`, so that the walk continues.
    pub(super) fn leave(&mut self, verdict: Verdict) -> Verdict {
        // After the walk was given up, no further verdict counts.
        if self.stopped.is_some() {
            return verdict;
        }
        let Some(faults) = &mut self.faults else { return verdict };
        if let Err(violation) = verdict
            && faults.found.len() < FAULTS_MAX
        {
            let (pointer, hint) = (faults.pointer.clone(), faults.hint.take());
            faults.found.push(Fault { pointer, text: violation.into(), hint });
        }
        let length = faults.lengths.pop().unwrap_or(0);
        faults.pointer.truncate(length);
        Ok(())
    }
}

/// Returns the known word nearest to `word` as a question, or the list of all if it is short.
pub(crate) fn hint<'k>(
    word: &str,
    nouns: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> String {
    if let Some(near) = nearest(word, known.clone()) {
        return format!("did you mean \"{near}\"?");
    }
    let shown: Vec<&str> = known.clone().take(WORDS_SHOWN_MAX).collect();
    let more = if known.count() > shown.len() { ", …" } else { "" };
    format!("{nouns}: {}{more}", shown.join(", "))
}
