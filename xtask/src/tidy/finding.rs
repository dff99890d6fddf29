//! A finding of a check, and its printed form.

use std::fmt;

/// Effect of a finding on a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The finding must be fixed; the check fails.
    Fails,
    /// A soft limit is exceeded; the finding should be considered.
    Warns,
}

/// A finding: its place, the problem, the reason and the remedy.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Path of the file from the workspace root.
    pub(crate) path: String,
    /// Line from 1, or 0 if the finding is about the whole file.
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
