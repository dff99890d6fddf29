//! `tollhouse bench wrk2`: measures like wrk2 and prints wrk2's output.

use tollhouse_load::error::BenchError;

use super::output;
use crate::wrk::options::{Tool, parse};
use crate::wrk::output::heading;
use crate::{Action, Process};

/// Runs a command line, without the tool's name.
///
/// # Errors
/// If the command line is invalid, or nothing could be measured.
pub fn run(arguments: &[String], process: &mut Process<'_>) -> Result<(), BenchError> {
    let command = match parse(Tool::Wrk2, arguments)? {
        Action::Run(command) => command,
        Action::Print(text) => return process.print(&text),
    };
    process.print(&heading(&command))?;
    let mut is_calibrated = false;
    let result = process.measure(&command.case, |progress, process| {
        let mean = progress.warm_up_mean.filter(|_| !progress.is_warming_up && !is_calibrated);
        is_calibrated |= mean.is_some();
        mean.map_or(Ok(()), |mean| process.print(&output::calibration(command.threads, mean)))
    })?;
    process.print(&output::text(&result, command.detail))?;
    process.print_doubts(result)
}
