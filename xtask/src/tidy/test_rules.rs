//! Rules for tests: they must not sleep, wait on the real clock, or be disabled.

use super::finding::{Finding, Severity};
use super::source::Source;

/// Calls that pause a tokio clock; in a file with such a call, a sleep costs no time.
const PAUSES: &[&str] = &["start_paused", "time::pause()", "virtual_clock", "VirtualClock"];

/// Checks the test lines of a file.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let is_clock_paused =
        source.lines.iter().any(|line| PAUSES.iter().any(|p| line.code.contains(p)));
    let mut findings = Vec::new();
    for (number, line) in source.lines.iter().enumerate().filter(|(_, line)| line.in_test) {
        let sleep = if is_clock_paused { None } else { sleep(&line.code) };
        let Some((what, remedy)) = fault(&line.code).or(sleep) else {
            continue;
        };
        findings.push(Finding {
            path: source.path.clone(),
            line: number + 1,
            severity: Severity::Fails,
            what: what.to_owned(),
            why: "a test that sleeps is slow or flaky, and one that is off tests nothing",
            remedy: remedy.to_owned(),
        });
    }
    findings
}

/// Returns the fault and the remedy of a sleep on tokio's clock, which costs time unless it is paused.
fn sleep(code: &str) -> Option<(&'static str, &'static str)> {
    let remedy = "pause the clock (start_paused = true), or wait for an event";
    code.contains("time::sleep(").then_some(("a test sleeps on the real clock", remedy))
}

fn fault(code: &str) -> Option<(&'static str, &'static str)> {
    if code.contains("thread::sleep") {
        return Some(("a test sleeps", "wait for an event, or use virtual time"));
    }
    if code.contains("#[ignore") {
        return Some(("a test is switched off", "repair it or remove it"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Source::parse("crates/a/tests/it/main.rs", text)).len()
    }

    #[test]
    fn sleeping_and_ignored_tests_are_found() {
        let cases = [
            ("std::thread::sleep(one_second);", 1),
            ("tokio::time::sleep(one_second).await;", 1),
            ("#[tokio::test(start_paused = true)]\ntokio::time::sleep(one_second).await;", 0),
            ("#[ignore = \"slow\"]", 1),
            ("// thread::sleep is not used here", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(count(text), expected, "{text}");
        }
    }

    #[test]
    fn product_code_is_left_to_clippy() {
        let source = Source::parse("crates/a/src/lib.rs", "tokio::time::sleep(d).await;");
        assert!(check(&source).is_empty());
    }
}
