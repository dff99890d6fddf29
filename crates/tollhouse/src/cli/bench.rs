//! `tollhouse bench`: the load generator's command line.
//!
//! Each command is a file under `bench/`: it turns arguments into the plain data of `tollhouse-load`
//! and prints what comes back. Here are the list of commands, the overview that is shown without one, and
//! the exit codes.
//!
//! A command is added by its file, a variant of [`BenchCommand`] and a line in [`carry_out`].

mod connections;
mod interrupt;
mod report;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollhouse_load::error::BenchError;
use tollhouse_load::report::paint::Paint;

use super::reference;

/// Exit code when nothing could be measured: bad input, an unusable target, limits of the machine.
pub const NOT_MEASURED: u8 = 2;

/// What `tollhouse bench` says alone.
const OVERVIEW: &str = "\
tollhouse bench measures a server, and says what its figures are worth.

  tollhouse bench connections --serve -n 100000       hold connections, both ends here
  tollhouse bench report result.json                  print a result again

Exit codes: 0 measured, and thresholds are met; 1 a threshold is missed; 2 nothing could be
measured. Every command explains itself with --help.
";

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Open connections and hold them: how many, and what each costs at both ends.
    Connections(Box<connections::ConnectionsArguments>),
    /// Print a result again: as text, or as another format.
    Report(report::ReportArguments),
}

/// Carries the command out. What keeps it from measuring is one line on standard error and exit code
/// [`NOT_MEASURED`].
///
/// # Errors
/// When the overview cannot be printed.
pub fn run(arguments: &BenchArguments) -> anyhow::Result<ExitCode> {
    let Some(command) = &arguments.command else {
        reference::print(OVERVIEW)?;
        return Ok(ExitCode::SUCCESS);
    };
    Ok(carry_out(command).unwrap_or_else(|error| {
        eprintln!("tollhouse: {}", one_line(&error.to_string()));
        ExitCode::from(NOT_MEASURED)
    }))
}

fn carry_out(command: &BenchCommand) -> Result<ExitCode, BenchError> {
    match command {
        BenchCommand::Connections(arguments) => connections::run(arguments),
        BenchCommand::Report(arguments) => report::run(arguments),
    }
}

/// How text for people is painted on standard output.
fn paint() -> Paint {
    let variable = |name: &str| std::env::var(name).ok();
    let (no_color, term) = (variable("NO_COLOR"), variable("TERM"));
    Paint::for_stream(&std::io::stdout(), no_color.as_deref(), term.as_deref())
}

/// A message as one line, whatever a file or a server put into it.
fn one_line(message: &str) -> String {
    message
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Prints to standard output.
///
/// # Errors
/// When it cannot be written.
fn print(text: &str) -> Result<(), BenchError> {
    reference::print(text)
        .map_err(|error| BenchError::System { doing: "writing to standard output".into(), error })
}
