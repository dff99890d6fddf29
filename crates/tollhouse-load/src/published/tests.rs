//! Tests of the published tables: every figure as it was printed, and which rules of honesty each table
//! breaks.

use super::*;
use crate::honesty;
use crate::report::{Severity, Warning};

/// Rule, about, and a piece of the message.
type Expected = (&'static str, &'static str, &'static str);

/// Every warning that is no note, in the order in which they are raised; nothing else may be.
fn check(report: &Report, expected: &[Expected]) {
    let warnings = honesty::evaluate(report);
    let grave: Vec<&Warning> =
        warnings.iter().filter(|warning| warning.severity > Severity::Note).collect();
    let raised: Vec<_> = grave.iter().map(|it| (it.rule.as_str(), it.about.as_str())).collect();
    let wanted: Vec<_> = expected.iter().map(|(rule, about, _)| (*rule, *about)).collect();
    assert_eq!(raised, wanted);
    for (warning, (.., piece)) in grave.iter().zip(expected) {
        assert!(warning.message.contains(piece), "{piece:?} is not in {:?}", warning.message);
    }
}

fn notes(report: &Report) -> Vec<String> {
    let warnings = honesty::evaluate(report).into_iter();
    warnings.filter(|it| it.severity == Severity::Note).map(|it| it.rule).collect()
}

#[test]
fn shenyu_lost_connections_and_was_faster_than_its_backend() {
    let report = shenyu();
    check(
        &report,
        &[
            ("littles-law", "netty / 600 connections", "= 452.2 connections at work, but 600 were"),
            ("littles-law", "netty / 800 connections", "= 540.6 connections at work, but 800 were"),
            ("littles-law", "netty / 1000 connections", "= 654.6 connections at work, but 1,000"),
            ("littles-law", "netty / 1200 connections", "= 740.8 connections at work, but 1,200"),
            ("littles-law", "webClient / 600 connections", "= 378.8 connections at work, but 600"),
            ("littles-law", "webClient / 800 connections", "= 440.4 connections at work"),
            ("littles-law", "webClient / 1000 connections", "= 490.8 connections at work"),
            ("littles-law", "webClient / 1200 connections", "= 543.5 connections at work"),
            ("below-direct", "webClient / 600 connections", "p50 is 15.77 ms < 19.81 ms"),
            ("below-direct", "webClient / 800 connections", "p50 is 18.12 ms < 19.81 ms"),
            ("below-direct", "netty / 600 connections", "p50 is 19.37 ms < 19.81 ms"),
        ],
    );
    assert_eq!(notes(&report), ["closed-loop", "unknown"]);
}

#[test]
fn the_english_table_of_shenyu_has_more_requests_at_work_than_connections() {
    let report = shenyu_english();
    check(&report, &[]);
    let rules = ["littles-law", "littles-law", "littles-law", "closed-loop", "unknown"];
    assert_eq!(notes(&report), rules);
}

#[test]
fn ngxway_has_percentiles_out_of_order_and_an_outlier_for_a_headline() {
    let report = ngxway();
    let short = |about| ("duration", about, "Measure for 30 s");
    check(
        &report,
        &[
            ("littles-law", "ngxway / -n 100000 -c 1200", "34.26 ms, above the p99 of 33.00 ms"),
            ("order", "ngxway / -n 100000 -c 1024", "p90 46.00 ms > p95 28.00 ms"),
            ("order", "ngxway / -n 100000 -c 1200", "p90 53.00 ms > p95 28.00 ms"),
            short("ngxway / -n 10000 -c 32"),
            short("ngxway / -n 10000 -c 64"),
            short("ngxway / -n 10000 -c 128"),
            short("ngxway / -n 10000 -c 256"),
            short("ngxway / -n 10000 -c 512"),
            short("ngxway / -n 10000 -c 1024"),
            short("ngxway / -n 10000 -c 1200"),
            ("headline", "ngxway / -n 100000 -c 128", "36.2 % above both of its neighbours"),
        ],
    );
    assert_eq!(notes(&report), ["baseline", "closed-loop", "unknown"]);
}

#[test]
fn api7_does_not_say_which_rate_was_asked_for() {
    let report = api7();
    check(&report, &[("rate-kept", "", "The rate asked for is not stated (all 8 cases)")]);
    assert_eq!(notes(&report), ["baseline", "unknown"]);
}

#[test]
fn polaris_has_means_and_percentiles_above_maxima_and_copied_cells() {
    let report = polaris();
    check(
        &report,
        &[
            (
                "order",
                "Polaris / heartbeat 2C4G",
                "p99 492.3 ms > max 342.6 ms; mean 421.7 ms > max",
            ),
            ("order", "Polaris / deregister 2C4G", "mean 448.2 ms > p99 391.1 ms"),
            (
                "repeated-figures",
                "",
                "492.3 ms is the p99 of Polaris / register 2C4G and the p99 of",
            ),
        ],
    );
    assert_eq!(notes(&report), ["closed-loop", "unknown"]);
}

#[test]
fn published_rows_beside_a_measurement_say_where_they_come_from() {
    for (suite, count, subject) in [
        ("shenyu", 9, "ShenYu 2.6.0 direct, published"),
        ("ngxway", 14, "ngxway, published"),
        ("api7", 8, "API7, published"),
        ("polaris", 20, "Polaris, published"),
        ("connections", 0, ""),
    ] {
        let rows = rows(suite);
        assert_eq!(rows.len(), count);
        assert_eq!(rows.first().map_or("", |row| &row.subject), subject);
    }
}

#[test]
fn their_doubts_are_one_note_a_rule_when_they_stand_beside_a_measurement() {
    let report = Report { published: rows("ngxway"), ..Report::default() };
    let warnings = honesty::evaluate(&report);
    let rules: Vec<_> = warnings.iter().map(|it| (it.rule.as_str(), it.severity)).collect();
    assert_eq!(rules, [("published", Severity::Note); 3]);
    assert!(warnings[1].message.contains("p90 46.00 ms > p95 28.00 ms"), "{warnings:?}");
}

#[test]
fn every_file_is_a_report_that_is_read_back_as_written() {
    for report in [shenyu(), shenyu_english(), ngxway(), api7(), polaris()] {
        let text = serde_json::to_string(&report).expect("a report is JSON");
        assert_eq!(serde_json::from_str::<Report>(&text).expect("the same shape"), report);
        assert!(report.results.iter().all(|row| row.case.is_none() && row.rate > 0.0));
    }
}
