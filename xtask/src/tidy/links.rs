//! Links between our own documents: the target file of a link must exist, and have the heading that
//! the link names after `#`.
//!
//! Links to other sites are not checked.

use super::finding::{Finding, Severity};

/// Access to the tree.
pub(crate) trait Targets {
    /// Whether a file or folder exists, by its path from the root.
    fn exists(&self, path: &str) -> bool;
    /// Returns the text of a document.
    fn document(&self, path: &str) -> Option<&str>;
}

/// Checks the links of one document.
pub(crate) fn check(path: &str, text: &str, targets: &dyn Targets) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            continue;
        }
        let broken = linked(line).into_iter().filter(|link| !leads_somewhere(path, link, targets));
        findings.extend(broken.map(|link| finding(path, number + 1, link)));
    }
    findings
}

/// Returns the targets of `[text](target)` in a line, outside code spans.
fn linked(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    // Every second piece between back-ticks is code.
    for (index, piece) in line.split('`').enumerate() {
        if index % 2 == 1 {
            continue;
        }
        for (at, _) in piece.match_indices("](") {
            let rest = &piece[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push(rest[..end].split(' ').next().unwrap_or_default());
            }
        }
    }
    found
}

fn leads_somewhere(path: &str, link: &str, targets: &dyn Targets) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { Some(path.to_owned()) } else { resolve(folder, file) };
    let Some(target) = target.filter(|target| targets.exists(target)) else { return false };
    let document = targets.document(&target).filter(|_| !heading.is_empty());
    document.is_none_or(|text| anchors(text).iter().any(|anchor| anchor == heading))
}

/// Returns the anchors of a document's headings, as the usual viewers form them.
fn anchors(text: &str) -> Vec<String> {
    let (mut anchors, mut in_code) = (Vec::new(), false);
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        let is_kept = |letter: &char| letter.is_alphanumeric() || "-_".contains(*letter);
        let anchor: String = title.chars().filter(is_kept).collect();
        let repeated = anchors.iter().filter(|other| **other == anchor).count();
        anchors.push(if repeated == 0 { anchor } else { format!("{anchor}-{repeated}") });
    }
    anchors
}

/// Resolves a relative path to one from the root; returns `None` if it leaves the tree.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> =
        if target.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    parts.retain(|part| !part.is_empty());
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn finding(path: &str, line: usize, link: &str) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        severity: Severity::Fails,
        what: format!("a link to {link}, which is not there"),
        why: "a reader who follows a dead link stops reading",
        remedy: "point it to where the text lives now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree;

    impl Targets for Tree {
        fn exists(&self, path: &str) -> bool {
            ["docs/a.md", "docs/b.md", "README.md", "bench"].contains(&path)
        }

        fn document(&self, path: &str) -> Option<&str> {
            let text = "# A: `part` two\n## Same\n## Same\n```\n# code\n```\n";
            (path == "docs/a.md").then_some(text)
        }
    }

    #[test]
    fn only_links_to_missing_files_and_headings_are_found() {
        let cases = [
            ("[a](a.md)", 0),
            ("[a](a.md#a-part-two) and [up](../README.md)", 0),
            ("[same](a.md#same) [again](a.md#same-1)", 0),
            ("[a](a.md#gone) [code](a.md#code)", 2),
            ("[folder](../bench/)", 0),
            ("[gone](gone.md)", 1),
            ("[out](../../out.md)", 1),
            ("[site](https://example.com/x) [mail](mailto:a@b) [here](#part)", 0),
            ("`[code](gone.md)`", 0),
            ("```\n[code](gone.md)\n```", 0),
            ("[titled](a.md \"title\")", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(check("docs/b.md", text, &Tree).len(), expected, "{text}");
        }
        assert_eq!(check("docs/a.md", "[here](#gone)", &Tree).len(), 1);
    }
}
