//! More than one machine, on one: a registry of three nodes over MariaDB and Redis, gateways over etcd. What calls
//! cost, how soon one node sees what another was told, and what is lost when nodes and engines are.
//!
//! All nodes share the core of the program under test. The engines run where the kernel puts them, flush each
//! commit, and their CPU is not counted.

mod calls;
mod losses;
mod nodes;
mod seen;

use super::Plan;
use super::cases::Case;
use super::peer::Peer;
use super::report::CaseResult;
use anyhow::{Context, Result};

/// Runs the case; only Tollhouse is measured. What Polaris does on these engines is in the design, measured once.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let mut result = CaseResult::new(Case::Cluster.name(), Vec::new(), Vec::new());
    if !plan.peers.contains(&Peer::Tollhouse) {
        println!("nothing to measure without tollhouse");
        return Ok(result);
    }
    result.figures.extend(calls::run(plan).context("calls")?);
    result.figures.extend(seen::run(plan).context("seen by other nodes")?);
    result.figures.extend(losses::run(plan).context("losses")?);
    Ok(result)
}
