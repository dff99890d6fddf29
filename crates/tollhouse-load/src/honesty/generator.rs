//! Checks that the generator was not the bottleneck.

use std::collections::BTreeSet;

use super::view::{Session, elapsed_seconds, names, title};
use super::{Findings, Severity};
use crate::case::Case;
use crate::report::figure;
use crate::result::{CaseResult, ProcessSeries};

/// Role name of the generator's own process.
pub(super) const GENERATOR: &str = "generator";
/// Share of its cores above which the generator limits the measurement.
const BUSY_MAX: f64 = 0.80;
/// Role name of the measured process.
const TARGET: &str = "target";
/// Share of use, of the cores available to the generator, above which processes there wait for a
/// core.
const CORES_BUSY_MAX: f64 = 0.95;
/// Delay of the event loop above which it adds to the measured times.
const LOOP_DELAY_NS: u64 = 1_000_000;
/// Delay of the event loop that shows in the higher percentiles.
const LOOP_DELAY_LONG_NS: u64 = 10_000_000;

/// Checks that the generator had spare cores and did not take cores from the target.
pub(super) fn busy(session: &Session<'_>, findings: &mut Findings) {
    let machine = session.report.environment.cores as usize;
    let mut shared = Vec::new();
    let mut apart = Vec::new();
    for (result, case) in session.measured() {
        let Some(seconds) = elapsed_seconds(result) else { continue };
        let cores = cores_of(result, GENERATOR);
        own_cores(result, seconds, cores.as_ref().map_or(machine, BTreeSet::len), findings);
        if is_on_this_machine(result, case) {
            let is_apart = are_apart(result, cores.as_ref());
            if is_apart { &mut apart } else { &mut shared }.push(title(result));
            busy_cores(result, seconds, cores.as_ref(), machine, findings);
        }
    }
    // Repetitions of a case are adjacent.
    shared.dedup();
    apart.dedup();
    for (titles, how, remedy) in [
        (
            shared,
            "shared the cores of one machine: the more one uses, the less the other has",
            "Prefer separate machines, or pin them to different cores.",
        ),
        (
            apart,
            "ran on one machine, on cores of their own: memory and kernel are still shared",
            "Separate machines give clearer figures.",
        ),
    ] {
        if !titles.is_empty() {
            findings.overall(
                "shared-machine",
                Severity::Note,
                format!("Generator and target {how} ({}). {remedy}", session.called(&titles)),
            );
        }
    }
}

fn own_cores(result: &CaseResult, seconds: f64, cores: usize, findings: &mut Findings) {
    let process = result.processes.iter().find(|process| process.role == GENERATOR);
    let Some(used) = process.map(|process| process.cpu_seconds() / seconds) else { return };
    let workers = result.workers.max(1) as usize;
    let own = if cores > 0 { workers.min(cores) } else { workers };
    if used > BUSY_MAX * own as f64 {
        findings.about(
            result,
            "generator-busy",
            Severity::Caution,
            format!(
                "The generator used {} of its cores ({} of {own}): it may be the limit, and its own delays \
                 are in the times. Give it more cores or less rate.",
                figure::percent(used / own as f64),
                figure::rate(used),
            ),
        );
    }
}

/// Whether the target ran on the generator's machine: it was sampled here, or its address is a
/// loopback address.
fn is_on_this_machine(result: &CaseResult, case: &Case) -> bool {
    const LOOPBACKS: [&str; 4] = ["127.", "localhost", "[::1]", "unix:"];
    let is_loopback = |address: &str| LOOPBACKS.iter().any(|prefix| address.starts_with(prefix));
    let authority = case.target.split_once("://").map_or(case.target.as_str(), |(_, rest)| rest);
    is_loopback(case.connect_to.as_deref().unwrap_or(authority))
        || result.processes.iter().any(|process| process.role != GENERATOR)
}

/// Whether the target is known to have used none of the generator's cores.
fn are_apart(result: &CaseResult, generator: Option<&Cores>) -> bool {
    match (generator, cores_of(result, TARGET)) {
        (Some(generator), Some(target)) => generator.is_disjoint(&target),
        _ => false,
    }
}

/// Checks that all processes on the generator's cores together leave it enough room to be on time.
fn busy_cores(
    result: &CaseResult,
    seconds: f64,
    generator: Option<&Cores>,
    machine: usize,
    findings: &mut Findings,
) {
    let meets = |process: &&ProcessSeries| match (generator, core_list(&process.cores)) {
        (Some(generator), Some(cores)) => !generator.is_disjoint(&cores),
        _ => true,
    };
    let watched =
        result.processes.iter().filter(meets).map(ProcessSeries::cpu_seconds).sum::<f64>();
    let mut used = watched / seconds;
    let cores = generator.map_or(machine, BTreeSet::len);
    // The kernel counts all processes, but only for all cores together.
    let whole = result.kernel.as_ref().map_or(&[][..], |kernel| &kernel.cpu_cores);
    if cores == machine && !whole.is_empty() {
        used = whole.iter().sum::<f64>() / whole.len() as f64;
    }
    if cores > 0 && used > CORES_BUSY_MAX * cores as f64 {
        findings.about(
            result,
            "cores-busy",
            Severity::Caution,
            format!(
                "{} of the {cores} cores that the generator may use were in use, by it and its neighbours: \
                 latencies include waiting for CPU. Use a lower rate, or separate machines.",
                figure::rate(used),
            ),
        );
    }
}

type Cores = BTreeSet<usize>;

/// Returns the cores on which a role's process may run, if known.
fn cores_of(result: &CaseResult, role: &str) -> Option<Cores> {
    let process = result.processes.iter().find(|process| process.role == role)?;
    core_list(&process.cores)
}

/// Parses the kernel's list of cores, such as `0-3,8`.
fn core_list(text: &str) -> Option<Cores> {
    /// Maximum number of cores in a list, more than any machine has; a longer list is invalid.
    const CORES_MAX: usize = 8_192;
    let mut cores = Cores::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse::<usize>().ok()?);
        if last >= CORES_MAX {
            return None;
        }
        cores.extend(first..=last);
    }
    (!cores.is_empty()).then_some(cores)
}

/// Checks that the generator's event loop polled its sockets in time.
pub(super) fn loop_delay(session: &Session<'_>, findings: &mut Findings) {
    let late = |result: &&CaseResult| result.loop_delay_ns > LOOP_DELAY_NS;
    let shown = |result: &CaseResult| {
        format!("{} in {}", figure::time(result.loop_delay_ns as f64), title(result))
    };
    let results: Vec<&CaseResult> = session.results().filter(late).collect();
    let longest = results.iter().map(|result| result.loop_delay_ns).max().unwrap_or(0);
    if !results.is_empty() {
        let severity =
            if longest > LOOP_DELAY_LONG_NS { Severity::Caution } else { Severity::Note };
        let shown: Vec<String> = results.into_iter().map(shown).collect();
        findings.overall(
            "loop-delay",
            severity,
            format!(
                "The generator's loop was late by {} at the worst: as much of the longest times may be its \
                 own. Give it a core of its own, or less rate.",
                names(&shown),
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        for (text, expected) in [
            ("0", Some(vec![0])),
            ("0-3,8", Some(vec![0, 1, 2, 3, 8])),
            ("", None),
            ("a", None),
            ("3-", None),
            ("0-4000000000", None),
        ] {
            assert_eq!(
                core_list(text),
                expected.map(|cores| cores.into_iter().collect()),
                "{text}"
            );
        }
    }
}
