//! File names in comments, and in documents about the tree: each of these files must exist, because
//! readers search for it.
//!
//! A name may omit the leading folders: `attempt.rs`, `stages/attempt.rs`. Links in documents are
//! checked in `links.rs`.

use super::finding::{Finding, Severity};
use super::source::Source;

/// File name extensions that are checked.
const ENDINGS: [&str; 2] = [".rs", ".md"];

/// Documents about the tree, by the beginnings of their paths.
const ABOUT_THE_TREE: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions/"];

/// Mark of a decision that another one has replaced.
const SUPERSEDED: &str = "- Status: superseded";

/// Searches comments for missing files; `exists` accepts paths without their leading folders.
pub(crate) fn check(source: &Source, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.lines.iter().enumerate() {
        let gone = cited(&line.comment).into_iter().filter(|name| !exists(name));
        findings.extend(gone.map(|name| finding(&source.path, number + 1, name)));
    }
    findings
}

/// Searches the code spans of a document about the tree for missing files.
pub(crate) fn check_document(
    path: &str,
    text: &str,
    exists: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let is_about_the_tree = ABOUT_THE_TREE.iter().any(|start| path.starts_with(start));
    // A decision that was replaced names the files of its time.
    if !is_about_the_tree || text.contains(SUPERSEDED) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let spans = line.split('`').skip(1).step_by(2).flat_map(cited);
        let gone = spans.filter(|name| !exists(name));
        findings.extend(gone.map(|name| finding(path, number + 1, name)));
    }
    findings
}

fn finding(path: &str, line: usize, name: &str) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        severity: Severity::Fails,
        what: format!("names {name}, which is not in the tree"),
        why: "a reader who looks for it finds nothing, and trusts the next sentence less",
        remedy: "name its present place, or write its content here".to_owned(),
    }
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

    #[test]
    fn documents_about_the_tree_name_files_that_exist() {
        let exists = |name: &str| name == "attempt.rs";
        let cases = [
            ("ARCHITECTURE.md", "`attempt.rs` and `gone.rs`", 1),
            ("docs/decisions/0001-a.md", "Code: `crates/a/gone.rs`, gone.rs", 1),
            ("docs/decisions/0001-a.md", "- Status: superseded by 2\n- Code: `gone.rs`", 0),
            ("docs/guides/a.md", "write `gone.rs`", 0),
        ];
        for (path, text, expected) in cases {
            assert_eq!(check_document(path, text, &exists).len(), expected, "{path}: {text}");
        }
    }
}
