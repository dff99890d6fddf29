//! `tollhouse completions`: prints a shell script that completes this command line.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::stdout;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell to print completions for.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script to standard output; `command` is the definition of the whole command line.
pub fn run(arguments: &CompletionsArguments, command: Command) -> ExitCode {
    if stdout::print(&script(arguments.shell, command)).is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn script(shell: Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "tollhouse", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn every_shell_gets_a_script_with_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = script(shell, Arguments::command());
            for word in ["tollhouse", "explain", "check"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
