//! Links between our own documents: the target file of a link must exist.
//!
//! Only the file is checked, not the heading after `#`. Links to other sites are not checked.

use super::finding::{Finding, Severity};

/// Checks the links of one document; `exists` accepts paths from the root.
pub(crate) fn check(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
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
        let broken =
            targets(line).into_iter().filter(|target| !leads_somewhere(folder, target, exists));
        findings.extend(broken.map(|target| finding(path, number + 1, target)));
    }
    findings
}

/// Returns the targets of `[text](target)` in a line, outside code spans.
fn targets(line: &str) -> Vec<&str> {
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

fn leads_somewhere(folder: &str, target: &str, exists: &dyn Fn(&str) -> bool) -> bool {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    let file = target.split('#').next().unwrap_or_default();
    is_elsewhere || file.is_empty() || resolve(folder, file).is_some_and(|path| exists(&path))
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

fn finding(path: &str, line: usize, target: &str) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        severity: Severity::Fails,
        what: format!("a link to {target}, which is not there"),
        why: "a reader who follows a dead link stops reading",
        remedy: "point it to where the text lives now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_missing_files_are_found() {
        let exists = |path: &str| ["docs/a.md", "README.md", "bench"].contains(&path);
        let cases = [
            ("[a](a.md)", 0),
            ("[a](a.md#part) and [up](../README.md)", 0),
            ("[folder](../bench/)", 0),
            ("[gone](gone.md)", 1),
            ("[out](../../out.md)", 1),
            ("[site](https://example.com/x) [mail](mailto:a@b) [here](#part)", 0),
            ("`[code](gone.md)`", 0),
            ("```\n[code](gone.md)\n```", 0),
            ("[titled](a.md \"title\")", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(check("docs/b.md", text, &exists).len(), expected, "{text}");
        }
    }
}
