//! Rules that one changed run of the session shows.

use super::*;
use crate::pace::Ramp;
use crate::result::{End, KernelSeries};

/// What a rule says about one changed run.
enum Says {
    Nothing,
    Note(&'static str),
    /// A caution with this in it.
    Caution(&'static str),
    /// That the figure is invalid, with this in it.
    Invalid(&'static str),
}
use Says::{Caution, Invalid, Note, Nothing};

/// The rule, whether the loop is closed, what is done to the fifth run (a gateway's), what is then said.
type Row = (&'static str, Loop, fn(&mut CaseResult), Says);

enum Loop {
    Open,
    Closed,
}
use Loop::{Closed, Open};

fn check(rows: &[Row]) {
    for (index, (rule, of, change, says)) in rows.iter().enumerate() {
        let mut report = session(match of {
            Open => run,
            Closed => closed,
        });
        change(&mut report.results[4]);
        let raised = of_rule(&report, rule);
        let (severity, piece) = match says {
            Nothing => {
                assert!(raised.is_empty(), "row {index}, {rule}: {raised:?}");
                continue;
            }
            Note(piece) => (Severity::Note, piece),
            Caution(piece) => (Severity::Caution, piece),
            Invalid(piece) => (Severity::Invalid, piece),
        };
        let [warning] = raised.as_slice() else { panic!("row {index}, {rule}: {raised:?}") };
        assert_eq!(warning.severity, severity, "row {index}, {rule}: {}", warning.message);
        assert!(warning.message.contains(piece), "row {index}, {piece}: {}", warning.message);
        assert!(warning.message.ends_with('.'), "{}", warning.message);
    }
}

#[test]
fn connections_are_rate_times_mean() {
    const RULE: &str = "littles-law";
    check(&[
        (RULE, Closed, |_| {}, Nothing),
        (
            RULE,
            Closed,
            |run| run.concurrency = 21,
            Note("= 19.79 connections at work, but 21 were"),
        ),
        (RULE, Closed, |run| run.concurrency = 30, Invalid("34.0 % of them are unaccounted for")),
        (RULE, Closed, |run| run.concurrency = 15, Invalid("31.9 % more than there are")),
        // In an open loop connections may rest.
        (RULE, Open, |run| run.concurrency = 400, Nothing),
        // A pause is no time of an answer, but of the connection.
        (
            RULE,
            Closed,
            |run| {
                load(run).pace = Pace::Think(Duration::from_millis(2));
                run.concurrency = 40;
            },
            Nothing,
        ),
        // So is connecting, without keep-alive.
        (
            RULE,
            Closed,
            |run| {
                run.connect =
                    Distribution { count: 600_000, mean_ns: 1e6, ..Distribution::default() };
                run.concurrency = 30;
            },
            Nothing,
        ),
        // A generator's own microseconds beside very short answers.
        (
            RULE,
            Closed,
            |run| {
                run.concurrency = 1;
                run.response_time.mean_ns = 85_000.0;
            },
            Nothing,
        ),
        // Failures explain where the rest of the connections was.
        (
            RULE,
            Closed,
            |run| {
                run.counts.failed = 1_000;
                run.concurrency = 30;
            },
            Invalid("1,000 failed requests kept connections busy"),
        ),
        // What is under way at the end of a short run is in no count.
        (
            RULE,
            Closed,
            |run| {
                run.elapsed_ns = 20_000_000;
                run.concurrency = 22;
            },
            Nothing,
        ),
    ]);
}

#[test]
fn figures_are_in_order() {
    const RULE: &str = "order";
    fn times(run: &mut CaseResult) -> &mut Distribution {
        run.latency.as_mut().expect("open")
    }
    check(&[
        (RULE, Open, |run| times(run).percentiles = vec![(90.0, 46), (95.0, 46)], Nothing),
        (
            RULE,
            Open,
            |run| times(run).percentiles = vec![(90.0, 46_000_000), (95.0, 28_000_000)],
            Invalid("p90 46.00 ms > p95 28.00 ms; p95 28.00 ms > max"),
        ),
        (RULE, Open, |run| times(run).mean_ns = 5e6, Invalid("mean 5.000 ms > max 2.5")),
        // A mean above p99 needs a few very long times; 1 of 100 at most.
        (
            RULE,
            Open,
            |run| {
                *times(run) = Distribution {
                    mean_ns: 5e6,
                    max_ns: 1_000_000_000,
                    percentiles: vec![(99.0, 2_000_000)],
                    ..Distribution::default()
                };
            },
            Nothing,
        ),
        (
            RULE,
            Open,
            |run| {
                *times(run) = Distribution {
                    mean_ns: 5e6,
                    max_ns: 100_000_000,
                    percentiles: vec![(99.0, 2_000_000)],
                    ..Distribution::default()
                };
            },
            Invalid("mean 5.000 ms > p99 2.000 ms"),
        ),
    ]);
}

#[test]
fn a_case_lasts_long_enough() {
    const RULE: &str = "duration";
    check(&[
        (RULE, Open, |run| run.elapsed_ns = 300_000_000, Invalid("Lasted 300.0 ms")),
        (RULE, Open, |run| run.elapsed_ns = 10_000_000_000, Nothing),
        (
            RULE,
            Open,
            |run| {
                run.elapsed_ns = 10_000_000_000;
                run.latency = Some(super::times(50_000));
            },
            Caution("10.00 s, 50,000 samples"),
        ),
        (RULE, Open, |run| run.latency = Some(super::times(50_000)), Nothing),
        ("interrupted", Open, |run| run.end = End::Interrupted, Caution("after 60.00 s")),
        ("unfinished", Closed, |run| run.counts.unfinished = 20, Nothing),
        ("unfinished", Closed, |run| run.counts.unfinished = 7_000, Note("cut off at the end")),
    ]);
}

#[test]
fn percentiles_have_samples_beyond_them() {
    const RULE: &str = "samples-beyond";
    fn threshold(run: &mut CaseResult, text: &str) {
        let thresholds = &mut run.case.as_mut().expect("measured").thresholds;
        thresholds.push(text.parse().expect("a threshold"));
    }
    check(&[
        (RULE, Open, |run| run.latency = Some(super::times(10_000)), Nothing),
        (RULE, Open, |run| run.latency = Some(super::times(9_000)), Note("(90)")),
        (
            RULE,
            Open,
            |run| {
                run.latency.as_mut().expect("open").count = 500;
            },
            Caution("p99 rests on 5.000 of 500 samples"),
        ),
        (RULE, Open, |run| threshold(run, "p99.9 < 50ms"), Nothing),
        (
            RULE,
            Open,
            |run| {
                threshold(run, "p99.999 < 50ms");
            },
            Caution("p99.999 rests on 6.000 of 600,000 samples"),
        ),
        (RULE, Open, |run| threshold(run, "p100 < 1s"), Nothing),
    ]);
}

#[test]
fn a_schedule_is_kept() {
    check(&[
        ("rate-kept", Open, |run| run.rate = 9_600.0, Nothing),
        ("rate-kept", Open, |run| run.rate = 9_000.0, Caution("9,000 were completed (90.0 %)")),
        ("rate-kept", Open, |run| run.counts.unsent = 10, Caution("10 were never sent")),
        ("rate-kept", Open, |run| run.counts.unsent = 60_000, Invalid("60,000 were never sent")),
        ("rate-kept", Open, |run| run.intended_rate = None, Caution("asked for is not stated")),
        ("rate-kept", Closed, |run| run.rate = 9_000.0, Nothing),
        (
            "schedule-slip",
            Open,
            |run| run.slip.as_mut().expect("open").percentiles = vec![(99.0, 900_000)],
            Nothing,
        ),
        (
            "schedule-slip",
            Open,
            |run| run.slip.as_mut().expect("open").percentiles = vec![(99.0, 800_000_000)],
            Caution("more of them would tell the target's delay from theirs"),
        ),
        (
            "schedule-slip",
            Open,
            |run| {
                run.slip.as_mut().expect("open").percentiles = vec![(99.0, 8_000_000)];
                run.loop_delay_ns = 9_000_000;
            },
            Caution("left 8.000 ms or more after they were due (at most 400.0 µs)"),
        ),
        ("closed-loop", Open, |_| {}, Nothing),
        ("closed-loop", Closed, |_| {}, Note("not latency")),
    ]);
}

#[test]
fn failures_stand_beside_the_rate() {
    const RULE: &str = "failures";
    fn fail(run: &mut CaseResult, class: &str, failed: u64) {
        run.counts.failed = failed;
        run.counts.failures = [(class.to_owned(), failed)].into();
    }
    check(&[
        (RULE, Open, |_| {}, Nothing),
        (
            RULE,
            Open,
            |run| fail(run, "timeout", 60),
            Note("60 of 600,000 requests failed (0.010 %: timeout 60)"),
        ),
        (RULE, Open, |run| fail(run, "reset", 12_000), Caution("(2.0 %: reset 12,000)")),
        (RULE, Open, |run| fail(run, "status", 300_000), Invalid("50.0 %")),
        (RULE, Open, |run| fail(run, "check", 60), Note("of status 200 among them")),
    ]);
}

#[test]
fn somebody_looks_at_what_comes_back() {
    const RULE: &str = "payload";
    check(&[
        (RULE, Open, |run| checks(run).body_bytes = None, Note("No check looks at the body")),
        (
            RULE,
            Open,
            |run| {
                checks(run).body_bytes = None;
                run.counts.body_bytes /= 2;
            },
            Caution("1,024 bytes on average, the first was 2,048"),
        ),
        (
            RULE,
            Open,
            |run| {
                checks(run).body_bytes = None;
                checks(run).body_contains = Some("ok".into());
            },
            Nothing,
        ),
        (
            RULE,
            Open,
            |run| {
                checks(run).body_bytes = None;
                run.case.as_mut().expect("measured").http.method = "HEAD".into();
            },
            Nothing,
        ),
        (
            RULE,
            Open,
            |run| {
                run.counts.statuses.insert("302".into(), 7);
            },
            Caution("7 answers were redirects"),
        ),
        (
            RULE,
            Open,
            |run| {
                run.counts.statuses.insert("302".into(), 7);
                checks(run).status = vec![200, 302];
            },
            Nothing,
        ),
    ]);
}

#[test]
fn the_generator_is_not_the_limit() {
    check(&[
        ("generator-busy", Open, |run| run.processes[0].user_seconds = 95.0, Nothing),
        (
            "generator-busy",
            Open,
            |run| run.processes[0].user_seconds = 105.0,
            Caution("used 87.5 % of its cores (1.750 of 2)"),
        ),
        ("cores-busy", Open, |run| run.processes[1].user_seconds = 190.0, Nothing),
        (
            "cores-busy",
            Open,
            |run| run.processes[1].user_seconds = 205.0,
            Caution("3.917 of the 4 cores"),
        ),
        (
            "cores-busy",
            Open,
            |run| {
                let cpu_cores = vec![4.0, 3.9, 3.9];
                run.kernel = Some(KernelSeries { cpu_cores, ..KernelSeries::default() });
            },
            Caution("3.933 of the 4 cores"),
        ),
        // On cores of its own only its neighbours there matter.
        (
            "cores-busy",
            Open,
            |run| {
                run.processes[0].cores = "0-1".into();
                run.processes[1].cores = "2-3".into();
                run.processes[1].user_seconds = 120.0;
            },
            Nothing,
        ),
        (
            "cores-busy",
            Open,
            |run| {
                run.processes[0].cores = "0-1".into();
                run.processes[1].cores = "0-3".into();
                run.processes[1].user_seconds = 100.0;
            },
            Caution("2.167 of the 2 cores"),
        ),
        (
            "generator-busy",
            Open,
            |run| {
                run.processes[0].cores = "0".into();
                run.processes[0].user_seconds = 55.0;
            },
            Caution("91.7 % of its cores (0.917 of 1)"),
        ),
        ("loop-delay", Open, |run| run.loop_delay_ns = 1_000_000, Nothing),
        ("loop-delay", Open, |run| run.loop_delay_ns = 3_000_000, Note("late by 3.000 ms")),
        ("loop-delay", Open, |run| run.loop_delay_ns = 30_000_000, Caution("late by 30.00 ms")),
    ]);
}

#[test]
fn a_run_is_steady() {
    fn rise(run: &mut CaseResult) {
        for (index, interval) in run.series.iter_mut().enumerate() {
            interval.p50_ns += index as u64 * 20_000;
        }
    }
    check(&[
        ("steady", Open, rise, Caution("p50 rises from 2.4")),
        (
            "steady",
            Closed,
            |run| {
                for (index, interval) in run.series.iter_mut().enumerate() {
                    interval.completed -= index as u64 * 50;
                }
            },
            Caution("the rate falls from 9,"),
        ),
        // A first third that is still warming up is what warm-up is for.
        (
            "steady",
            Closed,
            |run| run.series[..20].iter_mut().for_each(|interval| interval.completed /= 2),
            Nothing,
        ),
        // A short rest at the end is no fall.
        (
            "steady",
            Closed,
            |run| {
                let at_ns = SECONDS * 1_000_000_000 + 1_000_000;
                let span_ns = 1_000_000;
                run.series.push(Interval { at_ns, span_ns, ..Interval::default() });
            },
            Nothing,
        ),
        // A load that is asked to rise may.
        (
            "steady",
            Open,
            |run| {
                rise(run);
                let over = Duration::from_secs(SECONDS);
                load(run).pace = Pace::Ramp(Ramp { from: 1.0, to: 2.0 * RATE, over });
            },
            Nothing,
        ),
        // Too few intervals tell nothing.
        (
            "steady",
            Open,
            |run| {
                rise(run);
                run.series.truncate(10);
            },
            Nothing,
        ),
        ("warm-up", Open, |run| load(run).warm_up = Duration::ZERO, Note("tollhouse / 10,000/s")),
    ]);
}

#[test]
fn cost_and_environment_are_recorded() {
    check(&[
        ("resource-cost", Open, |run| run.processes.truncate(1), Note("tollhouse / 10,000/s")),
        (
            "resource-cost",
            Open,
            |run| run.processes[1].samples.truncate(30),
            Note("less than once"),
        ),
    ]);
    let mut report = session(run);
    report.command.clear();
    report.environment.kernel.clear();
    report.environment.limits.remove("nofile");
    let raised = of_rule(&report, "environment");
    let expected = "Not recorded: the command, kernel, limits (nofile, somaxconn).";
    assert!(raised[0].message.starts_with(expected), "{raised:?}");
    // A table has none of it, and says so once.
    let table = Report { results: vec![CaseResult::default()], ..Report::default() };
    let rules: Vec<String> = evaluate(&table).into_iter().map(|it| it.rule).collect();
    assert_eq!(rules, ["unknown"]);
}
