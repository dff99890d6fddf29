//! Collection of all faults of a value with the pointer of each, for forms that show a fault beside
//! its field.

use std::fmt::Write;

use super::{Verdict, Voice, Walk};

/// Maximum number of faults collected for one value. A page shows no more, and a long list can have
/// a fault for each item.
const FAULTS_MAX: usize = 100;

/// A violation of a schema and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// JSON pointer (RFC 6901) to the invalid value, such as `/upstream/nodes/0/port`; empty for
    /// the value as a whole. A missing required property has the pointer it would have if present.
    pub pointer: String,
    /// Error text, such as `wrong type: expected string, got number`.
    pub text: String,
}

/// Faults collected so far and the current position of the walk.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<Fault>,
    pointer: String,
    /// Lengths of `pointer` before each step, so that leaving a step can truncate it.
    lengths: Vec<usize>,
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
        let mut found = self.faults.take().unwrap_or_default().found;
        if let Err(violation) = verdict {
            found.push(Fault { pointer: String::new(), text: violation.into() });
        }
        found
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
            let (pointer, text) = (faults.pointer.clone(), violation.into());
            faults.found.push(Fault { pointer, text });
        }
        let length = faults.lengths.pop().unwrap_or(0);
        faults.pointer.truncate(length);
        Ok(())
    }
}
