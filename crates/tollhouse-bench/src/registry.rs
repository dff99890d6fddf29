//! Case of the registry: latency of a durable call, delay until a change is visible, and cost of a
//! storm of heartbeats. The cost of its calls under the load of the published report is measured by
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

use super::budget::Figure;
use super::case::Case;
use super::plan::Plan;
use super::report::CaseResult;
use anyhow::{Context, Result};

/// Part of the case with its own registry; returns its figures.
type Part = fn(&Plan) -> Result<Vec<Figure>>;

pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let parts: [(_, Part); 3] = [
        ("one call at a time", durable::run),
        ("convergence", converge::run),
        ("the storm of heartbeats", storm::run),
    ];
    let mut figures = Vec::new();
    for (what, part) in parts {
        figures.extend(part(plan).context(what)?);
    }
    Ok(CaseResult::new(Case::Registry, Vec::new(), figures))
}
