//! More than one machine, on one: a registry of three nodes over MariaDB and Redis, gateways over etcd. What calls
//! cost, how soon one node sees what another was told, and what is lost when nodes and engines are.
//!
//! All nodes share the core of the program under test. The engines run where the kernel puts them, flush each
//! commit, and their CPU is not counted.

mod away;
mod calls;
mod losses;
mod nodes;
mod resync;
mod seen;

use super::budget::Figure;
use super::case::Case;
use super::peer::Peer;
use super::plan::Plan;
use super::report::CaseResult;
use anyhow::{Context, Result};

/// What is measured at a time.
type Part = fn(&Plan) -> Result<Vec<Figure>>;

/// What things cost and how long they take; only Tollhouse is measured. What Polaris does on these engines is in the
/// design, measured once.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let parts: [(_, Part); 3] =
        [("calls", calls::run), ("seen by other nodes", seen::run), ("read anew", resync::run)];
    measure(plan, Case::Cluster, parts)
}

/// What is lost with nodes and stores.
pub(crate) fn run_losses(plan: &Plan) -> Result<CaseResult> {
    let parts: [(_, Part); 3] = [
        ("nodes killed", losses::run),
        ("the database away", away::without_database),
        ("etcd away", away::without_etcd),
    ];
    measure(plan, Case::ClusterLosses, parts)
}

fn measure<const PARTS: usize>(
    plan: &Plan,
    case: Case,
    parts: [(&'static str, Part); PARTS],
) -> Result<CaseResult> {
    let mut result = CaseResult::new(case.name(), Vec::new(), Vec::new());
    if !plan.peers.contains(&Peer::Tollhouse) {
        println!("nothing to measure without tollhouse");
        return Ok(result);
    }
    let mut failed = None;
    for (what, part) in parts {
        match part(plan).context(what) {
            Ok(figures) => result.figures.extend(figures),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let Some(error) = failed else { return Ok(result) };
    // Some of them take many minutes: what was measured is shown, and kept nowhere.
    println!("{}", result.to_markdown());
    Err(error)
}
