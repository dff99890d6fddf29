//! What ab prints, line for line, of results written down here.
//! The shapes were compared with those of ab 2.3.

use super::*;
use crate::Action;
use crate::ab::options::parse;
use tollhouse_load::failure::FailureClass;
use tollhouse_load::result::{Counts, Sample};

fn command(text: &str) -> AbCommand {
    let arguments: Vec<String> = text.split(' ').map(ToOwned::to_owned).collect();
    match parse(&arguments) {
        Ok(Action::Run(command)) => command,
        other => panic!("{text}: {other:?}"),
    }
}

/// A hundred requests on ten connections: 1 ms to 100 ms, the first ten of them 2 ms to connect.
fn result() -> CaseResult {
    let sample = |number: u64| Sample {
        at_ns: number * 1_000_000,
        connect_ns: if number < 10 { 2_000_000 } else { 0 },
        first_byte_ns: (number + 1) * 500_000,
        response_ns: (number + 1) * 1_000_000,
        status: 200,
        failure: None,
    };
    CaseResult {
        started_at_ms: 1_795_258_911_000,
        elapsed_ns: 500_000_000,
        concurrency: 10,
        counts: Counts {
            completed: 100,
            succeeded: 100,
            statuses: [("200".to_owned(), 100)].into(),
            connections_opened: 10,
            reused: 90,
            sent_bytes: 8_000,
            received_bytes: 15_000,
            body_bytes: 300,
            first_body_bytes: 3,
            ..Counts::default()
        },
        first_head: vec![("Server".into(), "nginx/1.22.1 (Debian)".into())],
        samples: (0..100).map(sample).collect(),
        ..CaseResult::default()
    }
}

#[test]
fn a_run_is_printed_as_ab_prints_it() {
    let command = command("-n 100 -c 10 -k http://127.0.0.1:18480/x");
    assert_eq!(
        text(&command, &result()),
        "..done\n\n\n\
         Server Software:        nginx/1.22.1\n\
         Server Hostname:        127.0.0.1\n\
         Server Port:            18480\n\n\
         Document Path:          /x\n\
         Document Length:        3 bytes\n\n\
         Concurrency Level:      10\n\
         Time taken for tests:   0.500 seconds\n\
         Complete requests:      100\n\
         Failed requests:        0\n\
         Keep-Alive requests:    100\n\
         Total transferred:      15000 bytes\n\
         HTML transferred:       300 bytes\n\
         Requests per second:    200.00 [#/sec] (mean)\n\
         Time per request:       50.000 [ms] (mean)\n\
         Time per request:       5.000 [ms] (mean, across all concurrent requests)\n\
         Transfer rate:          29.30 [Kbytes/sec] received\n\n\
         Connection Times (ms)\n              \
         min  mean[+/-sd] median   max\n\
         Connect:        0    0   0.6      0       2\n\
         Processing:     1   51  29.0     51     100\n\
         Waiting:        1   25  14.5     26      50\n\
         Total:          3   51  28.7     51     100\n\n\
         Percentage of the requests served within a certain time (ms)\n  \
         50%     51\n  \
         66%     67\n  \
         75%     76\n  \
         80%     81\n  \
         90%     91\n  \
         95%     96\n  \
         98%     99\n  \
         99%    100\n \
         100%    100 (longest request)\n"
    );
    assert!(opening(&command).ends_with("\n\nBenchmarking 127.0.0.1 (be patient)..."));
}

#[test]
fn failures_are_split_and_other_statuses_counted() {
    let mut result = result();
    result.counts.failed = 15;
    result.counts.failures = FailureClass::ALL.map(|class| (class.as_str().to_owned(), 1)).into();
    result.counts.statuses =
        [("200".to_owned(), 80), ("302".to_owned(), 5), ("404".to_owned(), 2)].into();
    let text = text(&command("-n 100 -c 10 h/"), &result);
    assert!(
        text.contains(
            "\nFailed requests:        15\n   \
             (Connect: 1, Receive: 3, Length: 2, Exceptions: 2)\n\
             Write errors:           1\n\
             Non-2xx responses:      7\n\
             Total transferred:"
        ),
        "{text}"
    );
}

