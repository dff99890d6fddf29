//! `tollhouse bench report`: prints a result that was kept.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tollhouse_load::error::BenchError;
use tollhouse_load::report;

/// Arguments of `bench report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A result, as `--json` wrote it.
    #[arg(value_name = "RESULT.json")]
    file: PathBuf,
}

/// Prints the report.
///
/// # Errors
/// The file cannot be used.
pub fn run(arguments: &ReportArguments) -> Result<ExitCode, BenchError> {
    let report = report::load(&arguments.file)?;
    super::print(&report::text::render(&report, super::paint()))?;
    Ok(ExitCode::SUCCESS)
}
