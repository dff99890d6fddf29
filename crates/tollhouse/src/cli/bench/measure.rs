//! Measurement of a plan for a command: progress, result files and text, exit code.

use std::process::ExitCode;

use tollhouse_load::error::BenchError;
use tollhouse_load::plan::Plan;
use tollhouse_load::report::{Report, text};
use tollhouse_load::session::{self, Options, Session};

use super::interrupt;
use super::output::OutputArguments;
use super::progress::{Watcher, quiet_watcher, watcher};
use super::terminal;

/// Exit code if a value of the result violates a threshold (`--threshold`).
const MISSED: u8 = 1;

/// Measures a plan, writes the requested files, and prints the result.
///
/// # Errors
/// If anything could not be measured.
pub fn measure(plan: &Plan, outputs: &OutputArguments) -> Result<ExitCode, BenchError> {
    measure_by(outputs, |options, watcher| {
        session::run(plan, options, &mut |event| watcher.show(&event))
    })
}

/// Calls `carry_out` to measure, then writes the requested files and prints the result.
///
/// # Errors
/// If anything could not be measured.
pub fn measure_by(
    outputs: &OutputArguments,
    carry_out: impl FnOnce(&Options, &mut Watcher) -> Result<Session, BenchError>,
) -> Result<ExitCode, BenchError> {
    outputs.check()?;
    let options = Options {
        command: command_line(),
        save: outputs.json().map(Into::into),
        stop: interrupt::stop_on_interrupt()?,
        ..Options::default()
    };
    let mut watcher = if outputs.is_quiet() { quiet_watcher() } else { watcher() };
    let ended = carry_out(&options, &mut watcher);
    watcher.end();
    let session = ended?;
    outputs.write(&session.report)?;
    if outputs.is_quiet() {
        missed(&session.report).for_each(super::super::problems::print_failure);
    } else {
        terminal::print(&text::render(
            &session.report,
            terminal::paint(),
            outputs.warning_detail(),
        ))?;
    }
    match session.failed {
        Some(error) => Err(error),
        None => Ok(exit_code(&session.report)),
    }
}

/// Returns the command line that repeats the measurement.
pub(super) fn command_line() -> Vec<String> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    repeatable(words)
}

/// Options whose value is a file that the command writes.
const OUTPUT_OPTIONS: [&str; 5] = ["--json", "--html", "--hgrm", "--csv", "--prometheus"];

/// Returns the command with the names of written files in place of their paths, which have no
/// meaning on another machine.
fn repeatable(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut line = vec!["tollhouse".to_owned()];
    for word in words {
        let is_output = line.last().is_some_and(|last| OUTPUT_OPTIONS.contains(&last.as_str()));
        let shortened = match word.split_once('=') {
            Some((option, path)) if OUTPUT_OPTIONS.contains(&option) => {
                format!("{option}={}", file_name(path))
            }
            _ if is_output => file_name(&word),
            _ => word,
        };
        line.push(shortened);
    }
    line
}

fn file_name(path: &str) -> String {
    let name = std::path::Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Iterates over the violated thresholds, as lines with the case and the measured value.
fn missed(report: &Report) -> impl Iterator<Item = String> {
    report.results.iter().flat_map(|result| {
        let lines = result.missed_thresholds.iter();
        lines.map(|line| format!("{}: threshold missed: {line}", result.name))
    })
}

/// Returns the exit code: [`MISSED`] if any threshold is missed.
fn exit_code(report: &Report) -> ExitCode {
    if missed(report).next().is_some() { ExitCode::from(MISSED) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_repeat_has_no_path_of_a_written_file() {
        let words =
            ["bench", "http", "--json", "/tmp/x/a.json", "--html=/tmp/b.html", "http://a/b"];
        let line = repeatable(words.map(str::to_owned).into_iter()).join(" ");
        assert_eq!(line, "tollhouse bench http --json a.json --html=b.html http://a/b");
    }
}
