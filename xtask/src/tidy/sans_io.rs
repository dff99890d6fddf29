//! Registry core without IO: only the task that changes the registry (`keeper.rs`) and the handle
//! of the crate may use an async runtime.

use super::finding::{Finding, Severity};
use super::source::Source;

/// Folder of the crate that is checked.
const CRATE: &str = "crates/tollhouse-registry/src/";

/// Files that may use the async runtime: the task that owns the newest version of the registry, and
/// the handle that communicates with this task.
const WITH_RUNTIME: &[&str] = &["keeper.rs", "registry.rs"];

/// Checks the lines of a file outside tests.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let Some(file) = source.path.strip_prefix(CRATE) else { return Vec::new() };
    // A file in the folder of such a file belongs to it.
    let owner =
        file.split_once('/').map_or_else(|| file.to_owned(), |(folder, _)| format!("{folder}.rs"));
    if WITH_RUNTIME.contains(&owner.as_str()) {
        return Vec::new();
    }
    let lines = source.lines.iter().enumerate();
    let offenders = lines.filter(|(_, line)| !line.in_test && line.code.contains("tokio"));
    let finding = |(number, _): (usize, _)| Finding {
        path: source.path.clone(),
        line: number + 1,
        severity: Severity::Fails,
        what: "the registry core uses a runtime".to_owned(),
        why: "the registry core is sans-IO, so that it can be simulated",
        remedy: "do it in keeper.rs or registry.rs".to_owned(),
    };
    offenders.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_found_outside_of_the_keeper_and_of_tests() {
        let cases = [
            ("state/load.rs", "use tokio::sync::mpsc;", 1),
            ("keeper.rs", "use tokio::sync::mpsc;", 0),
            ("keeper/commit.rs", "use tokio::sync::mpsc;", 0),
            ("state.rs", "#[cfg(test)]\nmod tests {\n    use tokio::test;\n}", 0),
            ("state.rs", "// tokio is not used here", 0),
        ];
        for (file, text, expected) in cases {
            let found = check(&Source::parse(&format!("{CRATE}{file}"), text)).len();
            assert_eq!(found, expected, "{file}: {text}");
        }
        assert!(check(&Source::parse("crates/other/src/lib.rs", "use tokio::io;")).is_empty());
    }
}
