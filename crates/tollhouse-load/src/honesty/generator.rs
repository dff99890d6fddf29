//! Whether the generator measured the target or itself.

use super::view::{Session, elapsed_seconds, names, title};
use super::{Findings, Severity};
use crate::case::Case;
use crate::report::figure;
use crate::result::{CaseResult, ProcessSeries};

/// The role of the generator's own process.
pub(super) const GENERATOR: &str = "generator";
/// Above this share of its cores the generator limits what is measured.
const BUSY_MAX: f64 = 0.80;
/// Above this share of the machine's cores everybody waits for a core.
const MACHINE_BUSY_MAX: f64 = 0.95;
/// A loop that looks at its sockets later than this adds to the times it measures.
const LOOP_DELAY_NS: u64 = 1_000_000;
/// Such a delay shows in the higher percentiles.
const LOOP_DELAY_LONG_NS: u64 = 10_000_000;

/// The generator has cores to spare, and does not take them from the target.
pub(super) fn busy(session: &Session<'_>, findings: &mut Findings) {
    let cores = session.report.environment.cores;
    let mut shared = Vec::new();
    for (result, case) in session.measured() {
        let Some(seconds) = elapsed_seconds(result) else { continue };
        let process = result.processes.iter().find(|process| process.role == GENERATOR);
        let used = process.map(|process| process.cpu_seconds() / seconds);
        own_cores(result, used, cores, findings);
        if is_on_this_machine(result, case) {
            shared.push(title(result));
            machine(result, seconds, cores, findings);
        }
    }
    shared.dedup();
    if !shared.is_empty() {
        let of_cores = if cores > 0 { format!("{cores} ") } else { String::new() };
        findings.overall(
            "shared-machine",
            Severity::Note,
            format!(
                "Generator and target shared the {of_cores}cores of one machine ({}): the more one uses, \
                 the less the other has. Prefer separate machines, or pin them to different cores.",
                session.called(&shared),
            ),
        );
    }
}

fn own_cores(result: &CaseResult, used: Option<f64>, cores: u64, findings: &mut Findings) {
    let Some(used) = used else { return };
    let workers = result.workers.max(1);
    let own = if cores > 0 { workers.min(cores) } else { workers } as f64;
    if used > BUSY_MAX * own {
        findings.about(
            result,
            "generator-busy",
            Severity::Caution,
            format!(
                "The generator used {} of its {} cores ({}): it may be the limit, and its own delays are \
                 in the times. Give it more cores or less rate.",
                figure::rate(used),
                own,
                figure::percent(used / own),
            ),
        );
    }
}

/// Whether the target ran beside the generator: it was watched here, or its address is of this machine.
fn is_on_this_machine(result: &CaseResult, case: &Case) -> bool {
    const LOOPBACKS: [&str; 4] = ["127.", "localhost", "[::1]", "unix:"];
    let is_loopback = |address: &str| LOOPBACKS.iter().any(|prefix| address.starts_with(prefix));
    let authority = case.target.split_once("://").map_or(case.target.as_str(), |(_, rest)| rest);
    is_loopback(case.connect_to.as_deref().unwrap_or(authority))
        || result.processes.iter().any(|process| process.role != GENERATOR)
}

fn machine(result: &CaseResult, seconds: f64, cores: u64, findings: &mut Findings) {
    let watched: f64 =
        result.processes.iter().map(ProcessSeries::cpu_seconds).sum::<f64>() / seconds;
    let whole = result.kernel.as_ref().map(|kernel| &kernel.cpu_cores).filter(|it| !it.is_empty());
    let used = whole.map_or(watched, |samples| samples.iter().sum::<f64>() / samples.len() as f64);
    if cores > 0 && used > MACHINE_BUSY_MAX * cores as f64 {
        findings.about(
            result,
            "machine-busy",
            Severity::Caution,
            format!(
                "{} of the machine's {cores} cores were in use, generator included: times hold waiting \
                 for a core. Use a lower rate, or separate machines.",
                figure::rate(used),
            ),
        );
    }
}

/// The generator's own loop looks at its sockets in time.
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
