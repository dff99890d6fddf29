//! Cases of `cargo x bench`: measure Tollhouse, nginx and HAProxy with the same requests on this
//! machine and compare the figures with the budgets. `bench/README.md` explains the method and its
//! limits.
//!
//! This file parses the arguments and runs the cases. Programs, their configurations and the
//! machine are in `tollhouse-testbed`. The crate never ships.

mod abuse;
mod admin;
mod body_bomb;
mod budget;
mod case;
mod cases;
mod churn;
mod client;
mod cluster;
mod edge;
mod gate;
mod gateway;
mod generator;
mod idle;
mod machine;
mod measure;
mod origin;
mod peer;
mod plan;
mod prober;
mod registry;
mod report;
mod shell;
mod shenyu_admin;
mod start;
mod train;
mod wrk;

use anyhow::{Context, Result, bail};
use case::Case;
use clap::Parser;
use machine::BinarySource;
use peer::Peer;
use plan::{Length, Plan};
use report::{CaseResult, Report};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Arguments of `cargo x bench`.
#[derive(Parser)]
#[command(
    name = "cargo x bench",
    bin_name = "cargo x bench",
    about = "Compare with nginx and HAProxy on this machine, or count instructions per request"
)]
struct BenchArguments {
    /// Run one short round per case, to check that everything works. The results are not saved
    #[arg(long)]
    quick: bool,
    /// Run only these cases
    #[arg(value_enum, value_name = "CASE")]
    cases: Vec<Case>,
    /// Run only these cases, given as an option
    #[arg(long, value_enum, num_args = 1..)]
    case: Vec<Case>,
    /// Measure only these peers
    #[arg(long, value_enum, num_args = 1..)]
    peer: Vec<Peer>,
    /// Count user instructions per request under valgrind, and fail if a budget is exceeded
    #[arg(long)]
    gate: bool,
    /// Measure this program, such as an older release, instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Send this instrumented program the load of its training, instead of measuring
    #[arg(long, value_name = "BINARY", hide = true)]
    train: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&BenchArguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &BenchArguments) -> Result<()> {
    if let Some(binary) = &arguments.train {
        return train::run(binary);
    }
    if arguments.gate && !gate::is_possible() {
        println!("skipped: valgrind is not installed");
        return Ok(());
    }
    if arguments.gate {
        return gate::run(&arguments.program()?);
    }
    let plan = arguments.plan()?;
    // A failing case must not discard the results of the others.
    let cases = arguments.chosen_cases();
    let source = if arguments.binary.is_some() { BinarySource::Given } else { BinarySource::Tree };
    let report = Report::new(machine::describe(&plan, source), arguments.length())?;
    let mut failed = Vec::new();
    for case in cases {
        println!("== {}", case.name());
        match case.run(&plan) {
            Ok(result) => show_and_save(&report, &result)?,
            Err(error) => {
                println!("{} failed: {error:#}", case.name());
                failed.push(case.name());
            }
        }
    }
    report.write_summary()?;
    if !failed.is_empty() {
        bail!("cases failed: {}", failed.join(", "));
    }
    Ok(())
}

fn show_and_save(report: &Report, result: &CaseResult) -> Result<()> {
    println!("{}", result.to_markdown());
    report.save(result)
}

impl BenchArguments {
    fn length(&self) -> Length {
        if self.quick { Length::Quick } else { Length::Full }
    }

    fn plan(&self) -> Result<Plan> {
        let wanted = if self.peer.is_empty() { Peer::all() } else { self.peer.clone() };
        let peers: Vec<Peer> = wanted.into_iter().filter(|peer| peer.is_installed()).collect();
        Plan::new(peers, self.length(), || self.program())
    }

    fn chosen_cases(&self) -> Vec<Case> {
        let named: Vec<Case> = self.cases.iter().chain(&self.case).copied().collect();
        if named.is_empty() { Case::all() } else { named }
    }

    /// Returns the program under test; builds the release binary unless one was given.
    fn program(&self) -> Result<PathBuf> {
        if let Some(binary) = &self.binary {
            return binary.canonicalize().with_context(|| binary.display().to_string());
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--release", "--package", "tollhouse"]);
        if !command.current_dir(shell::workspace_root()).status()?.success() {
            bail!("the program was not built");
        }
        Ok(shell::target_directory().join("release/tollhouse"))
    }
}
