//! `tollhouse bench run`: measures a plan file.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tollhouse_load::error::BenchError;
use tollhouse_load::plan::Plan;

use super::measure::measure;
use super::output::OutputArguments;
use super::terminal;

/// Arguments of `bench run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The plan: cases in YAML, with defaults and matrices.
    #[arg(value_name = "PLAN.yaml")]
    plan: PathBuf,
    /// Measure only the cases whose name or subject contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Check the plan and list its cases without measuring.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// Measures the plan.
///
/// # Errors
/// If the plan is invalid or cannot be measured.
pub fn run(arguments: &RunArguments) -> Result<ExitCode, BenchError> {
    let mut plan = Plan::load(&arguments.plan)?;
    if let Some(text) = &arguments.only {
        plan.keep_only(text)?;
    }
    if arguments.check {
        terminal::print(&plan.listed())?;
        return Ok(ExitCode::SUCCESS);
    }
    measure(&plan, &arguments.outputs)
}
