//! Rules for open and closed loops: the meaning of the times, and whether the schedule was kept.

use super::view::{Session, titles};
use super::{Findings, Severity};
use crate::case::Case;
use crate::report::figure;
use crate::result::CaseResult;

/// Ratio of completed to requested rate below which the schedule was not kept.
const KEPT_MIN: f64 = 0.95;
/// Share of unsent requests above which the distribution is too incomplete to be quoted.
const UNSENT_INVALID: f64 = 0.01;
/// Delay after the intended start that exceeds a timer tick.
const SLIP_NS: u64 = 1_000_000;

/// Notes that the times of a closed loop are response times at saturation, not latency.
pub(super) fn closed_loop(session: &Session<'_>, findings: &mut Findings) {
    let closed = titles(session.results().filter(|result| {
        let paused = result.case.as_ref().is_some_and(|case| case.protocol() == TCP);
        !result.open_loop && !result.headline().is_empty() && !paused
    }));
    if !closed.is_empty() {
        findings.overall(
            "closed-loop",
            Severity::Note,
            format!(
                "Closed loop ({}): a slow answer delays the requests behind it, and their wait is not \
                 counted. These times are response times at saturation, not latency; for latency ask for a \
                 fixed rate below the maximum (--rate).",
                session.called(&closed),
            ),
        );
    }
}

/// TCP, for which the closed-loop note is left out, because connecting has no schedule.
const TCP: crate::case::Protocol = crate::case::Protocol::Tcp;

/// Checks that open-loop runs reached their rate.
pub(super) fn rate_kept(session: &Session<'_>, findings: &mut Findings) {
    let mut unstated = Vec::new();
    for result in session.results().filter(|result| result.open_loop) {
        match result.intended_rate.filter(|rate| *rate > 0.0) {
            Some(intended) => one_rate(result, intended, findings),
            None => unstated.push(result),
        }
    }
    if !unstated.is_empty() {
        findings.overall(
            "rate-kept",
            Severity::Caution,
            format!(
                "The rate asked for is not stated ({}). If the rates are what the target could do at \
                 most, the times are those of a queue, not of the target; state the rate asked for, and \
                 measure latency below the maximum.",
                session.called(&titles(unstated)),
            ),
        );
    }
}

fn one_rate(result: &CaseResult, intended: f64, findings: &mut Findings) {
    let unsent = result.counts.unsent;
    let due = result.counts.completed + unsent + result.counts.unfinished;
    let unsent_share = unsent as f64 / due.max(1) as f64;
    let kept = result.rate / intended;
    if unsent == 0 && kept >= KEPT_MIN {
        return;
    }
    let severity =
        if unsent_share > UNSENT_INVALID { Severity::Invalid } else { Severity::Caution };
    findings.about(
        result,
        "rate-kept",
        severity,
        format!(
            "{} requests/s were due, {} were completed ({}); {} were never sent. The target, or the \
             generator, does not carry this rate: times grow with the length of the run. Ask for less, \
             or give it more connections.",
            figure::rate(intended),
            figure::rate(result.rate),
            figure::percent(kept),
            figure::count(unsent),
        ),
    );
}

/// If requests left late, reports the times from the intended start and from the actual sending
/// side by side.
pub(super) fn slip(session: &Session<'_>, findings: &mut Findings) {
    for result in session.results() {
        let (Some(slip), Some(latency)) = (&result.slip, &result.latency) else { continue };
        let late_ns = slip.percentile_ns(99.0).unwrap_or(0);
        if late_ns <= SLIP_NS {
            continue;
        }
        let p99 = |times: &crate::distribution::Distribution| {
            times.percentile_ns(99.0).map_or("not known".into(), |ns| figure::time(ns as f64))
        };
        findings.about(
            result,
            "schedule-slip",
            Severity::Caution,
            format!(
                "1 of 100 requests left {} or more after they were due (at most {}): p99 is {} from the \
                 intended start, {} from the sending. Quote the first, and show both; {}.",
                figure::time(late_ns as f64),
                figure::time(slip.max_ns as f64),
                p99(latency),
                p99(&result.response_time),
                remedy(result, late_ns),
            ),
        );
    }
}

/// Names the cause of late requests: the generator's event loop, or a lack of free connections.
fn remedy(result: &CaseResult, late_ns: u64) -> &'static str {
    let lanes = result.case.as_ref().map_or(0, |case: &Case| case.load.connections);
    match result.loop_delay_ns > late_ns / 2 {
        true => "the generator's own loop was late too, so give it more cores or less rate",
        false if lanes > 0 => {
            "all connections were waiting for answers, so more of them would tell the target's delay \
             from theirs"
        }
        false => "say which of generator and target was late",
    }
}
