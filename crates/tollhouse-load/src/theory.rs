//! Compares the engine's schedule and record with theory, in virtual time: a server stalls for a
//! second while requests are due. Without sockets or clock; lanes are a heap of instants.
//!
//! The expected histograms are computed request by request, and once more with HdrHistogram's own
//! correction. The engine must agree within 1 %.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::case::Load;
use crate::distribution::histogram;
use crate::pace::Pace;
use crate::protocol::{Marks, Reply};
use crate::record::{Finished, Record, Samples};
use crate::schedule::Schedule;

const MS: u64 = 1_000_000;
/// Response time of the server outside the stall: half of the interval between two requests, so
/// that none is in flight when the stall begins.
const SERVICE_NS: u64 = MS / 2;
/// Start and duration of the stall.
const STALL_FROM_NS: u64 = 5_000 * MS;
const STALL_NS: u64 = 1_000 * MS;
/// Duration of the simulated load.
const LENGTH: Duration = Duration::from_secs(10);
/// Requests per second, in an open loop.
const RATE: u64 = 1_000;

/// Returns the instant of the response to a request sent at an instant.
fn answered_ns(sent_ns: u64) -> u64 {
    let end_ns = STALL_FROM_NS + STALL_NS;
    let awake = |at_ns: u64| {
        if (STALL_FROM_NS..end_ns).contains(&at_ns) { end_ns } else { at_ns }
    };
    awake(awake(sent_ns) + SERVICE_NS)
}

/// Simulates lanes with the engine's schedule and record, in virtual time.
fn simulate(pace: Pace, lanes: usize) -> Record {
    let load = Load { connections: lanes, pace, duration: Some(LENGTH), ..Load::default() };
    let schedule = Schedule::new(&load);
    schedule.begin(0);
    let mut record = Record::new(&pace, Samples::Dropped);
    let mut free: BinaryHeap<Reverse<u64>> = (0..lanes).map(|_| Reverse(0)).collect();
    while let Some(Reverse(now_ns)) = free.pop() {
        let Some(turn) = schedule.measured().claim(now_ns) else { continue };
        let sent_ns = turn.intended_ns.unwrap_or(now_ns).max(now_ns);
        let done_ns = answered_ns(sent_ns);
        let marks = Marks { sent_ns, first_byte_ns: done_ns, ..Marks::default() };
        let outcome = Ok(Reply { status: 200, body_bytes: 0 });
        record.finished(&Finished { turn, marks: &marks, outcome: &outcome, done_ns });
        free.push(Reverse(done_ns));
    }
    record
}

/// Returns the latencies by theory: a request due during the stall waits for the rest of the stall,
/// one second for the first request and none for the last; all other requests take the response
/// time.
fn by_hand() -> Histogram<u64> {
    let mut expected = histogram();
    let interval_ns = 1_000_000_000 / RATE;
    for number in 0..RATE * LENGTH.as_secs() {
        let due_ns = number * interval_ns;
        let is_in_stall = (STALL_FROM_NS..STALL_FROM_NS + STALL_NS).contains(&due_ns);
        let rest_ns = if is_in_stall { STALL_FROM_NS + STALL_NS - due_ns } else { 0 };
        expected.saturating_record(rest_ns + SERVICE_NS);
    }
    expected
}

/// Asserts that percentiles and mean agree within 1 %.
fn assert_agree(seen: &Histogram<u64>, expected: &Histogram<u64>, what: &str) {
    assert_eq!(seen.len(), expected.len(), "{what}");
    for percent in [10.0, 50.0, 90.0, 91.0, 95.0, 99.0, 99.9, 99.99, 100.0] {
        let of = |histogram: &Histogram<u64>| histogram.value_at_quantile(percent / 100.0) as f64;
        let (seen, expected) = (of(seen), of(expected));
        assert!(
            (seen / expected - 1.0).abs() < 0.01,
            "{what}, p{percent}: {} ms, expected {} ms",
            seen / 1e6,
            expected / 1e6,
        );
    }
    let (seen, expected) = (seen.mean(), expected.mean());
    assert!((seen / expected - 1.0).abs() < 0.01, "{what}, mean: {seen}, expected {expected}");
}

#[test]
fn in_an_open_loop_a_stall_shows_as_theory_predicts() {
    // Enough lanes for every request to leave when it is due.
    let record = simulate(Pace::Rate(RATE as f64), 1_200);
    assert_agree(&record.interval, &by_hand(), "corrected");
    assert_agree(&record.times.response, &by_hand(), "from sending");
    assert_eq!(record.times.slip.max(), 0);
}

#[test]
fn few_connections_change_when_requests_leave_but_not_their_latency() {
    // The backlog of a thousand requests leaves through 200 lanes in five rounds.
    let record = simulate(Pace::Rate(RATE as f64), 200);
    let corrected = &record.interval;
    let expected = by_hand();
    for percent in [50.0, 90.0, 95.0, 99.0, 99.9] {
        let of = |histogram: &Histogram<u64>| histogram.value_at_quantile(percent / 100.0) as f64;
        // The last requests have four rounds before them.
        let apart_ns = (of(corrected) - of(&expected)).abs();
        assert!(apart_ns <= 0.01 * of(&expected) + 5.0 * SERVICE_NS as f64, "p{percent}");
    }
    // Measured from sending, 800 of the 1000 delayed requests look normal.
    let fine = record.times.response.count_between(0, 6 * MS);
    assert_eq!(fine, RATE * LENGTH.as_secs() - 200);
}

#[test]
fn one_connection_agrees_with_the_correction_of_hdrhistogram() {
    // At this rate one lane is busy a quarter of the time, and the backlog is gone after a third of
    // a second.
    let rate = 500;
    let record = simulate(Pace::Rate(rate as f64), 1);
    let mut uncorrected = histogram();
    let mut corrected = histogram();
    let interval_ns = 1_000_000_000 / rate;
    let mut free_ns = 0;
    for number in 0..rate * LENGTH.as_secs() {
        let due_ns = number * interval_ns;
        let sent_ns = due_ns.max(free_ns);
        free_ns = answered_ns(sent_ns);
        uncorrected.saturating_record(free_ns - sent_ns);
        corrected.saturating_record(free_ns - due_ns);
    }
    assert_agree(&record.interval, &corrected, "corrected");
    assert_agree(&record.times.response, &uncorrected, "from sending");
    // HdrHistogram's correction adds the requests that one stalled request prevented. It does not
    // model the queue of the backlog, so that it is compared where that queue is short.
    let filled = uncorrected.clone_correct(interval_ns);
    let longest = |histogram: &Histogram<u64>| histogram.value_at_quantile(0.999) as f64;
    assert!((longest(&record.interval) / longest(&filled) - 1.0).abs() < 0.01);
    // Without correction, only one of 5000 samples shows the stall.
    assert_eq!(record.times.response.count_between(2 * MS, 2_000 * MS), 1);
}

#[test]
fn a_closed_loop_hides_the_stall() {
    let lanes = 10;
    let record = simulate(Pace::Closed, lanes);
    let times = &record.interval;
    // Nine seconds with twenty responses per millisecond, and one long response per lane.
    assert!(times.len() > 179_000, "{}", times.len());
    assert_eq!(times.count_between(2 * MS, 2_000 * MS), lanes as u64);
    for quantile in [0.5, 0.99, 0.9999] {
        assert!(times.value_at_quantile(quantile) < 2 * MS, "{quantile}");
    }
    // In the open loop the same stall affects 1 of 10 requests.
    let open = simulate(Pace::Rate(RATE as f64), 1_200);
    assert!(open.interval.value_at_quantile(0.99) > 890 * MS);
}
