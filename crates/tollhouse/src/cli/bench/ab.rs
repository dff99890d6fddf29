//! `tollhouse bench ab`: its options, its output, its files.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use tollhouse_load::error::BenchError;
use tollhouse_load::report::ab::{self, Heartbeat};
use tollhouse_load::result::CaseResult;
use tollhouse_load::spelling::Asked;
use tollhouse_load::spelling::ab::{AbCommand, check_writable, parse};

use super::{print, spelled};

/// Arguments of `bench ab`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct AbArguments {
    /// ab's own options, and a URL with a path; -h lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS AND URL")]
    words: Vec<String>,
}

/// Measures as ab does, and prints what ab prints.
///
/// # Errors
/// The command line is not understood, nothing could be measured, or a file cannot be written.
pub fn run(arguments: &AbArguments) -> Result<ExitCode, BenchError> {
    let command = match parse(&arguments.words)? {
        Asked::Run(command) => command,
        Asked::Print(text) => return print(&text).map(|()| ExitCode::SUCCESS),
    };
    for path in command.csv.iter().chain(&command.gnuplot) {
        check_writable(path)?;
    }
    print(&ab::opening(&command))?;
    let mut heartbeat = Heartbeat::of(&command);
    let result = spelled::measure(&command.case, &mut |progress, stop| {
        if let Some(heartbeat) = &mut heartbeat {
            eprint!("{}", heartbeat.due(progress.counts.completed));
        }
        if progress.last_failure.is_some_and(|failure| command.ends_on(failure)) {
            stop.stop();
        }
        Ok(())
    })?;
    if let Some(heartbeat) = &mut heartbeat {
        eprint!("{}", heartbeat.end(result.counts.completed));
    }
    command.accept(&result)?;
    print(&ab::text(&command, &result))?;
    write_files(&command, &result)?;
    if command.sheet.confidence {
        spelled::tell_doubts(result);
    }
    Ok(ExitCode::SUCCESS)
}

fn write_files(command: &AbCommand, result: &CaseResult) -> Result<(), BenchError> {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text)
            .map_err(|error| BenchError::File { path: path.to_owned(), why: error.to_string() })
    };
    if let Some(path) = &command.csv {
        write(path, ab::csv(result))?;
    }
    let Some(path) = &command.gnuplot else { return Ok(()) };
    let (kept, completed) = (result.samples.len() as u64, result.counts.completed);
    if kept < completed {
        eprintln!("tollhouse: {}: the first {kept} of {completed} requests", path.display());
    }
    write(path, ab::gnuplot(result))
}
