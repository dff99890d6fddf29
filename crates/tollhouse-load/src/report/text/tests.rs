//! Reports as text, compared with files: the whole text, so that a change of one line is seen in its
//! surroundings.

use super::*;
use crate::case::Case;
use crate::distribution::histogram;
use crate::result::{Counts, ProcessSeries};

fn recorded(count: u64, step_ns: u64) -> Distribution {
    let mut histogram = histogram();
    for number in 1..=count {
        histogram.saturating_record(number * step_ns);
    }
    Distribution::from_histogram(&histogram)
}

fn closed() -> CaseResult {
    let mut case = Case::new("http://127.0.0.1:9080/");
    case.load.warm_up = std::time::Duration::from_secs(3);
    case.thresholds = ["p99 < 50ms", "failures < 1"].map(|text| text.parse().expect(text)).to_vec();
    CaseResult {
        name: "600 connections".into(),
        subject: "tollhouse".into(),
        repetition: 1,
        case: Some(case),
        elapsed_ns: 30_000_000_000,
        concurrency: 600,
        workers: 2,
        rate: 100.0,
        goodput: 99.9,
        counts: Counts {
            completed: 3_000,
            succeeded: 2_997,
            failed: 3,
            failures: [("timeout".to_owned(), 2), ("status".to_owned(), 1)].into(),
            messages: [("no whole answer within 10s".to_owned(), 2), ("503".to_owned(), 1)].into(),
            statuses: [("200".to_owned(), 2_997), ("503".to_owned(), 1)].into(),
            connections_opened: 602,
            reused: 2_400,
            sent_bytes: 120_000,
            received_bytes: 6_600_000,
            body_bytes: 6_137_856,
            ..Counts::default()
        },
        response_time: recorded(2_997, 10_000),
        first_byte: recorded(2_997, 9_000),
        processes: vec![ProcessSeries {
            role: "target".into(),
            user_seconds: 1.0,
            system_seconds: 2.0,
            rss_bytes_max: 64 << 20,
            ..ProcessSeries::default()
        }],
        missed_thresholds: vec!["failures < 1: 3".into()],
        ..CaseResult::default()
    }
}

fn open() -> CaseResult {
    CaseResult {
        open_loop: true,
        intended_rate: Some(2_000.0),
        latency: Some(recorded(20_000, 1_000)),
        response_time: recorded(20_000, 500),
        slip: Some(recorded(20_000, 100)),
        missed_thresholds: Vec::new(),
        processes: Vec::new(),
        case: None,
        name: "2000/s".into(),
        counts: Counts { completed: 20_000, succeeded: 20_000, unsent: 12, ..Counts::default() },
        ..closed()
    }
}

fn report(results: Vec<CaseResult>) -> Report {
    let warning = |severity, rule: &str, message: &str| Warning {
        rule: rule.into(),
        severity,
        about: "tollhouse, 600 connections".into(),
        message: message.into(),
    };
    let warnings = vec![
        warning(Severity::Note, "repetition", "One run; at least 3 tell a difference from chance."),
        warning(
            Severity::Invalid,
            "littles-law",
            "600 connections, but 100.0/s × 15.0 ms accounts for 2 of them: the others stood still or \
             failed, and the times leave them out.",
        ),
    ];
    Report { title: "shenyu".into(), results, warnings, ..Report::default() }
}

