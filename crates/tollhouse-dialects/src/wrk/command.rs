//! `tollhouse bench wrk`: measures like wrk and prints wrk's output.

use tollhouse_load::error::BenchError;

use super::options::{Tool, parse};
use super::output;
use crate::{Action, Process};

/// Runs a command line, without the tool's name.
///
/// # Errors
/// If the command line is invalid, or nothing could be measured.
pub fn run(arguments: &[String], process: &mut Process<'_>) -> Result<(), BenchError> {
    let command = match parse(Tool::Wrk, arguments)? {
        Action::Run(command) => command,
        Action::Print(text) => return process.print(&text),
    };
    process.print(&output::heading(&command))?;
    let result = process.measure(&command.case, |_, _| Ok(()))?;
    process.print(&output::text(&result, command.detail))?;
    process.print_doubts(result)
}
