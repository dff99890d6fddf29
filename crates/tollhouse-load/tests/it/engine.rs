//! The engine over HTTP/1.1: what it counts is what the server counted, and how failures are named.

use std::time::Duration;

use tollhouse_load::case::{Case, Checks, Load, Occupancy, Stairs};
use tollhouse_load::error::BenchError;
use tollhouse_load::pace::Pace;
use tollhouse_load::result::{CaseResult, End};
use tollhouse_load::run::{Settings, run};
use tollhouse_mock::{Behaviour, Body, Latency, Mock, Share};

fn mock(behaviour: Behaviour) -> Mock {
    Mock::start(Behaviour { workers: 1, ..behaviour }).expect("mock")
}

fn case(mock: &Mock, load: Load) -> Case {
    let mut case = Case::new(format!("http://{}/", mock.address()));
    case.load = load;
    case
}

fn measure(case: &Case) -> Result<CaseResult, BenchError> {
    run(case, &Settings::default(), &mut |_| ())
}

#[test]
fn a_count_is_exact_and_agrees_with_the_server() {
    let mock =
        mock(Behaviour { body: Body::with_length(100).expect("body"), ..Behaviour::default() });
    let load = Load { connections: 7, requests: Some(1_000), workers: Some(2), ..Load::default() };
    let result = measure(&case(&mock, load)).expect("result");
    assert_eq!((result.counts.completed, result.counts.succeeded), (1_000, 1_000));
    assert_eq!(mock.requests(), 1_000);
    assert_eq!(result.response_time.count, 1_000);
    assert_eq!(result.counts.statuses.get("200"), Some(&1_000));
    assert_eq!(result.counts.body_bytes, 100_000);
    assert_eq!(result.counts.first_body_bytes, 100);
    assert_eq!(result.counts.connections_opened, 7);
    assert_eq!(result.series.iter().map(|interval| interval.completed).sum::<u64>(), 1_000);
    assert_eq!(result.end, End::Completed);
}

#[test]
fn without_keep_alive_every_request_has_a_connection_of_its_own() {
    let mock = mock(Behaviour::default());
    let load = Load { connections: 3, requests: Some(60), keep_alive: false, ..Load::default() };
    let result = measure(&case(&mock, load)).expect("result");
    assert_eq!(result.counts.succeeded, 60);
    assert_eq!(result.counts.connections_opened, 60);
    assert_eq!(result.counts.reused, 0);
    assert_eq!(result.connect.count, 60);
}

#[test]
fn only_occupied_lanes_carry_load_and_the_others_hold_nothing_up() {
    let mock = mock(Behaviour::default());
    // The second stair would begin in an hour.
    let every = Duration::from_secs(3_600);
    let stairs = Stairs { start: 1, step: 1, end: None, every, until: None };
    for (lanes, used) in [(Occupancy::First(2), 2), (Occupancy::Stairs(stairs), 1)] {
        let load = Load { connections: 4, lanes, requests: Some(200), ..Load::default() };
        let result = measure(&case(&mock, load)).expect("result");
        assert_eq!((result.counts.succeeded, result.concurrency), (200, used));
        assert!(result.series.iter().all(|interval| interval.in_flight <= used));
    }
}

#[test]
fn an_open_loop_sends_what_its_schedule_says() {
    let mock = mock(Behaviour::default());
    let load = Load {
        connections: 4,
        pace: Pace::Rate(500.0),
        duration: Some(Duration::from_millis(600)),
        ..Load::default()
    };
    let result = measure(&case(&mock, load)).expect("result");
    assert_eq!(result.counts.completed + result.counts.unsent, 300);
    assert_eq!(result.counts.unfinished, 0);
    let latency = result.latency.expect("an open loop has latencies");
    assert_eq!(latency.count, result.counts.succeeded);
    assert!(latency.mean_ns >= result.response_time.mean_ns);
}

