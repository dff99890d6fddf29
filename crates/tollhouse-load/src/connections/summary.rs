//! Builds the result of a run from the reports of its processes and the samples.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use crate::case::{Case, Protocol};
use crate::connections::costs;
use crate::connections::message::{Done, Loss, Tally};
use crate::connections::plan::Plan;
use crate::distribution::Distribution;
use crate::pace::Pace;
use crate::report::figure;
use crate::result::{
    CaseResult, Counts, End, FirstError, Held, HeldPoint, Interval, KernelSeries, ProcessSeries,
};

pub(super) struct Seen<'a> {
    pub(super) plan: &'a Plan,
    pub(super) url: String,
    pub(super) destinations: Vec<SocketAddr>,
    pub(super) started_at: SystemTime,
    pub(super) elapsed: Duration,
    pub(super) ramp: Duration,
    pub(super) ending: End,
    /// Counts of the holders while all connections were open.
    pub(super) tally: Tally,
    pub(super) server_error: Option<FirstError>,
    pub(super) max: u64,
    pub(super) points: Vec<HeldPoint>,
    pub(super) holders: u64,
    pub(super) done: Vec<Done>,
    pub(super) processes: Vec<ProcessSeries>,
    pub(super) kernel: KernelSeries,
}

pub(super) fn result(seen: Seen<'_>) -> CaseResult {
    let (plan, tally) = (seen.plan, &seen.tally);
    let merged = |of: fn(&Done) -> &Distribution| {
        seen.done.iter().fold(Distribution::default(), |sum, done| sum.merged(of(done)))
    };
    let costs = costs::costs(&seen.processes, &seen.kernel, tally.open);
    let seconds = seen.ramp.as_secs_f64();
    let opened_rate = if seconds > 0.0 { tally.established as f64 / seconds } else { 0.0 };
    let named = |counts: &BTreeMap<Loss, u64>| -> BTreeMap<String, u64> {
        counts.iter().map(|(loss, count)| (loss.as_str().to_owned(), *count)).collect()
    };
    let mut extra: BTreeMap<String, f64> = costs
        .iter()
        .map(|cost| (format!("{}_bytes_per_connection", cost.role), cost.each_bytes))
        .collect();
    extra.insert("connections_wanted".into(), plan.connections as f64);
    extra.insert("connections_max".into(), seen.max as f64);
    extra.insert("connections_at_end".into(), tally.open as f64);
    let mut missed = Vec::new();
    if tally.open < plan.connections && seen.ending == End::Completed {
        missed.push(format!("held == {}: {}", plan.connections, tally.open));
    }
    CaseResult {
        name: format!("{} connections", figure::count(plan.connections)),
        subject: destination_text(&seen.destinations),
        repetition: 1,
        case: Some(case(plan, &seen.url)),
        started_at_ms: unix_ms(seen.started_at),
        elapsed_ns: nanoseconds(seen.elapsed),
        end: seen.ending,
        concurrency: plan.connections,
        workers: seen.holders,
        open_loop: true,
        intended_rate: Some(plan.rate),
        rate: opened_rate,
        goodput: opened_rate,
        counts: Counts {
            completed: tally.established + tally.failures(),
            succeeded: tally.established,
            failed: tally.failures(),
            failures: named(&tally.failed),
            connections_opened: tally.established,
            ..Counts::default()
        },
        connect: merged(|done| &done.connect),
        response_time: merged(|done| &done.ping),
        series: intervals(&seen.points),
        missed_thresholds: missed,
        extra,
        held: Some(Held {
            wanted: plan.connections,
            max: seen.max,
            at_end: tally.open,
            ramp_ns: nanoseconds(seen.ramp),
            held_ns: nanoseconds(seen.elapsed.saturating_sub(seen.ramp)),
            processes: seen.holders,
            gave_up: tally.gave_up,
            failed: named(&tally.failed),
            lost: named(&tally.lost),
            // An error of the server end is the likely cause of the errors at the holders.
            first_error: seen.server_error.or_else(|| tally.first_error.clone()),
            pings: tally.pings,
            pings_failed: tally.pings_failed,
            costs,
            points: seen.points,
        }),
        processes: seen.processes,
        kernel: Some(seen.kernel),
        ..CaseResult::default()
    }
}

/// Describes the run as a case, as far as possible.
fn case(plan: &Plan, url: &str) -> Case {
    let mut case = Case::new(url);
    case.protocol = Some(Protocol::Tcp);
    case.load.connections = usize::try_from(plan.connections).unwrap_or(usize::MAX);
    case.load.pace = Pace::Rate(plan.rate);
    case.load.duration = Some(plan.hold);
    case.load.timeout = plan.timeout;
    case
}

/// Describes the destinations: `127.0.0.1:9080`, or the first one and the number of further ports.
fn destination_text(destinations: &[SocketAddr]) -> String {
    match destinations {
        [] => String::new(),
        [one] => one.to_string(),
        [first, ..] => format!("{} and {} more ports", first, destinations.len() - 1),
    }
}

/// Converts the points to intervals, the form that all charts accept.
fn intervals(points: &[HeldPoint]) -> Vec<Interval> {
    let mut last = HeldPoint::default();
    let mut intervals = Vec::with_capacity(points.len());
    for point in points {
        let failed = point.failed.saturating_sub(last.failed);
        intervals.push(Interval {
            at_ns: point.at_ns,
            span_ns: point.at_ns.saturating_sub(last.at_ns),
            completed: point.established.saturating_sub(last.established) + failed,
            failed,
            connections: point.open,
            ..Interval::default()
        });
        last = *point;
    }
    intervals
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn unix_ms(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_become_intervals_of_what_happened_between_them() {
        let point = |at_ns, established, failed| HeldPoint {
            at_ns,
            open: established,
            established,
            failed,
            ..HeldPoint::default()
        };
        let intervals = intervals(&[point(500, 10, 0), point(1_500, 30, 5)]);
        let seen: Vec<(u64, u64, u64, u64)> = intervals
            .iter()
            .map(|one| (one.span_ns, one.completed, one.failed, one.connections))
            .collect();
        assert_eq!(seen, [(500, 10, 0, 10), (1_000, 25, 5, 30)]);
    }

    #[test]
    fn many_ports_are_told_by_the_first_and_their_number() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(destination_text(&[at(80)]), "127.0.0.1:80");
        assert_eq!(destination_text(&[at(80), at(81)]), "127.0.0.1:80 and 1 more ports");
    }
}
