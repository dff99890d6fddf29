//! `tollhouse man-pages`: writes the manual pages that packages install.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};

/// Arguments of `man-pages`.
#[derive(Debug, Args)]
pub struct ManPagesArguments {
    /// The folder to write into.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes a page for each command that the help lists; `command` is the whole command line.
///
/// # Errors
/// If a file cannot be written.
pub fn run(arguments: &ManPagesArguments, command: Command) -> anyhow::Result<ExitCode> {
    let folder = &arguments.folder;
    let written = clap_mangen::generate_to(command.disable_help_subcommand(true), folder);
    written.with_context(|| format!("failed to write into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn every_command_a_user_sees_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ManPagesArguments { folder: folder.path().to_owned() };
        run(&arguments, Arguments::command()).expect("the folder takes files");
        let page = |name: &str| std::fs::read_to_string(folder.path().join(name));
        for name in ["tollhouse.1", "tollhouse-explain.1", "tollhouse-bench-http.1"] {
            assert!(page(name).expect(name).contains(".SH SYNOPSIS"), "{name}");
        }
        for hidden in ["tollhouse-reference.1", "tollhouse-man-pages.1"] {
            assert!(page(hidden).is_err(), "{hidden}");
        }
    }
}
