//! Tests of comparing two reports: what is matched, what can be told apart, what is refused.
//! Figures are made up; nothing is measured.

use super::*;
use crate::case::Case;
use crate::distribution::{Distribution, histogram};
use crate::result::{Counts, ProcessSeries};

/// A run of 1000 requests a second for 10 s with all times around `time_us`.
fn run(subject: &str, goodput: f64, time_us: u64) -> CaseResult {
    let mut times = histogram();
    for step in 0..100 {
        times.saturating_record_n((time_us + step) * 1_000, 100);
    }
    let process = |role: &str, user_seconds: f64| ProcessSeries {
        role: role.into(),
        user_seconds,
        rss_bytes_max: 20 << 20,
        ..ProcessSeries::default()
    };
    CaseResult {
        name: "10 connections".into(),
        subject: subject.into(),
        case: Some(Case::new("http://10.0.0.2/")),
        concurrency: 10,
        rate: goodput,
        goodput,
        counts: Counts { completed: 10_000, succeeded: 10_000, ..Counts::default() },
        response_time: Distribution::from_histogram(&times),
        processes: vec![process("generator", 0.5), process("target", 2.0)],
        ..CaseResult::default()
    }
}

fn report(title: &str, goodputs: &[f64], times_us: &[u64]) -> Report {
    let runs = goodputs.iter().zip(times_us);
    Report {
        title: title.into(),
        results: runs.map(|(goodput, time_us)| run("gateway", *goodput, *time_us)).collect(),
        ..Report::default()
    }
}

fn verdict(comparison: &Comparison, figure: Figure) -> Verdict {
    let figures = &comparison.cases[0].figures;
    figures.iter().find(|compared| compared.figure == figure).expect("on both sides").verdict
}

#[test]
fn a_difference_is_told_only_from_repeated_runs_that_lie_apart() {
    let p99 = Figure::Percentile(99.0);
    for (before, after, of_goodput, of_p99) in [
        // Three runs each, apart.
        (
            (vec![1000.0, 1010.0, 990.0], vec![500, 510, 520]),
            (vec![1100.0, 1110.0, 1090.0], vec![700, 710, 720]),
            Verdict::Better,
            Verdict::Worse,
        ),
        // One run of the second is as slow as one of the first.
        (
            (vec![1000.0, 1010.0, 990.0], vec![500, 510, 520]),
            (vec![1100.0, 1110.0, 1010.0], vec![520, 700, 710]),
            Verdict::Overlapping,
            Verdict::Overlapping,
        ),
        // However far apart: single runs tell nothing.
        (
            (vec![1000.0], vec![500]),
            (vec![9000.0], vec![5000]),
            Verdict::TooFewRuns,
            Verdict::TooFewRuns,
        ),
        (
            (vec![1000.0, 1010.0, 990.0], vec![500, 510, 520]),
            (vec![2000.0, 2010.0], vec![100, 110]),
            Verdict::TooFewRuns,
            Verdict::TooFewRuns,
        ),
    ] {
        let comparison =
            compare(&report("a", &before.0, &before.1), &report("b", &after.0, &after.1));
        assert_eq!(verdict(&comparison, Figure::Goodput), of_goodput, "{before:?} {after:?}");
        assert_eq!(verdict(&comparison, p99), of_p99, "{before:?} {after:?}");
    }
}

#[test]
fn percentiles_come_from_merged_histograms() {
    let before = report("a", &[1000.0; 3], &[100, 100, 5_000]);
    let comparison = compare(&before, &before);
    let p50 = comparison.cases[0]
        .figures
        .iter()
        .find(|compared| compared.figure == Figure::Percentile(50.0))
        .expect("measured");
    // The middle of all requests; the mean of the three medians would be 1783.
    assert_eq!((p50.before.value / 1e3).round(), 174.0);
    assert_eq!(p50.before.spread.runs, 3);
    assert_eq!(p50.change(), 0.0);
}

#[test]
fn only_percentiles_with_samples_beyond_them_are_compared() {
    let mut few = report("a", &[1000.0], &[100]);
    let figures = |report: &Report| {
        let comparison = compare(report, report);
        comparison.cases[0].figures.iter().map(|it| it.figure.name()).collect::<Vec<_>>()
    };
    assert!(figures(&few).contains(&"p99.9".to_owned()));
    few.results[0].response_time.count = 5_000;
    assert!(!figures(&few).contains(&"p99.9".to_owned()));
}

#[test]
fn tables_are_compared_by_the_figures_they_give() {
    let shenyu = crate::published::shenyu();
    let comparison = compare(&shenyu, &shenyu);
    assert_eq!(comparison.cases.len(), 9);
    let names: Vec<String> =
        comparison.cases[0].figures.iter().map(|it| it.figure.name()).collect();
    assert_eq!(names, ["goodput", "mean", "p50", "p75", "p90", "p99"]);
}

#[test]
fn a_regression_is_worse_than_a_share_and_than_chance() {
    let before = report("a", &[1000.0, 1001.0, 1002.0], &[500, 501, 502]);
    let after = report("b", &[900.0, 901.0, 902.0], &[501, 502, 503]);
    let comparison = compare(&before, &after);
    let named = |found: Vec<(&CaseComparison, &FigureComparison)>| {
        found.into_iter().map(|(_, compared)| compared.figure.name()).collect::<Vec<_>>()
    };
    assert_eq!(named(comparison.regressions(0.05)), ["goodput"]);
    assert!(comparison.regressions(0.15).is_empty());
    assert!(comparison.suspicions(0.05).is_empty());
    let single = compare(&report("a", &[1000.0], &[500]), &report("b", &[900.0], &[900]));
    assert!(single.regressions(0.05).is_empty());
    assert_eq!(
        named(single.suspicions(0.05)),
        ["goodput", "mean", "p50", "p75", "p90", "p99", "p99.9"]
    );
}