#[test]
fn warm_up_is_not_recorded() {
    let mock = mock(Behaviour::default());
    let load = Load {
        connections: 2,
        pace: Pace::Rate(200.0),
        warm_up: Duration::from_millis(300),
        duration: Some(Duration::from_millis(300)),
        ..Load::default()
    };
    let result = measure(&case(&mock, load)).expect("result");
    assert_eq!(result.counts.completed + result.counts.unsent, 60);
    assert!(mock.requests() > result.counts.completed, "the warm-up was sent too");
}

#[test]
fn the_mean_of_the_warm_up_and_the_first_head_are_told() {
    let mock = mock(Behaviour::default());
    let load = Load {
        connections: 2,
        warm_up: Duration::from_millis(300),
        duration: Some(Duration::from_millis(300)),
        ..Load::default()
    };
    let mut warm_up_mean = None;
    let result = run(&case(&mock, load), &Settings::default(), &mut |progress| {
        warm_up_mean = progress.warm_up_mean;
    });
    assert!(warm_up_mean.expect("requests in the warm-up") > Duration::ZERO);
    let head = result.expect("result").first_head;
    let has = |wanted: &str| head.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    assert!(has("content-length"), "{head:?}");
}

#[test]
fn failures_are_counted_by_class_and_message() {
    let behaviour =
        Behaviour { error_rate: Share::new(0.5), seed: Some(7), ..Behaviour::default() };
    let mock = mock(behaviour);
    let load = Load { connections: 2, requests: Some(400), ..Load::default() };
    let result = measure(&case(&mock, load)).expect("result");
    let failed = result.counts.failed;
    assert!((100..300).contains(&failed), "{failed}");
    assert_eq!(result.counts.failures.get("status"), Some(&failed));
    assert_eq!(result.counts.messages.get("status 500"), Some(&failed));
    assert_eq!(result.counts.statuses.get("500"), Some(&failed));
    assert_eq!(result.response_time.count, 400 - failed, "failures are no times");
}

#[test]
fn what_cannot_be_measured_is_named_in_one_line() {
    let resets = mock(Behaviour { reset_rate: Share::new(1.0), ..Behaviour::default() });
    let load = Load { connections: 2, requests: Some(20), ..Load::default() };
    let mut wrong_body = case(&resets, load.clone());
    let healthy = mock(Behaviour::default());
    wrong_body.target = format!("http://{}/", healthy.address());
    wrong_body.checks = Checks { body_contains: Some("pong".into()), ..Checks::default() };
    let mut tls = case(&healthy, load.clone());
    tls.target = format!("https://{}/", healthy.address());
    let mut nowhere = Case::new("http://127.0.0.1:1/");
    nowhere.load = load.clone();
    for (case, part) in [
        (case(&resets, load), "reset"),
        (wrong_body, "body without \"pong\""),
        (tls, "tls"),
        (nowhere, "refused"),
    ] {
        let line = measure(&case).expect_err(part).to_string();
        assert!(line.contains(part) && line.contains("cannot be measured"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
}

#[test]
fn a_slow_answer_is_a_timeout_and_the_lane_goes_on() {
    let mock = mock(Behaviour {
        latency: Latency::fixed(Duration::from_secs(60)),
        ..Behaviour::default()
    });
    let load = Load {
        connections: 2,
        requests: Some(4),
        timeout: Duration::from_millis(100),
        persistent: true,
        ..Load::default()
    };
    let result = measure(&case(&mock, load)).expect("result");
    assert_eq!(result.counts.failures.get("timeout"), Some(&4));
}

#[test]
fn a_stopped_run_reports_what_it_has_seen() {
    let mock = mock(Behaviour::default());
    let load = Load { connections: 2, duration: Some(Duration::from_secs(600)), ..Load::default() };
    let settings = Settings::default();
    let stop = settings.stop.clone();
    let result = run(&case(&mock, load), &settings, &mut |_| stop.stop()).expect("result");
    assert_eq!(result.end, End::Interrupted);
    assert!(result.counts.succeeded > 0);
}
