//! Subject of the newest commit: `scope: imperative, one fact`, short enough for one line of a log.

use super::finding::{Finding, Severity};

/// Maximum length of a commit subject in characters.
const SUBJECT_CHARACTERS_MAX: usize = 72;

/// Checks one subject, except those that git writes for merges and reverts.
pub(crate) fn check(subject: &str) -> Vec<Finding> {
    let subject = subject.trim();
    if subject.is_empty() || subject.starts_with("Merge ") || subject.starts_with("Revert ") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    if subject.chars().count() > SUBJECT_CHARACTERS_MAX {
        faults.push((
            format!("a subject of more than {SUBJECT_CHARACTERS_MAX} characters"),
            "say one fact, and why in the body",
        ));
    }
    if !has_scope(subject) {
        faults.push((
            "a subject without `scope: `".to_owned(),
            "begin with the crate or the part that changes",
        ));
    }
    let finding = |(fault, remedy): (String, &str)| Finding {
        path: "newest commit".to_owned(),
        line: 0,
        severity: Severity::Fails,
        what: format!("{fault}: {subject}"),
        why: "a log is read a line at a time",
        remedy: remedy.to_owned(),
    };
    faults.into_iter().map(finding).collect()
}

fn has_scope(subject: &str) -> bool {
    let is_scope = |scope: &str| {
        !scope.is_empty()
            && scope
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/., ".contains(c))
    };
    subject.split_once(": ").is_some_and(|(scope, fact)| is_scope(scope) && !fact.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_a_scope_and_fits_a_line() {
        let long = format!("proxy: {}", "a".repeat(SUBJECT_CHARACTERS_MAX));
        for (subject, faults) in [
            ("proxy: close idle connections first", 0),
            ("load, mock: read one clock", 0),
            ("Merge branch 'cache'", 0),
            ("", 0),
            ("[proxy] close idle connections first", 1),
            ("Close idle connections", 1),
            (&long, 1),
        ] {
            assert_eq!(check(subject).len(), faults, "{subject}");
        }
    }
}
