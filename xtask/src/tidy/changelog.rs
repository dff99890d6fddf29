//! Names of changelog fragments: `changelog.d/<slug>.<kind>.md`.

use super::finding::{Finding, Severity};

/// Kinds of change, in the order in which a release lists them.
const KINDS: &[&str] = &["breaking", "security", "feature", "fix", "perf"];

/// Checks a path; paths outside `changelog.d/` pass.
pub(crate) fn check(path: &str) -> Option<Finding> {
    let name = path.strip_prefix("changelog.d/")?;
    if name == "README.md" || is_fragment(name) {
        return None;
    }
    Some(Finding {
        path: path.to_owned(),
        line: 0,
        severity: Severity::Fails,
        what: "not the name of a changelog fragment".to_owned(),
        why: "a release is assembled from the names",
        remedy: format!("name it <words-with-dashes>.<{}>.md", KINDS.join("|")),
    })
}

fn is_fragment(name: &str) -> bool {
    let mut parts = name.split('.');
    let (Some(slug), Some(kind), Some("md"), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let is_slug = !slug.is_empty()
        && slug.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    is_slug && KINDS.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_and_which_kind() {
        let cases = [
            ("changelog.d/README.md", true),
            ("changelog.d/retry-budget.feature.md", true),
            ("changelog.d/retry-budget.feat.md", false),
            ("changelog.d/Retry.fix.md", false),
            ("changelog.d/retry.md", false),
            ("docs/anything.md", true),
        ];
        for (path, passes) in cases {
            assert_eq!(check(path).is_none(), passes, "{path}");
        }
    }
}
