//! `tollhouse bench wrk` and `tollhouse bench wrk2`: their options, and their output.

use std::process::ExitCode;

use clap::Args;
use tollhouse_load::error::BenchError;
use tollhouse_load::report;
use tollhouse_load::run::Progress;
use tollhouse_load::spelling::Asked;
use tollhouse_load::spelling::wrk::{Tool, WrkCommand, parse};

use super::{print, spelled};

/// Arguments of `bench wrk` and `bench wrk2`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct WrkArguments {
    /// The tool's own options, and a URL; --help lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS AND URL")]
    words: Vec<String>,
}

/// Measures as wrk does, and prints what wrk prints.
///
/// # Errors
/// The command line is not understood, or nothing could be measured.
pub fn wrk(arguments: &WrkArguments) -> Result<ExitCode, BenchError> {
    let Some(command) = asked(Tool::Wrk, arguments)? else { return Ok(ExitCode::SUCCESS) };
    print(&report::wrk::heading(&command))?;
    let result = spelled::measure(&command.case, &mut |_, _| Ok(()))?;
    print(&report::wrk::text(&result, command.shown))?;
    spelled::tell_doubts(result);
    Ok(ExitCode::SUCCESS)
}

/// The same for wrk2.
///
/// # Errors
/// The command line is not understood, or nothing could be measured.
pub fn wrk2(arguments: &WrkArguments) -> Result<ExitCode, BenchError> {
    let Some(command) = asked(Tool::Wrk2, arguments)? else { return Ok(ExitCode::SUCCESS) };
    print(&report::wrk::heading(&command))?;
    let mut is_calibrated = false;
    let result = spelled::measure(&command.case, &mut |progress: &Progress<'_>, _| {
        let mean = progress.warm_up_mean.filter(|_| !progress.is_warming_up && !is_calibrated);
        is_calibrated |= mean.is_some();
        mean.map_or(Ok(()), |mean| print(&report::wrk2::calibration(command.threads, mean)))
    })?;
    print(&report::wrk2::text(&result, command.shown))?;
    spelled::tell_doubts(result);
    Ok(ExitCode::SUCCESS)
}

/// What is to be measured; `None` when a text was asked for, which has been printed.
fn asked(tool: Tool, arguments: &WrkArguments) -> Result<Option<WrkCommand>, BenchError> {
    match parse(tool, &arguments.words)? {
        Asked::Run(command) => Ok(Some(command)),
        Asked::Print(text) => print(&text).map(|()| None),
    }
}
