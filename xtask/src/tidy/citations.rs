//! File names in comments: each of these files must exist in the tree, because readers search for
//! it.
//!
//! A name may omit the leading folders: `attempt.rs`, `stages/attempt.rs`. Links in documents are
//! checked in `links.rs`.

use super::finding::{Finding, Severity};
use super::source::Source;

/// File name extensions that are checked.
const ENDINGS: [&str; 2] = [".rs", ".md"];

/// Searches comments for missing files; `exists` accepts paths without their leading folders.
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
            remedy: "name its present place, or write its content here".to_owned(),
        }));
    }
    findings
}

/// Returns the files that a comment names, without URLs of other sites.
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
