//! `tollhouse bench wrk`: measures as wrk does, and prints what wrk prints.

use tollhouse_load::error::BenchError;

use super::options::{Tool, parse};
use super::output;
use crate::{Asked, Process};

/// Carries out a command line, the tool's name not included.
///
/// # Errors
/// The command line is not understood, or nothing could be measured.
pub fn run(arguments: &[String], process: &mut Process<'_>) -> Result<(), BenchError> {
    let command = match parse(Tool::Wrk, arguments)? {
        Asked::Run(command) => command,
        Asked::Print(text) => return process.print(&text),
    };
    process.print(&output::heading(&command))?;
    let result = process.measure(&command.case, |_, _| Ok(()))?;
    process.print(&output::text(&result, command.detail))?;
    process.print_doubts(result)
}
