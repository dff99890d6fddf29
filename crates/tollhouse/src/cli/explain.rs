//! `tollhouse explain`: which route, plugins and upstream a request would get.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::Configuration;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// Declarative file of resources; short for `--set resources=FILE`.
    #[arg(short, long, value_name = "FILE")]
    resources: Option<PathBuf>,
}

/// Prints the decision.
///
/// # Errors
/// When the resources cannot be read.
pub fn run(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    Ok(ExitCode::SUCCESS)
}
