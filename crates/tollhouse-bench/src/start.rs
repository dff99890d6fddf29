//! Start-up time of a proxy: from the start of the process to the first answer of the last of
//! 10,000 routes.

use super::budget::{self, Figure};
use super::case::{BODY_BYTES, Case};
use super::measure::median;
use super::origin;
use super::peer::Peer;
use super::plan::Plan;
use super::report::CaseResult;
use anyhow::Result;

const ROUTES: usize = 10_000;
/// Number of starts per round, because a single start depends too much on the page cache.
const STARTS_PER_ROUND: usize = 3;

/// Runs the case for every peer that supports the number of routes.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let origin = origin::start(plan, BODY_BYTES)?;
    let mut figures = Vec::new();
    for peer in plan.peers.iter().copied().filter(|peer| peer.can_hold(ROUTES)) {
        let mut times_ms = Vec::new();
        for _ in 0..plan.rounds * STARTS_PER_ROUND {
            let proxy = peer.start(plan, origin.port, ROUTES)?;
            times_ms.push(proxy.start_time.as_secs_f64() * 1e3);
        }
        let what = format!("{}: start to first answer, ms", peer.name());
        figures.push(match peer {
            Peer::Tollhouse => Figure::with_budget(what, median(times_ms), budget::START_MS),
            _ => Figure::free(what, median(times_ms)),
        });
    }
    Ok(CaseResult::new(Case::Start, Vec::new(), figures))
}
