//! `cargo x bench`: measures Tollhouse, nginx and HAProxy with equal requests on this machine and
//! compares the figures with the budgets. `bench/README.md` explains the method and its limits.
//!
//! This file parses the arguments and runs the cases; the parts are in files below `bench/`.

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
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
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

    /// Returns the program under test; builds the release binary unless one was given.
    fn program(&self) -> Result<PathBuf> {
        if let Some(binary) = &self.binary {
            return binary.canonicalize().with_context(|| binary.display().to_string());
        }
        shell::run(&mut shell::cargo(&["build", "--release", "--package", "tollhouse"]))?;
        Ok(shell::target_directory()?.join("release/tollhouse"))
    }
}
