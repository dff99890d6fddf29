//! What wrk prints, line for line, of results written down here.
//! The shapes were compared with those of wrk 4.1.

use super::*;
use crate::Action;
use crate::wrk::options::{Tool, parse};
use tollhouse_load::result::Counts;

fn result() -> CaseResult {
    let mut histogram = tollhouse_load::distribution::histogram();
    for number in 1..=100_u64 {
        histogram.record(number * 10_000).expect("in range");
    }
    CaseResult {
        elapsed_ns: 2_020_000_000,
        concurrency: 10,
        counts: Counts {
            completed: 98_246,
            succeeded: 98_246,
            statuses: [("200".to_owned(), 98_246)].into(),
            received_bytes: 14_732_000,
            ..Counts::default()
        },
        response_time: Distribution::from_histogram(&histogram),
        worker_rates: RateStatistics {
            mean: 24_510.0,
            stdev: 7_570.0,
            max: 38_340.0,
            within_stdev: 0.7,
        },
        ..CaseResult::default()
    }
}

#[test]
fn a_run_is_printed_in_the_columns_of_wrk() {
    let mut result = result();
    // So few requests that nothing was left out.
    result.counts.statuses = [("200".to_owned(), 100)].into();
    assert_eq!(
        text(&result, Detail::Latency),
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
         Latency   505.01us  288.67us   1.00ms   58.00%\n    \
         Req/Sec    24.51k     7.57k   38.34k    70.00%\n  \
         Latency Distribution\n     \
         50%  500.22us\n     \
         75%  750.08us\n     \
         90%    0.90ms\n     \
         99%    0.99ms\n  \
         100 requests in 2.02s, 14.05MB read\n\
         Requests/sec:     49.50\n\
         Transfer/sec:      6.96MB\n"
    );
}

#[test]
fn errors_have_their_lines_only_when_there_were_any() {
    let mut result = result();
    assert!(!text(&result, Detail::Summary).contains("errors"));
    result.counts.failures =
        [("reset".to_owned(), 2), ("closed".to_owned(), 3), ("timeout".to_owned(), 4)].into();
    result.counts.statuses =
        [("200".to_owned(), 5), ("302".to_owned(), 1), ("404".to_owned(), 7)].into();
    let text = text(&result, Detail::Summary);
    assert!(text.contains("\n  Socket errors: connect 0, read 5, write 0, timeout 4\n"), "{text}");
    assert!(text.contains("\n  Non-2xx or 3xx responses: 7\n"), "{text}");
    assert!(text.contains("\n  13 requests in 2.02s"), "{text}");
}

#[test]
fn nothing_at_all_is_printed_as_wrk_prints_it() {
    let nothing = CaseResult { elapsed_ns: 1_100_000_000, ..CaseResult::default() };
    assert_eq!(
        text(&nothing, Detail::Summary),
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
         Latency     0.00us    0.00us   0.00us    -nan%\n    \
         Req/Sec     0.00      0.00     0.00      -nan%\n  \
         0 requests in 1.10s, 0.00B read\n\
         Requests/sec:      0.00\n\
         Transfer/sec:       0.00B\n"
    );
}

#[test]
fn a_stall_stands_for_the_requests_it_held_up() {
    // One connection, an answer each millisecond, and one that took a second.
    let mut histogram = tollhouse_load::distribution::histogram();
    histogram.record_n(1_000_000, 1_000).expect("in range");
    histogram.record(1_000_000_000).expect("in range");
    let result = CaseResult {
        elapsed_ns: 2_000_000_000,
        concurrency: 1,
        counts: Counts { statuses: [("200".to_owned(), 1_001)].into(), ..Counts::default() },
        response_time: Distribution::from_histogram(&histogram),
        ..CaseResult::default()
    };
    let corrected = corrected(&result);
    // The mean interval is 1.998 ms: about 500 requests were not sent in that second.
    assert!((1_490..=1_510).contains(&corrected.count), "{}", corrected.count);
    let p90_ms = corrected.percentile_ns(90.0).expect("recorded") / 1_000_000;
    assert!((690..=710).contains(&p90_ms), "{p90_ms}");
}

#[test]
fn the_heading_says_what_was_asked_for() {
    let arguments: Vec<String> = ["-t2", "-c100", "-d30s", "http://h/x"].map(String::from).into();
    let Ok(Action::Run(command)) = parse(Tool::Wrk, &arguments) else { panic!("a command") };
    assert_eq!(
        heading(&command),
        "Running 30s test @ http://h/x\n  2 threads and 100 connections\n"
    );
}