#[test]
fn differences_of_load_and_machine_are_listed() {
    let mut before = report("a", &[1000.0], &[500]);
    let mut after = before.clone();
    before.environment.kernel = "Linux 6.1".into();
    after.environment.kernel = "Linux 6.12".into();
    after.environment.limits.insert("somaxconn".into(), "4096".into());
    after.results[0].concurrency = 20;
    after.results[0].case.as_mut().expect("measured").load.connections = 20;
    after.results.push(run("nginx", 1000.0, 500));
    let comparison = compare(&before, &after);
    let shown = |differences: &[Difference]| {
        let line = |it: &Difference| format!("{}: {} → {}", it.what, it.before, it.after);
        differences.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&comparison.environment),
        ["kernel: Linux 6.1 → Linux 6.12", "somaxconn:  → 4096"]
    );
    assert_eq!(
        shown(&comparison.cases[0].differences),
        ["concurrency: 10 → 20", "load.connections: 50 → 20"]
    );
    assert_eq!(comparison.only_after, ["nginx / 10 connections"]);
    assert!(comparison.only_before.is_empty());
}

#[test]
fn the_text_is_a_table_that_says_what_cannot_be_told() {
    let before = report("before the change", &[1000.0, 1010.0, 990.0], &[500, 510, 520]);
    let mut after = report("after it", &[1100.0, 1110.0, 1090.0], &[700, 510, 720]);
    after.environment.cpu = "another CPU".into();
    let text = text(&compare(&before, &after));
    let expected = "\
before: before the change
after:  after it

The machines differ; so may the figures, for that reason alone:
  cpu: not known → another CPU

gateway / 10 connections
";
    assert!(text.starts_with(expected), "{text}");
    let line = |name: &str| {
        let found = text.lines().find(|line| line.trim_start().starts_with(name));
        found.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).expect(name)
    };
    assert_eq!(
        line("goodput"),
        "goodput 1,000/s [990.0/s … 1,010/s] 1,100/s [1,090/s … 1,110/s] +10.0 % better"
    );
    assert!(line("p50").ends_with("overlap"), "{text}");
    assert!(!text.contains("--repeat"), "{text}");
    let back = super::text(&compare(&after, &before));
    assert!(back.contains("-9.1 %") && back.contains("WORSE"), "{back}");
    let single = super::text(&compare(&report("a", &[1.0], &[1]), &report("b", &[2.0], &[1])));
    assert!(single.contains("measure with --repeat 3"), "{single}");
    let apart = super::text(&compare(&report("a", &[1.0], &[1]), &Report::default()));
    assert!(apart.contains("Nothing to compare"), "{apart}");
    assert!(apart.contains("Only before: gateway / 10 connections."), "{apart}");
}

#[test]
fn different_things_are_named_and_compared() {
    let named = |mut report: Report, subject: &str, name: &str, target: &str| {
        for result in &mut report.results {
            (result.subject, result.name) = (subject.into(), name.into());
            result.case = Some(Case::new(target));
        }
        report
    };
    let one = || report("a", &[1000.0; 3], &[500; 3]);
    // Two gateways with one case, two routes of one gateway, and the same once more.
    for (subject, name, target, is_different) in [
        ("other", "10 connections", "http://10.0.0.2/", true),
        ("gateway", "b", "http://10.0.0.2/b", true),
        ("gateway", "10 connections", "http://10.0.0.3/", true),
        ("gateway", "10 connections", "http://10.0.0.2/", false),
    ] {
        let comparison = compare(&one(), &named(one(), subject, name, target));
        assert_eq!(comparison.cases.len(), 1, "{subject} {name}");
        assert_eq!(comparison.cases[0].measured.is_some(), is_different, "{target}");
        let text = super::text(&comparison);
        assert_eq!(text.contains("Different things were measured"), is_different, "{text}");
        assert!(text.contains("goodput  ") && !text.contains("Only "), "{text}");
    }
}

#[test]
fn of_several_cases_those_with_equal_names_are_compared() {
    let suite = |subject: &str| {
        let mut report = report("a", &[1000.0; 3], &[500; 3]);
        for (result, name) in report.results.iter_mut().zip(["10", "20", subject]) {
            (result.subject, result.name) = (subject.into(), name.into());
        }
        report
    };
    let comparison = compare(&suite("nginx"), &suite("gateway"));
    let names: Vec<&str> = comparison.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["10", "20", "gateway"], "the last ones are left alone on both sides");
    assert!(comparison.only_before.is_empty() && comparison.only_after.is_empty());
}

#[test]
fn a_load_average_that_differs_makes_no_other_machine() {
    let mut before = report("a", &[1000.0], &[100]);
    before.environment.limits.insert(NEVER_ALIKE.into(), "8.79".into());
    let mut after = before.clone();
    after.environment.limits.insert(NEVER_ALIKE.into(), "8.81".into());
    let printed = text(&compare(&before, &after));
    assert!(!printed.contains("machines differ"), "{printed}");
    after.environment.cpu = "another".into();
    assert!(text(&compare(&before, &after)).contains("machines differ"));
}

#[test]
fn a_comparison_fits_a_terminal_of_a_hundred_columns() {
    let runs = report("a", &[10_000.5, 10_100.5, 9_900.5], &[500, 510, 520]);
    let printed = text(&compare(&runs, &report("b", &[10_000.5], &[500])));
    let widest = printed.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{printed}");
    assert!(printed.contains("too few runs: a single run shows no variance"), "{printed}");
}