/// Shows the whole text where it differs: that is what the file would have to hold.
fn golden(text: &str, expected: &str) {
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn a_closed_loop_is_printed_in_full() {
    golden(
        &render(&report(vec![closed()]), Paint::Plain, Detail::Full),
        include_str!("testdata/closed.txt"),
    );
}

#[test]
fn an_open_loop_shows_corrected_beside_uncorrected() {
    golden(
        &render(&report(vec![open()]), Paint::Plain, Detail::Full),
        include_str!("testdata/open.txt"),
    );
}

#[test]
fn several_results_are_a_table() {
    let again = CaseResult { repetition: 2, end: End::Interrupted, ..closed() };
    let text = render(&report(vec![closed(), again, open()]), Paint::Plain, Detail::Full);
    golden(&text, include_str!("testdata/several.txt"));
}

#[test]
fn warnings_in_brief_take_three_lines_at_most() {
    let text = render(&report(vec![open()]), Paint::Plain, Detail::Brief);
    let expected = "

1 invalid figure, 1 note (--verbose shows them)
  INVALID  tollhouse, 600 connections: 600 connections, but 100.0/s × 15.0 ms …
";
    assert!(text.ends_with(expected), "{text}");
    let mut many = report(vec![open()]);
    many.warnings = std::iter::repeat_n(many.warnings[1].clone(), 9).collect();
    let text = render(&many, Paint::Plain, Detail::Brief);
    let at = text.find("9 invalid figures").expect("the number");
    assert_eq!(text[at..].lines().count(), 3, "{text}");
}

#[test]
fn an_empty_report_says_so() {
    let text = render(&Report::default(), Paint::Plain, Detail::Full);
    assert_eq!(text, "tollhouse bench\n\nNo case was measured.\n");
}

#[test]
fn the_rate_that_was_asked_for_is_printed_not_what_a_short_run_planned() {
    let mut case = Case::new("http://127.0.0.1:1");
    case.load.pace = crate::pace::Pace::Rate(500.0);
    let result = CaseResult { case: Some(case), intended_rate: Some(500.2), ..open() };
    let text = render_case(&result, Paint::Plain).join("\n");
    assert!(text.contains("open loop at 500.0/s") || text.contains("open loop at 500/s"), "{text}");
}

#[test]
fn one_of_something_is_singular_and_lengths_have_few_digits() {
    let counts = Counts { connections_opened: 1, reused: 1, ..closed().counts };
    let result = CaseResult { elapsed_ns: 8_000_000_000, concurrency: 1, counts, ..closed() };
    let text = render_case(&result, Paint::Plain).join("\n");
    for part in
        ["closed loop, 1 connection,", "1 connection; 1 request reused one", "measured 8.0 s "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_the_upstream_used_is_no_cost_of_the_target() {
    let mut result = closed();
    let upstream =
        ProcessSeries { role: "upstream".into(), user_seconds: 9.0, ..ProcessSeries::default() };
    result.processes.push(upstream);
    assert_eq!(cpu_per_thousand(&result).as_deref(), Some("1.001"));
}

#[test]
fn a_suite_with_peers_says_how_much_more_it_answers_than_each() {
    let of =
        |subject: &str, goodput: f64| CaseResult { subject: subject.into(), goodput, ..closed() };
    let results = vec![
        of("direct", 400.0),
        of("tollhouse", 120.0),
        of("tollhouse, cached", 300.0),
        of("nginx", 100.0),
        of("haproxy", 150.0),
    ];
    let text = render(&report(results), Paint::Plain, Detail::Full);
    assert!(text.contains("\n  600 connections: 1.20 × nginx, 0.80 × haproxy\n"), "{text}");
    assert_eq!(text.matches(" × ").count() - text.matches("/s × ").count(), 2, "{text}");
    let verdict = "
Verdict
  Tollhouse is faster than nginx in the only case (+20 %); p99 lower in 0 of 1.
    A single run shows no variance: treat as indicative.
  Tollhouse is slower than haproxy in the only case (−20 %); p99 lower in 0 of
  1.
    A single run shows no variance: treat as indicative.
";
    assert!(text.ends_with(verdict), "{text}");
}

#[test]
fn a_verdict_on_runs_enough_may_be_quoted() {
    let of = |subject: &str, goodput: f64, repetition| CaseResult {
        subject: subject.into(),
        goodput,
        repetition,
        ..closed()
    };
    let runs = (1..=3).flat_map(|run| [of("tollhouse", 120.0, run), of("nginx", 100.0, run)]);
    let report = Report { warnings: Vec::new(), ..report(runs.collect()) };
    let text = render(&report, Paint::Plain, Detail::Full);
    let sentence = "Tollhouse is faster than nginx in the only case (+20 %)";
    assert!(text.contains(sentence) && text.ends_with("\n    May be quoted.\n"), "{text}");
}

#[test]
fn no_line_of_a_warning_is_wider_than_a_terminal() {
    let text = render(&report(vec![closed()]), Paint::Plain, Detail::Full);
    let warnings = text.split("Warnings").nth(1).expect("there are warnings");
    assert!(warnings.lines().all(|line| line.chars().count() <= WIDTH), "{warnings}");
}

#[test]
fn of_two_bounds_the_one_that_ended_it_is_told() {
    let bounded = |requests: u64| {
        let mut case = Case::new("http://127.0.0.1:1");
        case.load.requests = Some(requests);
        case.load.duration = Some(std::time::Duration::from_secs(10));
        let result = CaseResult { case: Some(case), ..closed() };
        render_case(&result, Paint::Plain).join("\n")
    };
    assert!(bounded(3_000).contains(", then the bound of 3,000 requests was reached"));
    assert!(bounded(1_000_000).contains(", then the bound of 10s was reached"));
    assert!(!render_case(&closed(), Paint::Plain).join("\n").contains("bound"));
}