#[test]
fn short_forms_leave_out_what_they_should() {
    let text = text(&command("-n 100 -d -S -l http://h/"), &result());
    assert!(!text.contains("Percentage of"), "{text}");
    assert!(text.contains("\nDocument Length:        Variable\n"), "{text}");
    assert!(text.ends_with(
        "              min   avg   max\n\
         Connect:        0     0    2\n\
         Processing:     1    51  100\n\
         Waiting:        1    25   50\n\
         Total:          3    51  100\n"
    ));
}

#[test]
fn a_body_that_is_sent_has_its_lines() {
    let text = text(&command("-n 100 -p /dev/null https://h/"), &result());
    assert!(text.contains("\nTLS Server Name:        h\n"), "{text}");
    assert!(text.contains("\nTotal body sent:        8000\n"), "{text}");
    assert!(text.contains("received\n                        15.62 kb/s sent\n"), "{text}");
    assert!(text.contains("\n                        44.92 kb/s total\n"), "{text}");
}

#[test]
fn means_far_from_their_medians_are_doubted() {
    assert!(!text(&command("-n 100 h/"), &result()).contains("NOT reliable"));
    let mut result = result();
    for (number, sample) in result.samples.iter_mut().enumerate() {
        // In whole milliseconds the median is 0 and the mean is 1, and they deviate by less.
        sample.response_ns = if number < 51 { 400_000 } else { 650_000 };
        sample.connect_ns = 0;
    }
    let doubt = "ERROR: The median and mean for the processing time are more than twice the standard\n       \
                 deviation apart. These results are NOT reliable.\n";
    assert!(text(&command("-n 100 h/"), &result).contains(doubt));
    assert!(!text(&command("-n 100 -S h/"), &result).contains("ERROR"));
}

#[test]
fn without_single_samples_the_distributions_tell() {
    let mut result = result();
    let mut histogram = tollhouse_load::distribution::histogram();
    for sample in &result.samples {
        histogram.record(sample.response_ns).expect("in range");
    }
    result.response_time = tollhouse_load::distribution::Distribution::from_histogram(&histogram);
    result.samples.clear();
    let text = text(&command("-n 100 -c 10 -k h/"), &result);
    assert!(text.contains("\nProcessing:     1   50  28.9     50     100\n"), "{text}");
    assert!(text.contains("\n  99%     99\n 100%    100 (longest request)\n"), "{text}");
}

#[test]
fn progress_is_told_ten_times() {
    let mut heartbeat = Heartbeat::for_command(&command("-n 5000 h/")).expect("progress");
    assert_eq!(heartbeat.due(499), "");
    assert_eq!(heartbeat.due(1_200), "Completed 500 requests\nCompleted 1000 requests\n");
    assert!(heartbeat.end(5_000).ends_with("Completed 5000 requests\nFinished 5000 requests\n"));
    let mut heartbeat = Heartbeat::for_command(&command("-n 160 h/")).expect("progress");
    assert_eq!(heartbeat.end(160), "Completed 100 requests\nFinished 160 requests\n");
    for text in ["-n 150 h/", "-q -n 5000 h/"] {
        assert!(Heartbeat::for_command(&command(text)).is_none(), "{text}");
    }
    assert!(opening(&command("-n 5000 h/")).ends_with("(be patient)\n"));
}

#[test]
fn percentiles_go_to_a_csv_file() {
    let text = csv(&result());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 102);
    assert_eq!((lines[0], lines[1]), ("Percentage served,Time in ms", "0,3.000"));
    assert_eq!((lines[51], lines[101]), ("50,51.000", "100,100.000"));
}
