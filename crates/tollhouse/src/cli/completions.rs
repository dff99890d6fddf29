//! `tollhouse completions`: a script that completes this command line in a shell.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Arguments;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell to print completions for.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script to standard output.
pub fn run(arguments: &CompletionsArguments) -> ExitCode {
    let mut command = Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "tollhouse", &mut std::io::stdout());
    ExitCode::SUCCESS
}
