//! Form of a Rust file: it begins with a description, is short, and has a noun as its name.

use super::finding::{Finding, Severity};
use super::source::Source;

/// Number of lines outside tests above which a file should be split.
const FILE_LINES_SOFT_MAX: usize = 400;
/// Number of lines outside tests above which a file must be split, because it no longer has a
/// single purpose.
const FILE_LINES_MAX: usize = 800;
/// Length above which a file header is a manual page and belongs elsewhere; plugins are excepted,
/// because their header is their manual page.
const HEADER_LINES_SOFT_MAX: usize = 10;

/// Module names without meaning, which attract unrelated code.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "manager", "misc", "common", "stuff"];

/// Checks header, length and name of a file.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    [check_header(source), check_length(source), check_name(source)].into_iter().flatten().collect()
}

fn check_header(source: &Source) -> Option<Finding> {
    let count = source.lines.iter().take_while(|line| line.text.starts_with("//!")).count();
    let is_manual_page = source.path.starts_with("crates/tollhouse-plugins/");
    let severity = match count {
        0 => Severity::Fails,
        n if n > HEADER_LINES_SOFT_MAX && !is_manual_page => Severity::Warns,
        _ => return None,
    };
    Some(Finding {
        path: source.path.clone(),
        line: 1,
        severity,
        what: format!("a header of {count} lines"),
        why: "a new reader must see at the top what the file contains and what it does not",
        remedy: "open the file with two to ten lines of `//!`".to_owned(),
    })
}

fn check_length(source: &Source) -> Option<Finding> {
    let lines = source.lines.iter().filter(|line| !line.in_test).count();
    let severity = match lines {
        n if n > FILE_LINES_MAX => Severity::Fails,
        n if n > FILE_LINES_SOFT_MAX => Severity::Warns,
        _ => return None,
    };
    Some(Finding {
        path: source.path.clone(),
        line: 0,
        severity,
        what: format!(
            "{lines} lines outside tests (soft {FILE_LINES_SOFT_MAX}, hard {FILE_LINES_MAX})"
        ),
        why: "one file, one noun: a long file usually has two subjects",
        remedy: "move a noun of its own into a file of its own".to_owned(),
    })
}

fn check_name(source: &Source) -> Option<Finding> {
    let stem = source.path.rsplit('/').next()?.strip_suffix(".rs")?;
    let module = if stem == "mod" { source.path.rsplit('/').nth(1)? } else { stem };
    if !EMPTY_NAMES.contains(&module) {
        return None;
    }
    Some(Finding {
        path: source.path.clone(),
        line: 0,
        severity: Severity::Fails,
        what: format!("a module named {module}"),
        why: "a name that says nothing collects everything",
        remedy: "name the module after the noun it holds".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<(Severity, String)> {
        check(&Source::parse(path, text)).into_iter().map(|f| (f.severity, f.what)).collect()
    }

    #[test]
    fn a_short_file_with_a_header_passes() {
        assert_eq!(findings("crates/a/src/route.rs", "//! Routes.\n\nfn a() {}\n"), []);
    }

    #[test]
    fn a_file_without_a_header_fails() {
        let found = findings("crates/a/src/route.rs", "fn a() {}\n");
        assert_eq!(found, [(Severity::Fails, "a header of 0 lines".to_owned())]);
    }

    #[test]
    fn only_a_plugin_may_open_with_a_manual_page() {
        let text = "//! line\n".repeat(30);
        assert_eq!(findings("crates/tollhouse-plugins/src/cors.rs", &text), []);
        assert_eq!(findings("crates/a/src/b.rs", &text)[0].0, Severity::Warns);
    }

    #[test]
    fn length_is_counted_outside_tests() {
        let code = "fn a() {}\n".repeat(300);
        let text = format!("//! Header.\n{code}#[cfg(test)]\nmod tests {{\n{}}}\n", code.repeat(3));
        assert_eq!(findings("crates/a/src/b.rs", &text), []);
        let long = format!("//! Header.\n{}", code.repeat(3));
        assert_eq!(findings("crates/a/src/b.rs", &long)[0].0, Severity::Fails);
    }

    #[test]
    fn empty_names_are_refused_also_as_folders() {
        for path in ["crates/a/src/util.rs", "crates/a/src/helpers/mod.rs"] {
            assert_eq!(findings(path, "//! Header.\n").len(), 1, "{path}");
        }
    }
}
