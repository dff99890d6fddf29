//! `tollhouse bench ab`: measures like ab, prints ab's output, and writes its file of percentiles.

use tollhouse_load::error::BenchError;
use tollhouse_load::file;

use super::options::parse;
use super::output::{self, Heartbeat};
use crate::{Action, Process};

/// Runs a command line, without the tool's name.
///
/// # Errors
/// If the command line is invalid, nothing could be measured, or a file cannot be written.
pub fn run(arguments: &[String], process: &mut Process<'_>) -> Result<(), BenchError> {
    let command = match parse(arguments)? {
        Action::Run(command) => command,
        Action::Print(text) => return process.print(&text),
    };
    // Checked before the load, so that a long run does not end with a file that cannot be written.
    if let Some(path) = &command.csv {
        file::check_writable(path)?;
    }
    process.print(&output::opening(&command))?;
    let mut heartbeat = Heartbeat::for_command(&command);
    let result = process.measure(&command.case, |progress, process| {
        if progress.last_failure.is_some_and(|failure| command.ends_on(failure)) {
            process.stop.stop();
        }
        match &mut heartbeat {
            Some(heartbeat) => process.print_error(&heartbeat.due(progress.counts.completed)),
            None => Ok(()),
        }
    })?;
    if let Some(heartbeat) = &mut heartbeat {
        process.print_error(&heartbeat.end(result.counts.completed))?;
    }
    command.accept(&result)?;
    process.print(&output::text(&command, &result))?;
    if let Some(path) = &command.csv {
        file::write_text(path, &output::csv(&result))?;
    }
    if command.sheet.confidence {
        process.print_doubts(result)?;
    }
    Ok(())
}
