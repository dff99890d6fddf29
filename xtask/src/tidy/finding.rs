//! One thing that a check found, and how it is printed.

use std::fmt;

/// Whether a finding stops a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Must be fixed.
    Fails,
    /// Past a soft limit: worth a look.
    Warns,
}

/// What a check found: where, what, why it matters, what to do.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Path from the workspace root.
    pub(crate) path: String,
    /// Line, from 1; 0 when the finding is about the whole file.
    pub(crate) line: usize,
    pub(crate) severity: Severity,
    pub(crate) what: String,
    pub(crate) why: &'static str,
    pub(crate) remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Fails => "",
            Severity::Warns => "(consider) ",
        };
        write!(f, "{}:{}: {severity}{}", self.path, self.line.max(1), self.what)?;
        write!(f, "\n  why: {}\n  fix: {}", self.why, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_prints_place_reason_and_remedy() {
        let finding = Finding {
            path: "crates/a/src/lib.rs".to_owned(),
            line: 0,
            severity: Severity::Warns,
            what: "450 lines".to_owned(),
            why: "long files hide things",
            remedy: "split it".to_owned(),
        };
        let expected = "crates/a/src/lib.rs:1: (consider) 450 lines\n  \
                        why: long files hide things\n  fix: split it";
        assert_eq!(finding.to_string(), expected);
    }
}
