//! `tollhouse completions`: a script that completes this command line in a shell.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Arguments, reference};

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell to print completions for.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script to standard output.
pub fn run(arguments: &CompletionsArguments) -> ExitCode {
    if reference::print(&script(arguments.shell)).is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tollhouse", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_a_script_with_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = script(shell);
            for word in ["tollhouse", "explain", "check"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
