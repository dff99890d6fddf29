//! `tollhouse bench ghz`: measures like ghz and prints ghz's output. Differences to ghz, and
//! warnings about the figures, go to standard error.

use tollhouse_load::error::BenchError;
use tollhouse_load::file;
use tollhouse_load::plan::Plan;
use tollhouse_load::report::{Report, html};
use tollhouse_load::session::{self, Options};

use super::{Format, GhzOptions, output, parse};
use crate::{Action, Process};

/// Runs a command line, without the tool's name.
///
/// # Errors
/// If the command line is invalid, nothing could be measured, or the output cannot be written.
pub fn run(arguments: &[String], process: &mut Process<'_>) -> Result<(), BenchError> {
    let command = match parse(arguments)? {
        Action::Run(command) => command,
        Action::Print(text) => return process.print(&text),
    };
    // Checked before the load, so that a long run does not end with a file that cannot be written.
    if let Some(path) = &command.options.output {
        file::check_writable(path)?;
    }
    for note in &command.notes {
        process.remark(note)?;
    }
    let options = Options {
        command: process.command_line.clone(),
        stop: process.stop.clone(),
        ..Options::default()
    };
    let session = session::run(&Plan::from_case(command.case), &options, &mut |_| ())?;
    let text = text(&session.report, &command.options);
    match &command.options.output {
        Some(path) => file::write_text(path, &text)?,
        None => process.print(&text)?,
    }
    for result in session.report.results {
        if let Some(remark) = output::remark(&result) {
            process.remark(&remark)?;
        }
        process.print_doubts(result)?;
    }
    session.failed.map_or(Ok(()), Err)
}

fn text(report: &Report, options: &GhzOptions) -> String {
    match (options.format, report.results.first()) {
        (Format::Html, _) => html::render(report),
        (_, Some(result)) => output::text(result, options),
        (_, None) => String::new(),
    }
}
