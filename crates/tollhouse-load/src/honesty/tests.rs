//! Every rule, on a session that nothing is to be said about and one thing changed.

mod runs;
mod sessions;

use std::sync::LazyLock;
use std::time::Duration;

use super::*;
use crate::case::Case;
use crate::distribution::{Distribution, histogram};
use crate::pace::Pace;
use crate::result::{Counts, Interval, ProcessSeries, ResourceSample};

const RATE: f64 = 10_000.0;
const SECONDS: u64 = 60;
const MEAN_NS: u64 = 2_000_000;

/// Times around 2 ms, so many.
fn times(count: u64) -> Distribution {
    let mut histogram = histogram();
    for step in 0..1_000 {
        histogram.saturating_record_n(MEAN_NS - 500_000 + step * 1_000, count / 1_000);
    }
    Distribution::from_histogram(&histogram)
}

/// The times of a whole run; made once, since every row of every table takes eighteen of them.
static TIMES: LazyLock<Distribution> = LazyLock::new(|| times(RATE as u64 * SECONDS));

fn process(role: &str, cpu_seconds: f64) -> ProcessSeries {
    let samples = (1..=SECONDS * 2)
        .map(|half| ResourceSample { at_ns: half * 500_000_000, ..ResourceSample::default() });
    ProcessSeries {
        role: role.into(),
        user_seconds: cpu_seconds,
        rss_bytes_max: 30_000_000,
        samples: samples.collect(),
        ..ProcessSeries::default()
    }
}

fn series() -> Vec<Interval> {
    let interval = |second: u64| Interval {
        at_ns: second * 1_000_000_000,
        span_ns: 1_000_000_000,
        // Up and down by 2 %, and no trend.
        completed: 10_000 + if second.is_multiple_of(2) { 100 } else { 0 },
        p50_ns: MEAN_NS + if second.is_multiple_of(3) { 40_000 } else { 0 },
        ..Interval::default()
    };
    (1..=SECONDS).map(interval).collect()
}

fn case() -> Case {
    let mut case = Case::new("http://10.0.0.2:9080/api");
    case.load.connections = 40;
    case.load.pace = Pace::Rate(RATE);
    case.load.warm_up = Duration::from_secs(5);
    case.load.duration = Some(Duration::from_secs(SECONDS));
    case.checks.body_bytes = Some(2_048);
    case
}

/// A run in an open loop that nothing is to be said about.
fn run(subject: &str, repetition: u32) -> CaseResult {
    let completed = RATE as u64 * SECONDS;
    CaseResult {
        name: "10,000/s".into(),
        subject: subject.into(),
        repetition,
        case: Some(case()),
        elapsed_ns: SECONDS * 1_000_000_000,
        concurrency: 40,
        workers: 2,
        open_loop: true,
        intended_rate: Some(RATE),
        rate: RATE,
        goodput: RATE,
        counts: Counts {
            completed,
            succeeded: completed,
            statuses: [("200".to_owned(), completed)].into(),
            connections_opened: 40,
            reused: completed,
            body_bytes: completed * 2_048,
            first_body_bytes: 2_048,
            ..Counts::default()
        },
        response_time: TIMES.clone(),
        latency: Some(TIMES.clone()),
        slip: Some(Distribution {
            count: completed,
            max_ns: 400_000,
            percentiles: vec![(99.0, 60_000)],
            ..Distribution::default()
        }),
        loop_delay_ns: 300_000,
        series: series(),
        processes: vec![process("generator", 30.0), process("target", 40.0)],
        ..CaseResult::default()
    }
}

/// The same in a closed loop: 20 connections × 2 ms = 10,000/s.
fn closed(subject: &str, repetition: u32) -> CaseResult {
    let mut run = run(subject, repetition);
    run.open_loop = false;
    run.intended_rate = None;
    run.latency = None;
    run.slip = None;
    run.concurrency = 20;
    let case = run.case.as_mut().expect("measured");
    case.load.pace = Pace::Closed;
    case.load.connections = 20;
    run
}

/// A session that nothing is to be said about, but that it ran on one machine.
fn session(run: fn(&str, u32) -> CaseResult) -> Report {
    let mut report = Report {
        command: vec!["tollhouse".into(), "bench".into()],
        suite: Some("shenyu".into()),
        ..Report::default()
    };
    let environment = &mut report.environment;
    environment.cpu = "a CPU".into();
    environment.kernel = "Linux 6.1".into();
    environment.cores = 4;
    environment.versions.insert("tollhouse".into(), "0.1.0".into());
    for limit in ["nofile", "somaxconn"] {
        environment.limits.insert(limit.into(), "4096".into());
    }
    for repetition in 1..=3 {
        report.results.push(run("direct", repetition));
    }
    for repetition in 1..=3 {
        let mut through = run("tollhouse", repetition);
        // Its runs are told from the direct ones.
        through.rate -= 100.0 + f64::from(repetition);
        through.goodput = through.rate;
        report.results.push(through);
    }
    for repetition in 4..=6 {
        report.results.push(run("direct", repetition));
    }
    report
}

fn of_rule(report: &Report, rule: &str) -> Vec<Warning> {
    evaluate(report).into_iter().filter(|warning| warning.rule == rule).collect()
}

#[test]
fn a_careful_session_is_told_only_that_it_ran_on_one_machine() {
    let rules = |report| evaluate(&report).into_iter().map(|it| it.rule).collect::<Vec<_>>();
    assert_eq!(rules(session(run)), ["shared-machine"]);
    assert_eq!(rules(session(closed)), ["shared-machine", "closed-loop"]);
    assert!(evaluate(&Report::default()).is_empty());
}

#[test]
fn the_gravest_come_first() {
    let mut report = session(closed);
    report.results[4].response_time.percentiles = vec![(50.0, 9_000_000), (99.0, 8_000_000)];
    report.results[5].counts.failed = 60;
    let weights: Vec<Severity> = evaluate(&report).into_iter().map(|it| it.severity).collect();
    assert!(weights.is_sorted_by(|left, right| left >= right), "{weights:?}");
    assert_eq!(weights[0], Severity::Invalid);
}

fn load(run: &mut CaseResult) -> &mut crate::case::Load {
    &mut run.case.as_mut().expect("measured").load
}

fn checks(run: &mut CaseResult) -> &mut crate::case::Checks {
    &mut run.case.as_mut().expect("measured").checks
}
