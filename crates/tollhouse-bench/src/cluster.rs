//! Cases of several nodes on one machine: a registry of three nodes over MariaDB and Redis,
//! gateways over etcd. They measure the cost of calls, the propagation of changes between nodes,
//! and the losses when nodes or stores fail.
//!
//! All nodes share the core of the program under test. The stores run on any core, flush each
//! commit, and their CPU is not counted.

mod away;
mod calls;
mod losses;
mod nodes;
mod resync;
mod seen;

use super::budget::Figure;
use super::case::Case;
use super::plan::Plan;
use super::report::CaseResult;
use anyhow::{Context, Result};

/// Independent part of a case; returns its figures.
type Part = fn(&Plan) -> Result<Vec<Figure>>;

/// Measures CPU costs and delays of a cluster of Tollhouse nodes. The costs are compared with
/// figures of Polaris on the same stores, which were measured once and are in `budget.rs`.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let parts: [(_, Part); 3] =
        [("calls", calls::run), ("seen by other nodes", seen::run), ("read anew", resync::run)];
    measure(plan, Case::Cluster, &parts)
}

/// Measures losses when nodes and stores fail.
pub(crate) fn run_losses(plan: &Plan) -> Result<CaseResult> {
    let parts: [(_, Part); 3] = [
        ("nodes killed", losses::run),
        ("the database away", away::without_database),
        ("etcd away", away::without_etcd),
    ];
    measure(plan, Case::ClusterLosses, &parts)
}

fn measure(plan: &Plan, case: Case, parts: &[(&'static str, Part)]) -> Result<CaseResult> {
    let mut result = CaseResult::new(case, Vec::new(), Vec::new());
    let mut failed = None;
    for (what, part) in parts {
        match part(plan).context(*what) {
            Ok(figures) => result.figures.extend(figures),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let Some(error) = failed else { return Ok(result) };
    // Some parts take many minutes: the figures measured so far are printed, but not saved.
    println!("{}", result.to_markdown());
    Err(error)
}
