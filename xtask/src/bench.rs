//! `cargo x bench`: the same request through Tollhouse, nginx and HAProxy on this machine, side by
//! side, judged by the budgets. `bench/README.md` explains the method and what it does not show.
//!
//! This file reads the arguments and orders the work; each piece has a file below `bench/`.

mod abuse;
mod admin;
mod body_bomb;
mod budget;
mod case;
mod cases;
mod churn;
pub(crate) mod client;
mod cluster;
mod edge;
pub(crate) mod gate;
pub(crate) mod gateway;
mod generator;
mod idle;
mod machine;
mod measure;
mod origin;
mod peer;
mod plan;
mod prober;
pub(crate) mod process;
mod registry;
mod report;
mod shenyu_admin;
mod start;
mod wrk;

use crate::shell;
use anyhow::{Context, Result, bail};
use case::Case;
use clap::Args;
use peer::Peer;
use plan::Plan;
use report::{CaseResult, Report};
use std::path::PathBuf;

/// Arguments of `cargo x bench`.
#[derive(Args)]
pub(crate) struct BenchArguments {
    /// One short round a case: shows that everything works, not how fast it is. Kept nowhere.
    #[arg(long)]
    quick: bool,
    /// Only these cases.
    #[arg(value_enum, value_name = "CASE")]
    cases: Vec<Case>,
    /// The same as an option.
    #[arg(long, value_enum, num_args = 1..)]
    case: Vec<Case>,
    /// Only these peers.
    #[arg(long, value_enum, num_args = 1..)]
    peer: Vec<Peer>,
    /// Count user instructions a request under valgrind, and fail past the budget.
    #[arg(long)]
    gate: bool,
    /// Measure this program instead of building one: an older release, for example.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Runs `cargo x bench`.
pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    if arguments.gate && !gate::is_possible() {
        println!("skipped: valgrind is not installed");
        return Ok(());
    }
    if arguments.gate {
        return gate::run(&arguments.program()?);
    }
    let plan = arguments.plan()?;
    // One case that fails must not cost the figures of hours before it.
    let cases = arguments.chosen_cases();
    let report = Report::new(machine::describe(&plan)?, arguments.quick)?;
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
    fn plan(&self) -> Result<Plan> {
        let wanted = if self.peer.is_empty() { Peer::all() } else { self.peer.clone() };
        let peers: Vec<Peer> = wanted.into_iter().filter(|peer| peer.is_installed()).collect();
        Plan::new(peers, self.quick, || self.program())
    }

    fn chosen_cases(&self) -> Vec<Case> {
        let named: Vec<Case> = self.cases.iter().chain(&self.case).copied().collect();
        if named.is_empty() { Case::all() } else { named }
    }

    /// The program under test; the release binary is built when none was named.
    fn program(&self) -> Result<PathBuf> {
        if let Some(binary) = &self.binary {
            return binary.canonicalize().with_context(|| binary.display().to_string());
        }
        shell::run(&mut shell::cargo(&["build", "--release", "--package", "tollhouse"]))?;
        Ok(shell::target_directory()?.join("release/tollhouse"))
    }
}
