//! Rows from results made by hand.

use super::*;
use crate::distribution;
use crate::result::{Counts, ProcessSeries};

fn run(subject: &str, name: &str, goodput: f64) -> CaseResult {
    CaseResult {
        subject: subject.into(),
        name: name.into(),
        goodput,
        rate: goodput,
        elapsed_ns: 1_000_000_000,
        ..CaseResult::default()
    }
}

fn times(values: impl IntoIterator<Item = u64>) -> Distribution {
    let mut histogram = distribution::histogram();
    values.into_iter().for_each(|value| histogram.saturating_record(value));
    Distribution::from_histogram(&histogram)
}

#[test]
fn runs_become_rows_by_subject_and_case_in_order() {
    let results = [
        run("direct", "600", 1.0),
        run("gateway", "600", 2.0),
        run("gateway", "800", 3.0),
        run("gateway", "600", 4.0),
        run("direct", "600", 5.0),
    ];
    let rows = rows(&results);
    let seen: Vec<_> = rows.iter().map(|row| (row.subject, row.name, &row.places[..])).collect();
    assert_eq!(
        seen,
        [("direct", "600", &[0, 4][..]), ("gateway", "600", &[1, 3]), ("gateway", "800", &[2])]
    );
    assert_eq!(subjects(&rows), ["direct", "gateway"]);
}

#[test]
fn times_of_runs_are_merged_not_averaged() {
    let mut fast = run("gateway", "600", 1.0);
    fast.response_time = times((0..900).map(|_| 1_000_000));
    let mut slow = run("gateway", "600", 1.0);
    slow.response_time = times((0..100).map(|_| 9_000_000));
    let results = [fast, slow];
    let row = &rows(&results)[0];
    assert_eq!(row.times.count, 1000);
    let Percentile::Known(p50) = row.percentile(50.0) else { panic!("500 samples lie beyond") };
    assert!((p50 / 1e6 - 1.0).abs() < 0.01, "{p50}");
}

#[test]
fn a_percentile_needs_ten_samples_beyond_it() {
    let mut result = run("gateway", "600", 1.0);
    result.response_time = times((1..=1_000).map(|n| n * 1_000));
    let results = [result];
    let row = &rows(&results)[0];
    assert!(row.percentile(99.0).known().is_some());
    assert_eq!(row.percentile(99.9), Percentile::TooFew(1));
    assert_eq!(rows(&[run("a", "b", 1.0)])[0].percentile(50.0), Percentile::Unknown);
}

#[test]
fn percentiles_of_a_table_stand_as_given() {
    let mut result = run("published", "600", 20_472.95);
    result.response_time.percentiles = vec![(50.0, 19_370_000)];
    let results = [result];
    let row = &rows(&results)[0];
    assert_eq!(row.percentile(50.0), Percentile::Known(19_370_000.0));
    assert_eq!(row.percentile(99.9), Percentile::Unknown);
}

#[test]
fn nothing_ranks_without_three_runs_apart() {
    let spread = |values: &[f64]| Spread::from_values(values.to_vec()).expect("values");
    for (one, other, is_above) in [
        (&[10.0, 11.0, 12.0][..], &[7.0, 8.0, 9.0][..], true),
        (&[10.0, 11.0, 12.0], &[7.0, 8.0, 10.5], false),
        (&[10.0, 11.0], &[7.0, 8.0, 9.0], false),
        (&[7.0, 8.0, 9.0], &[10.0, 11.0, 12.0], false),
    ] {
        assert_eq!(spread(one).is_above(&spread(other)), is_above, "{one:?} {other:?}");
    }
    assert_eq!(spread(&[4.0, 1.0]).median, 2.5);
}

#[test]
fn usage_is_of_all_runs_together() {
    let mut result = run("gateway", "600", 1.0);
    result.counts = Counts { completed: 2_000, ..Counts::default() };
    result.processes = vec![ProcessSeries {
        role: "target".into(),
        user_seconds: 0.4,
        system_seconds: 0.6,
        rss_bytes_max: 7,
        ..ProcessSeries::default()
    }];
    let results = [result.clone(), result];
    let usage = rows(&results)[0].usage("target").expect("it was watched");
    assert_eq!((usage.cores, usage.seconds_per_1000, usage.rss_bytes_max), (1.0, 0.5, 7));
    assert_eq!(rows(&results)[0].usage("upstream"), None);
}
