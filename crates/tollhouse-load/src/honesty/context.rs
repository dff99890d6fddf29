//! Checks the context of the figures: resource cost, environment, gaps in tables.

use super::generator::GENERATOR;
use super::view::{Session, elapsed_seconds, sample_count, titles};
use super::{Findings, Severity};
use crate::report::Report;
use crate::result::CaseResult;

/// Checks resource cost, environment, and the gaps of tables.
pub(super) fn context(session: &Session<'_>, findings: &mut Findings) {
    cost(session, findings);
    let is_measured = session.measured().next().is_some();
    if is_measured {
        environment(session.report, findings);
    }
    unknown(session, findings);
}

/// Checks that CPU and memory of the target were measured.
fn cost(session: &Session<'_>, findings: &mut Findings) {
    let has_cost = |result: &CaseResult| {
        result
            .processes
            .iter()
            .any(|process| process.role != GENERATOR && process.rss_bytes_max > 0)
    };
    let measured = session.measured().map(|(result, _)| result);
    let missing = titles(measured.filter(|result| !has_cost(result)));
    if !missing.is_empty() {
        findings.overall(
            "resource-cost",
            Severity::Note,
            format!(
                "CPU and memory of the target are not known ({}), which sizing needs beside the \
                 throughput. Watch its process (--watch port:…), on its own machine if need be.",
                session.called(&missing),
            ),
        );
    }
    // Reported separately: the figures exist but hide short peaks.
    let coarse = titles(session.results().filter(|result| is_sampled_too_seldom(result)));
    if !coarse.is_empty() {
        findings.overall(
            "resource-cost",
            Severity::Note,
            format!(
                "Processes were sampled less than once a second ({}): short peaks of memory are missed.",
                session.called(&coarse),
            ),
        );
    }
}

fn is_sampled_too_seldom(result: &CaseResult) -> bool {
    let seconds = elapsed_seconds(result).unwrap_or(0.0).floor();
    let seldom = |count: usize| seconds >= 2.0 && (count as f64) < 0.8 * seconds;
    result.processes.iter().any(|process| seldom(process.samples.len()))
}

/// Checks that the report holds everything needed to repeat the measurement.
fn environment(report: &Report, findings: &mut Findings) {
    let environment = &report.environment;
    let lacks_limit = |name: &str| !environment.limits.contains_key(name);
    let gaps = [
        ("the command", report.command.is_empty()),
        ("CPU model", environment.cpu.is_empty()),
        ("kernel", environment.kernel.is_empty()),
        ("versions", environment.versions.is_empty()),
        ("limits (nofile, somaxconn)", lacks_limit("nofile") || lacks_limit("somaxconn")),
    ];
    let missing: Vec<&str> =
        gaps.into_iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| name).collect();
    if !missing.is_empty() {
        findings.overall(
            "environment",
            Severity::Note,
            format!(
                "Not recorded: {}. The measurement cannot be repeated without them; publish them with it.",
                missing.join(", "),
            ),
        );
    }
}

/// Reports the information that a table lacks, once for all of its rows.
fn unknown(session: &Session<'_>, findings: &mut Findings) {
    let tables: Vec<&CaseResult> =
        session.results().filter(|result| result.case.is_none()).collect();
    if tables.is_empty() {
        return;
    }
    let none = |known: fn(&CaseResult) -> bool| !tables.iter().any(|result| known(result));
    let gaps = [
        ("how many requests failed", none(|it| it.counts.succeeded + it.counts.failed > 0)),
        ("connections", none(|it| it.concurrency > 0)),
        ("length", none(|it| elapsed_seconds(it).is_some())),
        ("number of samples", none(|it| sample_count(it).is_some())),
        ("mean", none(|it| it.headline().mean_ns > 0.0)),
        ("maximum", none(|it| it.headline().max_ns > 0)),
        ("the rest of the distribution", none(|it| !it.headline().values.is_empty())),
        // Tables never report their warm-up or whether responses were checked.
        ("warm-up", true),
        ("repetitions", none(|it| it.repetition > 1)),
        ("payload checks", true),
        ("load on the generator", none(|it| !it.processes.is_empty())),
        ("CPU and memory of the target", none(has_cost_figures)),
        ("kernel and limits", session.report.environment.kernel.is_empty()),
    ];
    let missing: Vec<&str> =
        gaps.into_iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| name).collect();
    findings.overall(
        "unknown",
        Severity::Note,
        format!(
            "These figures come from a table, which leaves out: {}. What depends on them could not be checked.",
            missing.join(", "),
        ),
    );
}

fn has_cost_figures(result: &CaseResult) -> bool {
    !result.processes.is_empty() || result.extra.keys().any(|name| name.contains("cpu"))
}
