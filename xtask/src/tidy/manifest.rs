//! Versions of dependencies are only in the root manifest, so that the whole tree uses one version
//! of each crate.

use super::finding::{Finding, Severity};

/// Checks the `Cargo.toml` of one crate.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut section = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_owned();
            continue;
        }
        if line.is_empty() || line.starts_with('#') || !holds_dependencies(&section) {
            continue;
        }
        let inherits = line.contains("workspace = true") || line.contains("workspace=true");
        if !inherits && line.contains('=') {
            findings.push(finding(path, number + 1, line));
        }
    }
    findings
}

/// Checks whether the lines of a section are dependencies: `dependencies`, `dev-dependencies`,
/// `target.'cfg(unix)'.dependencies`. The tree does not use `dependencies.foo`, whose lines are
/// keys.
fn holds_dependencies(section: &str) -> bool {
    section.ends_with("dependencies") || section.contains("dependencies.")
}

fn finding(path: &str, line: usize, text: &str) -> Finding {
    let name = text.split(['=', '.', ' ']).next().unwrap_or(text);
    Finding {
        path: path.to_owned(),
        line,
        severity: Severity::Fails,
        what: format!("{name} does not inherit its version"),
        why: "versions live in one place, or two of them end up in one binary",
        remedy: format!("name it in the root manifest and write `{name}.workspace = true`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_paths_are_refused_inheritance_passes() {
        let cases = [
            ("[dependencies]\nserde.workspace = true\n", 0),
            ("[dependencies]\nserde = { workspace = true, features = [\"rc\"] }\n", 0),
            ("[dependencies]\nserde = \"1\"\n", 1),
            ("[dev-dependencies]\nother = { path = \"../other\" }\n", 1),
            ("[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n", 1),
            ("[package]\nname = \"a\"\n[features]\ndefault = []\n", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(check("crates/a/Cargo.toml", text).len(), expected, "{text}");
        }
    }
}
