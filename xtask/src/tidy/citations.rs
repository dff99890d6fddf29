//! Files that comments name: each must be in the tree, or a reader looks for it in vain.
//!
//! A name may leave out the folders in front of it: `attempt.rs`, `stages/attempt.rs`. Links in documents are
//! checked in `links.rs`.

use super::finding::{Finding, Severity};
use super::source::Source;

/// What the names of our own texts end with.
const ENDINGS: [&str; 2] = [".rs", ".md"];

/// Looks for files that are not there; `exists` answers for paths that may lack their first folders.
pub(crate) fn check(source: &Source, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.lines.iter().enumerate() {
        let gone = cited(&line.comment).into_iter().filter(|name| !exists(name));
        findings.extend(gone.map(|name| Finding {
            path: source.path.clone(),
            line: number + 1,
            severity: Severity::Fails,
            what: format!("a comment names {name}, which is not in the tree"),
            why: "a reader who looks for it finds nothing, and trusts the next comment less",
            remedy: "name where it is now, or say here what stands there".to_owned(),
        }));
    }
    findings
}

/// The files that a comment names; addresses of other sites are none.
fn cited(comment: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-./:".contains(letter);
    let words =
        comment.split(|letter| !is_part(letter)).map(|word| word.trim_end_matches(['.', ':']));
    words
        .filter(|word| !word.contains("://") && ENDINGS.iter().any(|ending| word.ends_with(ending)))
        .filter(|word| !ENDINGS.contains(word))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_not_there_are_found() {
        let exists = |name: &str| ["attempt.rs", "stages/attempt.rs", "README.md"].contains(&name);
        let cases = [
            ("// One attempt is `attempt.rs`.", 0),
            ("//! see stages/attempt.rs, README.md.", 0),
            ("// as in other.md §3", 1),
            ("/// The rest: `gone.rs`; `attempt.rs`: this.", 1),
            ("let path = \"gone.rs\";", 0),
            ("// https://example.com/gone.md", 0),
            ("// files that end in `.rs`", 0),
        ];
        for (text, expected) in cases {
            let source = Source::parse("crates/a/src/lib.rs", text);
            assert_eq!(check(&source, &exists).len(), expected, "{text}");
        }
    }
}
