//! `tollhouse bench ghz`: ghz's options and configuration files, and its output.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use tollhouse_load::error::BenchError;
use tollhouse_load::plan::Plan;
use tollhouse_load::report::{Report, ghz, html};
use tollhouse_load::session::{self, Options};
use tollhouse_load::spelling::Asked;
use tollhouse_load::spelling::ghz::{Format, GhzOptions, parse};

use super::measure::command_line;
use super::{interrupt, output, print, spelled};

/// Arguments of `bench ghz`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct GhzArguments {
    /// ghz's own options, and a host; --help lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS AND HOST")]
    words: Vec<String>,
}

/// Measures as ghz does, and prints what ghz prints. What ghz would do differently, and doubts about the
/// figures, go to standard error.
///
/// # Errors
/// The command line is not understood, nothing could be measured, or the output cannot be written.
pub fn run(arguments: &GhzArguments) -> Result<ExitCode, BenchError> {
    let command = match parse(&arguments.words)? {
        Asked::Run(command) => command,
        Asked::Print(text) => return print(&text).map(|()| ExitCode::SUCCESS),
    };
    if let Some(path) = &command.options.output {
        output::check_writable(path)?;
    }
    for note in &command.notes {
        eprintln!("tollhouse: {note}");
    }
    let options = Options {
        command: command_line(),
        stop: interrupt::stop_on_interrupt()?,
        ..Options::default()
    };
    let session = session::run(&Plan::of(command.case), &options, &mut |_| ())?;
    write(&session.report, &command.options)?;
    for result in session.report.results {
        if let Some(remark) = ghz::remark(&result) {
            eprintln!("tollhouse: {remark}");
        }
        spelled::tell_doubts(result);
    }
    match session.failed {
        Some(error) => Err(error),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn write(report: &Report, options: &GhzOptions) -> Result<(), BenchError> {
    let text = match (options.format, report.results.first()) {
        (Format::Html, _) => html::render(report),
        (_, Some(result)) => ghz::text(result, options),
        (_, None) => String::new(),
    };
    match &options.output {
        Some(path) => output::write(Path::new(path), &text),
        None => print(&text),
    }
}
