//! Against what ghz 0.121.0 itself printed of the same requests, see `testdata/ghz`. There the rows of
//! tables, whose order ghz leaves to chance, are sorted.

use std::path::Path;

use super::*;
use crate::ghz::parse_config;
use tollhouse_load::failure::FailureClass;
use tollhouse_load::result::{Counts, Sample};

const FORMATS: [(&str, Format); 3] =
    [("summary", Format::Summary), ("csv", Format::Csv), ("json", Format::Json)];
const MESSAGE: &str = "rpc error: code = Unavailable desc = <down>, \"now\"";
/// 2024-02-29T13:04:05Z.
const STARTED_AT_MS: u64 = 1_709_211_845_000;
const LATENCIES_NS: [u64; 12] = [
    812_345, 1_023_456, 950_000, 2_200_001, 15_000_000, 870_123, 999_999, 1_000_001, 5_400_321,
    3_120_000, 940_404, 880_808,
];

const PLAIN: &str = r#"{"call": "p.S/M", "host": "127.0.0.1:50051", "insecure": true,
    "proto": "protos/s.proto", "total": 12, "concurrency": 3, "cpus": 2, "concurrency-start": 0,
    "concurrency-step": 1, "name": "a <name>", "tags": {"env": "x y"}, "metadata": {"k": "v=1, 2"},
    "data": {"name": "b & c", "size": 1.5}}"#;
const SCHEDULED: &str = r#"{"call": "p.S/M", "host": "127.0.0.1:50051", "insecure": true,
    "proto": "protos/s.proto", "concurrency": 3, "cpus": 2, "concurrency-start": 0,
    "concurrency-step": 1, "metadata": {"k": "v=1, 2"}, "data": {"name": "b & c", "size": 1.5},
    "count-errors": true, "skipFirst": 2, "max-duration": "90.5s", "load-schedule": "step",
    "load-start": 5, "load-step": 5, "load-end": 50, "load-step-duration": "1500ms"}"#;

/// The requests that the golden files were printed of, as our engine records them.
fn result(config: &str) -> (CaseResult, GhzOptions) {
    let command = parse_config(Path::new("x.json"), config).expect("a configuration");
    let sample = |(index, response_ns): (usize, u64)| {
        let is_failure = index == 4 || index == 9;
        Sample {
            at_ns: index as u64 * 20_000_000,
            response_ns,
            status: if is_failure { 14 } else { 0 },
            failure: is_failure.then_some(FailureClass::Status),
            ..Sample::default()
        }
    };
    let mut samples: Vec<Sample> = LATENCIES_NS.into_iter().enumerate().map(sample).collect();
    // Workers hand over their samples one after the other.
    samples.rotate_left(5);
    let result = CaseResult {
        case: Some(command.case),
        started_at_ms: STARTED_AT_MS,
        elapsed_ns: 1_234_567_891,
        counts: Counts {
            completed: 12,
            messages: [(MESSAGE.to_owned(), 2)].into(),
            failures: [("status".to_owned(), 2)].into(),
            statuses: [("OK".to_owned(), 10), ("Unavailable".to_owned(), 2)].into(),
            ..Counts::default()
        },
        samples,
        ..CaseResult::default()
    };
    (result, command.options)
}

#[test]
fn every_format_is_printed_as_ghz_prints_it() {
    for (file, config) in [("report_a", PLAIN), ("report_b", SCHEDULED)] {
        let (result, mut options) = result(config);
        for (name, format) in FORMATS {
            options.format = format;
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/ghz");
            let golden = std::fs::read_to_string(format!("{folder}/{file}.{name}")).expect(name);
            let printed = text(&result, &options);
            for (ours, theirs) in printed.split('\n').zip(golden.split('\n')) {
                assert_eq!(ours, theirs, "{file}.{name}");
            }
            assert_eq!(printed.len(), golden.len(), "{file}.{name}");
        }
    }
}

#[test]
fn without_single_requests_the_distribution_says_the_same() {
    let (single, options) = result(PLAIN);
    let mut histogram = tollhouse_load::distribution::histogram();
    for sample in single.samples.iter().filter(|sample| sample.failure.is_none()) {
        histogram.saturating_record(sample.response_ns);
    }
    let merged = CaseResult {
        samples: Vec::new(),
        response_time: tollhouse_load::distribution::Distribution::from_histogram(&histogram),
        ..single.clone()
    };
    let figures = |result| {
        let text = text(result, &options);
        let lines =
            text.lines().filter(|line| line.contains(" % in ") || line.contains("responses"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(figures(&merged), figures(&single));
}

#[test]
fn failures_without_an_answer_have_the_status_that_grpc_gives_them() {
    let (mut result, mut options) = result(PLAIN);
    result.samples.clear();
    result.counts.failures = [("timeout".to_owned(), 3), ("reset".to_owned(), 1)].into();
    result.counts.statuses.clear();
    let summary = text(&result, &options);
    assert!(summary.contains("[DeadlineExceeded]   3 responses"), "{summary}");
    assert!(summary.contains("[Unavailable]        1 responses"), "{summary}");
    result.counts.messages = [("slow".to_owned(), 1), ("reset".to_owned(), 1)].into();
    result.samples =
        vec![Sample { failure: Some(FailureClass::Timeout), response_ns: 5, ..Sample::default() }];
    options.format = Format::Csv;
    let csv = text(&result, &options);
    assert!(csv.contains("rpc error: code = DeadlineExceeded desc = timeout"), "{csv}");
}

#[test]
fn a_run_without_requests_is_printed_too() {
    let (_, mut options) = result(PLAIN);
    for (_, format) in FORMATS {
        options.format = format;
        let printed = text(&CaseResult::default(), &options);
        assert!(!printed.contains("NaN"), "{printed}");
    }
    options.format = Format::Json;
    let json = text(&CaseResult::default(), &options);
    assert!(
        json.contains(r#""latencyDistribution":null,"histogram":null,"details":null"#),
        "{json}"
    );
}
