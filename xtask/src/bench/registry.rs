//! The registry under the load of Polaris' published files: what a call costs it, with how many instances
//! it is asked, how soon a change is seen, what a storm of heartbeats takes.
//!
//! The registry has one core, one serving thread and a data folder on a disk, since a registration is
//! durable before it is answered; the generator has the other core.

mod calls;
mod converge;
mod generator;
mod messages;
mod published;
mod server;
mod storm;

use super::Plan;
use super::cases::Case;
use super::peer::Peer;
use super::report::CaseResult;
use anyhow::{Context, Result};

/// Instances that are registered while the calls are measured.
const SIZES: [u64; 3] = [1_000, 10_000, 100_000];
const QUICK_SIZES: [u64; 1] = [1_000];

/// Runs the case; only Tollhouse is measured, what others cost is printed beside.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let mut result = CaseResult::new(Case::Registry.name(), Vec::new(), Vec::new());
    if !plan.peers.contains(&Peer::Tollhouse) {
        println!("nothing to measure without tollhouse");
        return Ok(result);
    }
    let sizes: &[u64] = if plan.is_quick { &QUICK_SIZES } else { &SIZES };
    let mut beside = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let measured = calls::run(plan, *size);
        let measured = measured.with_context(|| format!("with {size} instances"))?;
        result.figures.extend(measured.figures);
        result.tables.push(measured.table);
        if index == 0 {
            beside = measured.samples;
        }
    }
    result.figures.extend(published::ratios(&beside));
    result.tables.extend(published::tables(&beside));
    result.figures.extend(calls::one_at_a_time(plan).context("one call at a time")?);
    result.figures.extend(converge::run(plan).context("convergence")?);
    result.figures.extend(storm::run(plan).context("the storm of heartbeats")?);
    Ok(result)
}
