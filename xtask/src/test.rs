//! `cargo x test`: installs the programs that the tests need, runs all tests, and prints a last line
//! with the sums over all test binaries in the format of `cargo test`.
//!
//! nextest is optional. If it is installed, it runs the tests; the doc tests, which it does not
//! support, follow.

use crate::install::{self, Environment};
use crate::shell;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Arguments of `cargo x test`.
#[derive(Args)]
pub(crate) struct TestArguments {
    /// Do not search for missing peers, and do not install anything.
    #[arg(long)]
    no_install: bool,
    /// Arguments for `cargo test` (a filter, `-p crate`, …).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    filtered: u64,
}

pub(crate) fn run(arguments: &TestArguments) -> Result<()> {
    let environment = if arguments.no_install {
        Environment { missing: Vec::new(), python: None, peers: None }
    } else {
        install::prepare()?
    };
    if !environment.missing.is_empty() {
        let missing = environment.missing.join(",");
        println!("{}={missing}: tests that need these skip themselves", install::SKIP_VARIABLE);
    }
    let use_nextest = shell::has_cargo_command("nextest") && arguments.rest.is_empty();
    let mut counts = Counts::default();
    let mut passed = true;
    for words in cargo_words(use_nextest, &arguments.rest) {
        let mut command = shell::cargo(&words);
        set_environment(&mut command, &environment);
        passed &= run_and_count(&mut command, &mut counts)?;
    }
    println!("\n{}", closing_line(counts, passed));
    if !passed {
        bail!("tests failed");
    }
    Ok(())
}

fn cargo_words(use_nextest: bool, rest: &[String]) -> Vec<Vec<String>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    if use_nextest {
        return vec![
            words("nextest run --workspace --no-fail-fast"),
            words("test --workspace --doc"),
        ];
    }
    let names_package = rest.iter().any(|word| word == "-p" || word.starts_with("--package"));
    let mut line = words(if names_package {
        "test --no-fail-fast"
    } else {
        "test --workspace --no-fail-fast"
    });
    line.extend(rest.iter().cloned());
    vec![line]
}

fn set_environment(command: &mut Command, environment: &Environment) {
    if environment.missing.is_empty() {
        command.env_remove(install::SKIP_VARIABLE);
    } else {
        command.env(install::SKIP_VARIABLE, environment.missing.join(","));
    }
    if let Some(python) = &environment.python {
        command.env(install::PYTHON_VARIABLE, python);
    }
    if let Some(peers) = &environment.peers {
        command.env(install::PEERS_VARIABLE, peers);
    }
}

/// Runs a command, prints both output streams line by line, and adds the test counts of their
/// summary lines. Returns `true` if the command succeeded.
fn run_and_count(command: &mut Command, counts: &mut Counts) -> Result<bool> {
    let line = shell::render(command);
    println!("running `{line}`");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start `{line}`"))?;
    let stdout = child.stdout.take().context("the child's output is piped")?;
    let stderr = child.stderr.take().context("the child's errors are piped")?;
    let from_stderr = std::thread::spawn(move || echo(stderr, |line| eprintln!("{line}")));
    counts.add(echo(stdout, |line| println!("{line}")));
    counts.add(from_stderr.join().unwrap_or_default());
    Ok(child.wait()?.success())
}

fn echo(stream: impl Read, print: impl Fn(&str)) -> Counts {
    let mut counts = Counts::default();
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        print(&line);
        if let Some(more) = parse_summary(&line) {
            counts.add(more);
        }
    }
    counts
}

/// Parses the summary line of libtest or nextest; returns `None` for any other line.
fn parse_summary(line: &str) -> Option<Counts> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("test result: ") {
        return Some(Counts {
            passed: number_before(rest, " passed"),
            failed: number_before(rest, " failed"),
            ignored: number_before(rest, " ignored"),
            filtered: number_before(rest, " filtered out"),
        });
    }
    if line.starts_with("Summary [") && line.contains(" run: ") {
        return Some(Counts {
            passed: number_before(line, " passed"),
            failed: number_before(line, " failed") + number_before(line, " timed out"),
            ignored: number_before(line, " skipped"),
            filtered: 0,
        });
    }
    None
}

fn number_before(text: &str, word: &str) -> u64 {
    let Some(end) = text.find(word) else { return 0 };
    let digits = text[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |i| i + 1);
    text[digits..end].parse().unwrap_or(0)
}

fn closing_line(counts: Counts, passed: bool) -> String {
    let verdict = if passed { "ok" } else { "FAILED" };
    format!(
        "test result: {verdict}. {} passed; {} failed; {} ignored; 0 measured; {} filtered out",
        counts.passed, counts.failed, counts.ignored, counts.filtered
    )
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.ignored += more.ignored;
        self.filtered += more.filtered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_both_runners_are_read() {
        let cases = [
            (
                "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; \
                 finished in 0.01s",
                Some(Counts { passed: 12, failed: 0, ignored: 1, filtered: 3 }),
            ),
            (
                "     Summary [   1.234s] 25 tests run: 24 passed (1 slow), 1 failed, 2 skipped",
                Some(Counts { passed: 24, failed: 1, ignored: 2, filtered: 0 }),
            ),
            ("test tests::one ... ok", None),
            ("running 3 tests", None),
        ];
        for (line, expected) in cases {
            assert_eq!(parse_summary(line), expected, "{line}");
        }
    }

    #[test]
    fn the_closing_line_reads_like_cargo_test() {
        let counts = Counts { passed: 3, failed: 1, ignored: 0, filtered: 2 };
        assert_eq!(
            closing_line(counts, false),
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out"
        );
    }

    #[test]
    fn a_named_package_is_not_widened_to_the_workspace() {
        let rest = vec!["-p".to_owned(), "xtask".to_owned()];
        assert_eq!(cargo_words(false, &rest), [["test", "--no-fail-fast", "-p", "xtask"]]);
    }

    #[test]
    fn nextest_is_followed_by_the_doc_tests() {
        let lines = cargo_words(true, &[]);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1], ["test", "--workspace", "--doc"]);
    }
}
