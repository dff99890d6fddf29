//! `tollhouse bench wrk`, `wrk2`, `ab` and `ghz`: passes the arguments to the emulation of the tool
//! in `tollhouse-dialects`.

use std::io;
use std::process::ExitCode;

use clap::Args;
use tollhouse_dialects::Process;
use tollhouse_load::error::BenchError;

use super::interrupt;
use super::measure::command_line;

/// Arguments of a command that takes another tool's options.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct DialectArguments {
    /// The tool's own options and its target; -h lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS AND TARGET")]
    words: Vec<String>,
}

type Command = fn(&[String], &mut Process<'_>) -> Result<(), BenchError>;

/// Measures as the tool does, and prints in its format.
///
/// # Errors
/// If the command line is invalid, or nothing can be measured.
pub fn run(command: Command, arguments: &DialectArguments) -> Result<ExitCode, BenchError> {
    let mut process = Process {
        stdout: &mut io::stdout(),
        stderr: &mut io::stderr(),
        stop: interrupt::stop_on_interrupt()?,
        command_line: command_line(),
    };
    command(&arguments.words, &mut process).map(|()| ExitCode::SUCCESS)
}
