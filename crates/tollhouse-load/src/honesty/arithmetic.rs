//! Detects impossible figures: figures that contradict each other or arithmetic.

use super::view::{Session, elapsed_seconds};
use super::{Findings, Severity};
use crate::pace::Pace;
use crate::report::figure;
use crate::result::CaseResult;

/// Deviation from Little's law above which a closed loop has lost connections or times.
const LITTLE_INVALID: f64 = 0.10;
/// Deviation that is worth a note.
const LITTLE_NOTE: f64 = 0.05;
/// Time the generator itself may need between a response and the next request of a connection. No
/// request time includes it, and with very short responses it is significant.
const BETWEEN_REQUESTS_NS: f64 = 20_000.0;
/// Tolerance for rounding in tables: percentiles that differ by less than the last of three digits
/// count as equal.
const ROUNDING: f64 = 0.001;

/// Checks Little's law. In a closed loop each connection is always waiting for a response, so that
/// connections = requests per second × mean time.
pub(super) fn littles_law(session: &Session<'_>, findings: &mut Findings) {
    for result in session.results() {
        let concurrency = result.concurrency as f64;
        if result.open_loop || result.concurrency == 0 || result.rate <= 0.0 {
            continue;
        }
        if result.response_time.mean_ns > 0.0 {
            busy_connections(result, concurrency, findings);
        } else {
            implied_mean(result, concurrency, findings);
        }
    }
}

fn busy_connections(result: &CaseResult, concurrency: f64, findings: &mut Findings) {
    let cycle_ns = result.response_time.mean_ns + pauses_ns(result);
    let busy = answers_a_second(result) * cycle_ns / 1e9;
    let off = (busy - concurrency).abs() / concurrency;
    let gap_ns = concurrency * 1e9 / result.rate - cycle_ns;
    // Requests in flight at the end of a short run are not counted.
    let cut_off = elapsed_seconds(result).map_or(0.0, |seconds| cycle_ns / 1e9 / seconds);
    if off <= LITTLE_NOTE + cut_off || gap_ns.abs() <= BETWEEN_REQUESTS_NS {
        return;
    }
    let severity = if off > LITTLE_INVALID + cut_off { Severity::Invalid } else { Severity::Note };
    let product = format!(
        "{} requests/s × {} mean = {} connections at work, but {} were open",
        figure::rate(answers_a_second(result)),
        figure::time(cycle_ns),
        figure::rate(busy),
        figure::count(result.concurrency),
    );
    let meaning = match (busy < concurrency, result.counts.failed) {
        (true, 0) => format!(
            "{} of them are unaccounted for. Count failures, look for connections that stalled in a \
             listen queue, and do not quote these times until they are found",
            figure::percent(off),
        ),
        (true, failed) => format!(
            "{} of them are unaccounted for; {} failed requests kept connections busy and are \
             excluded from the times. Remove the failures and measure again",
            figure::percent(off),
            figure::count(failed),
        ),
        (false, _) => format!(
            "{} more than there are: times were corrected afterwards or counted twice. Use times as \
             they were recorded",
            figure::percent(off),
        ),
    };
    findings.about(result, "littles-law", severity, format!("{product}; {meaning}."));
}

/// Checks a result without a mean: the mean that Little's law implies must be below the p99.
fn implied_mean(result: &CaseResult, concurrency: f64, findings: &mut Findings) {
    let implied_ns = concurrency * 1e9 / result.rate;
    let Some(p99_ns) = result.response_time.percentile_ns(99.0) else { return };
    if implied_ns > p99_ns as f64 * (1.0 + ROUNDING) {
        findings.about(
            result,
            "littles-law",
            Severity::Invalid,
            format!(
                "{} connections at {} requests/s imply a mean of {}, above the p99 of {}: rate or \
                 percentiles are not of this run. Measure the case again.",
                figure::count(result.concurrency),
                figure::rate(result.rate),
                figure::time(implied_ns),
                figure::time(p99_ns as f64),
            ),
        );
    }
}

/// Returns the time a connection spends per request other than waiting for the response: think time
/// and connecting.
fn pauses_ns(result: &CaseResult) -> f64 {
    let think_ns = match result.case.as_ref().map(|case| case.load.pace) {
        Some(Pace::Think(pause)) => pause.as_nanos() as f64,
        _ => 0.0,
    };
    let completed = result.counts.completed.max(1) as f64;
    think_ns + result.connect.mean_ns * result.connect.count as f64 / completed
}

/// Returns the rate that matches the mean: of successes if they are counted, otherwise of all
/// requests.
fn answers_a_second(result: &CaseResult) -> f64 {
    if result.counts.succeeded > 0 { result.goodput } else { result.rate }
}

/// Checks that the percentiles rise, and that no figure exceeds the maximum.
pub(super) fn order(session: &Session<'_>, findings: &mut Findings) {
    for result in session.results() {
        let wrong = disorder(result);
        if wrong.is_empty() {
            continue;
        }
        findings.about(
            result,
            "order",
            Severity::Invalid,
            format!(
                "{}: not the figures of one run. Take them from the raw data again.",
                wrong.join("; "),
            ),
        );
    }
}

fn disorder(result: &CaseResult) -> Vec<String> {
    let times = result.headline();
    let shown = |nanoseconds: u64| figure::time(nanoseconds as f64);
    let mut wrong = Vec::new();
    for pair in times.percentiles.windows(2) {
        let ((lower, low_ns), (higher, high_ns)) = (pair[0], pair[1]);
        if low_ns > high_ns {
            wrong.push(format!("p{lower} {} > p{higher} {}", shown(low_ns), shown(high_ns)));
        }
    }
    let last = times.percentiles.last();
    // A table without a maximum has 0 there, which must not be compared.
    if let Some((percent, value_ns)) = last.filter(|_| times.max_ns > 0)
        && above(*value_ns as f64, times.max_ns as f64)
    {
        wrong.push(format!("p{percent} {} > max {}", shown(*value_ns), shown(times.max_ns)));
    }
    if times.max_ns > 0 && above(times.mean_ns, times.max_ns as f64) {
        wrong.push(format!("mean {} > max {}", figure::time(times.mean_ns), shown(times.max_ns)));
    } else if let Some(bound) = mean_bound_ns(result)
        && above(times.mean_ns, bound.1)
    {
        wrong.push(format!(
            "mean {} > p99 {}, which with a maximum of {} cannot be",
            figure::time(times.mean_ns),
            figure::time(bound.0),
            shown(times.max_ns),
        ));
    }
    wrong
}

/// Whether a figure exceeds another by more than rounding.
fn above(value: f64, bound: f64) -> bool {
    value > bound * (1.0 + ROUNDING)
}

/// Returns the p99 and the highest mean it allows: 99 of 100 requests at the p99, the last at the
/// maximum.
fn mean_bound_ns(result: &CaseResult) -> Option<(f64, f64)> {
    let times = result.headline();
    let p99_ns = times.percentile_ns(99.0)? as f64;
    let bound_ns = 0.99 * p99_ns + 0.01 * times.max_ns as f64;
    (times.max_ns > 0).then_some((p99_ns, bound_ns))
}
