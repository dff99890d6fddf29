//! More than the first fault of a value: where each is, for who shows it beside a field.

use std::fmt::Write;

use super::{Verdict, Voice, Walk};

/// Most faults that are kept of a value: a page shows no more, and a long list of bad items has one each.
const FAULTS_MAX: usize = 100;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where, as a JSON pointer (RFC 6901), such as `/upstream/nodes/0/port`; empty for the value as a whole. What is
    /// absent and required is at the place that it should have.
    pub pointer: String,
    /// The text, such as `wrong type: expected string, got number`.
    pub text: String,
}

/// What is wrong so far, and where the walk is.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<Fault>,
    pointer: String,
    /// How long the pointer was before each step.
    lengths: Vec<usize>,
}

/// From a value to a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'n> {
    Name(&'n str),
    Index(usize),
}

impl Walk<'_> {
    /// Goes on after a fault.
    pub(in crate::schema) fn collecting(mut self) -> Self {
        self.faults = Some(Faults::default());
        self
    }

    /// All that is wrong with a value, in the order of the schema.
    pub(in crate::schema) fn run_to_end(
        mut self,
        root: usize,
        value: &mut serde_json::Value,
    ) -> Vec<Fault> {
        let verdict = self.check(root, value);
        let verdict = self.stopped.take().map_or(verdict, Err);
        let mut found = self.faults.take().unwrap_or_default().found;
        if let Err(violation) = verdict {
            found.push(Fault { pointer: String::new(), text: violation.into() });
        }
        found
    }

    /// Whether faults are collected here; a branch that is only tried collects none.
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

    /// Keeps what is wrong with the part, and goes on as if nothing were.
    pub(super) fn leave(&mut self, verdict: Verdict) -> Verdict {
        // Once given up, no further verdict counts.
        if self.stopped.is_some() {
            return verdict;
        }
        let Some(faults) = &mut self.faults else { return verdict };
        if let Err(violation) = verdict
            && faults.found.len() < FAULTS_MAX
        {
            let (pointer, text) = (faults.pointer.clone(), violation.into());
            faults.found.push(Fault { pointer, text });
        }
        let length = faults.lengths.pop().unwrap_or(0);
        faults.pointer.truncate(length);
        Ok(())
    }
}
