//! The registry: latency of one durable call, delay until a change is visible, and cost of a storm
//! of heartbeats.
//! The cost of its calls under the load of the published report is measured by
//! `tollhouse bench suite polaris`.
//!
//! The registry has one core, one serving thread and a data folder on a disk, because a
//! registration is durable before it is answered. The generator has the other core.

mod converge;
mod durable;
mod generator;
mod server;
mod storm;

pub(super) use generator::{End, Load};
pub(super) use server::{Caller, NAMESPACE};

use super::case::Case;
use super::peer::Peer;
use super::plan::Plan;
use super::report::CaseResult;
use anyhow::{Context, Result};

/// Runs the case; only Tollhouse is measured.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let mut result = CaseResult::new(Case::Registry.name(), Vec::new(), Vec::new());
    if !plan.peers.contains(&Peer::Tollhouse) {
        println!("nothing to measure without tollhouse");
        return Ok(result);
    }
    result.figures.extend(durable::run(plan).context("one call at a time")?);
    result.figures.extend(converge::run(plan).context("convergence")?);
    result.figures.extend(storm::run(plan).context("the storm of heartbeats")?);
    Ok(result)
}
