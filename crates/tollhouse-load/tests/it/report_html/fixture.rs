//! Reports as sessions make them: several subjects and runs, closed and open loops, processes, warnings,
//! published rows. Times are drawn from a fixed sequence, so that a page is the same every time.

use std::time::Duration;

use tollhouse_load::case::Case;
use tollhouse_load::distribution::{Distribution, histogram};
use tollhouse_load::pace::Pace;
use tollhouse_load::report::{Environment, Report, Severity, Warning};
use tollhouse_load::result::{
    CaseResult, Counts, Interval, KernelSeries, ProcessSeries, ResourceSample,
};

/// A run to be made up.
#[derive(Clone, Copy)]
struct Made {
    subject: &'static str,
    repetition: u32,
    connections: u64,
    /// Requests a second.
    rate: f64,
    /// The median of the times, in milliseconds.
    median_ms: f64,
    /// How wide they are spread: the standard deviation of their logarithm.
    width: f64,
    seconds: u64,
    /// The target's cores.
    cores: f64,
    memory_mib: u64,
    /// One request in so many fails; 0 for none.
    fails_one_in: u64,
}

/// A fixed sequence that looks random (an LCG, Numerical Recipes' constants).
struct Sequence(u64);

impl Sequence {
    /// The next number from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next number around 0 with deviation 1: twelve numbers added up.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// Different times of a run: few enough for a debug build.
const SAMPLES: u64 = 4_000;
/// How often each is recorded: enough in all for p99.9.
const WEIGHT: u64 = 25;

/// Times around a median, with a heavier tail than the normal one; `stall` in so many of them.
fn times(made: &Made, sequence: &mut Sequence, stall: Option<(u64, f64)>) -> Distribution {
    let mut values = histogram();
    for number in 0..SAMPLES {
        let tail = if number % 97 == 0 { 2.4 } else { 1.0 };
        let mut ms = made.median_ms * (made.width * tail * sequence.normal()).exp();
        if let Some((every, stall_ms)) = stall.filter(|(every, _)| number % every == 0) {
            ms += stall_ms * (number % (every * 40)) as f64 / (every * 40) as f64;
        }
        values.saturating_record_n((ms * 1e6) as u64, WEIGHT);
    }
    Distribution::from_histogram(&values)
}

fn intervals(made: &Made, sequence: &mut Sequence) -> Vec<Interval> {
    let ms = |factor: f64| (made.median_ms * factor * 1e6) as u64;
    (1..=made.seconds)
        .map(|second| {
            let calm = 1.0 + 0.02 * sequence.normal();
            Interval {
                at_ns: second * 1_000_000_000,
                span_ns: 1_000_000_000,
                completed: (made.rate * calm) as u64,
                failed: match made.fails_one_in {
                    0 => 0,
                    every => (made.rate / every as f64 * (1.0 + sequence.next())) as u64,
                },
                received_bytes: (made.rate * 2_200.0) as u64,
                in_flight: made.connections - (sequence.next() * 9.0) as u64,
                connections: made.connections,
                p50_ns: ms(calm),
                p90_ns: ms(calm * (1.3 * made.width).exp()),
                p99_ns: ms((2.5 * made.width + 0.08 * sequence.normal()).exp()),
                max_ns: ms((5.0 * made.width + 0.4 * sequence.normal().abs()).exp()),
            }
        })
        .collect()
}

fn process(role: &str, command: &str, cores: f64, mib: u64, made: &Made) -> ProcessSeries {
    let mut sequence = Sequence(made.connections + mib);
    let seconds = made.seconds as f64;
    let samples: Vec<ResourceSample> = (1..=made.seconds * 2)
        .map(|half| ResourceSample {
            at_ns: half * 500_000_000,
            cpu_cores: cores * (1.0 + 0.05 * sequence.normal()),
            rss_bytes: (mib << 20) + half * 40_000,
            threads: 4,
            descriptors: made.connections + 21,
            switches: 4_000,
        })
        .collect();
    ProcessSeries {
        role: role.into(),
        command: command.into(),
        pids: vec![4_711],
        user_seconds: cores * seconds * 0.3,
        system_seconds: cores * seconds * 0.7,
        rss_bytes_max: samples.last().map_or(0, |sample| sample.rss_bytes),
        voluntary_switches: 20_000 * made.seconds,
        involuntary_switches: 900,
        samples,
        ..ProcessSeries::default()
    }
}

fn run(made: Made) -> CaseResult {
    let seed = made.connections * 31 + u64::from(made.repetition) * 7 + made.subject.len() as u64;
    let mut sequence = Sequence(seed);
    let mut case = Case::new("http://127.0.0.1:9080/http/mock");
    case.name = format!("{} connections", made.connections);
    case.load.connections = usize::try_from(made.connections).expect("it fits");
    case.load.duration = Some(Duration::from_secs(made.seconds));
    let completed = (made.rate * made.seconds as f64) as u64;
    let failed = completed.checked_div(made.fails_one_in).unwrap_or(0);
    let counts = Counts {
        completed,
        succeeded: completed - failed,
        failed,
        failures: [("timeout".to_owned(), failed)].into_iter().filter(|(_, n)| *n > 0).collect(),
        messages: [("no whole answer within 2s".to_owned(), failed)]
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .collect(),
        statuses: [("200".to_owned(), completed - failed)].into(),
        connections_opened: made.connections + failed,
        reused: completed - made.connections,
        sent_bytes: completed * 90,
        received_bytes: completed * 2_204,
        body_bytes: completed * 2_048,
        first_body_bytes: 2_048,
        unsent: 0,
        unfinished: made.connections,
    };
    let quick = Made { median_ms: made.median_ms * 0.97, ..made };
    let opening = Made { median_ms: 0.21, width: 0.3, ..made };
    CaseResult {
        name: case.name.clone(),
        subject: made.subject.into(),
        repetition: made.repetition,
        started_at_ms: 1_790_000_000_000,
        elapsed_ns: made.seconds * 1_000_000_000,
        concurrency: made.connections,
        workers: 2,
        rate: made.rate,
        goodput: (completed - failed) as f64 / made.seconds as f64,
        counts,
        response_time: times(&made, &mut sequence, None),
        first_byte: times(&quick, &mut sequence, None),
        connect: times(&opening, &mut sequence, None),
        loop_delay_ns: 800_000,
        series: intervals(&made, &mut sequence),
        processes: vec![
            process("target", made.subject, made.cores, made.memory_mib, &made),
            process("generator", "tollhouse bench", 0.8, 22, &made),
            process("upstream", "tollhouse mock", 0.6, 18, &made),
        ],
        kernel: Some(KernelSeries {
            at_ns: (1..=made.seconds).map(|second| second * 1_000_000_000).collect(),
            retransmits: (0..made.seconds).map(|second| second % 3).collect(),
            ..KernelSeries::default()
        }),
        case: Some(case),
        ..CaseResult::default()
    }
}

/// Three runs, each a little different.
fn runs(made: Made) -> impl Iterator<Item = CaseResult> {
    [0.994, 1.0, 1.007]
        .into_iter()
        .zip(1..)
        .map(move |(factor, repetition)| run(Made { repetition, rate: made.rate * factor, ..made }))
}

const DIRECT: Made = Made {
    subject: "direct",
    repetition: 1,
    connections: 600,
    rate: 28_310.0,
    median_ms: 20.6,
    width: 0.09,
    seconds: 30,
    cores: 0.74,
    memory_mib: 18,
    fails_one_in: 0,
};

fn environment() -> Environment {
    let named = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    Environment {
        label: "4C16G".into(),
        cpu: "Intel Xeon, Cascade Lake, 3.0 GHz".into(),
        cores: 4,
        memory_bytes: 16 << 30,
        kernel: "Linux 6.1.0 x86_64".into(),
        versions: named(&[("tollhouse", "0.4.0"), ("nginx", "1.22.1"), ("haproxy", "2.6.12")]),
        limits: named(&[
            ("nofile", "1048576"),
            ("somaxconn", "4096"),
            ("port range", "1024–65535"),
            ("governor", "performance"),
        ]),
    }
}

fn warning(rule: &str, severity: Severity, about: &str, message: &str) -> Warning {
    Warning { rule: rule.into(), severity, about: about.into(), message: message.into() }
}

/// The suite `shenyu`: direct and three gateways over four numbers of connections, three runs each.
pub fn shenyu() -> Report {
    let mut results: Vec<CaseResult> = runs(DIRECT).collect();
    for (subject, top, cores, memory_mib, width) in [
        ("tollhouse", 25_900.0, 1.62, 41, 0.16),
        ("nginx", 25_750.0, 1.71, 33, 0.19),
        ("haproxy", 23_100.0, 1.48, 58, 0.24),
    ] {
        for (step, connections) in [600_u64, 800, 1_000, 1_200].into_iter().enumerate() {
            let rate = top * (1.0 + 0.012 * step as f64);
            let median_ms = connections as f64 / rate * 1_000.0 * 0.97;
            let fails_one_in = if subject == "haproxy" && connections == 1_200 { 4_000 } else { 0 };
            let made = Made {
                subject,
                connections,
                rate,
                median_ms,
                width,
                cores,
                memory_mib: memory_mib + connections / 100,
                fails_one_in,
                ..DIRECT
            };
            results.extend(runs(made));
        }
    }
    Report {
        title: "ShenYu’s benchmark on this machine".into(),
        suite: Some("shenyu".into()),
        about: "A mock upstream that answers 2 KB after 20 ms, asked directly and through each gateway \
                at 600 to 1200 connections; three runs of 30 seconds a case, after 5 seconds of warm-up."
            .into(),
        command: ["tollhouse", "bench", "suite", "shenyu", "--peers", "nginx,haproxy", "--full"]
            .map(str::to_owned)
            .into(),
        environment: environment(),
        created_at_ms: 1_790_000_000_000,
        results,
        published: published(),
        warnings: vec![
            warning(
                "same-machine",
                Severity::Note,
                "",
                "Generator, gateway and upstream share 4 cores; on separate machines the gateway would \
                 have more of them.",
            ),
            warning(
                "failures",
                Severity::Caution,
                "haproxy / 1200 connections",
                "0.025 % of the requests failed by time-out; the times are those of the others.",
            ),
            warning(
                "littles-law",
                Severity::Invalid,
                "ShenYu 2.6.0 webClient, published / 1200 connections",
                "18,965 requests/s times 28.66 ms make 544 requests in flight, not 1200: 55 % of the \
                 connections did nothing. Do not compare these times.",
            ),
        ],
        configurations: [("gateway.yaml".to_owned(), "routes:\n  - uri: /http/*\n".to_owned())].into(),
        ..Report::default()
    }
}

/// ShenYu's table, as its authors printed it.
fn published() -> Vec<CaseResult> {
    let row = |subject: &str, concurrency: u64, rate: f64, times: [f64; 6]| {
        let [p50, p75, p90, p99, mean, max] = times.map(|ms| ms * 1e6);
        let percentiles = [(50.0, p50), (75.0, p75), (90.0, p90), (99.0, p99)];
        CaseResult {
            name: format!("{concurrency} connections"),
            subject: format!("ShenYu 2.6.0 {subject}, published"),
            concurrency,
            rate,
            goodput: rate,
            response_time: Distribution {
                mean_ns: mean,
                max_ns: max as u64,
                percentiles: percentiles.map(|(percent, value)| (percent, value as u64)).into(),
                ..Distribution::default()
            },
            ..CaseResult::default()
        }
    };
    vec![
        row("direct", 600, 28_998.20, [19.81, 23.78, 28.26, 41.24, 20.92, 402.90]),
        row("netty", 600, 20_472.95, [19.37, 25.36, 32.89, 69.92, 22.09, 1_043.33]),
        row("netty", 800, 20_703.55, [23.57, 31.32, 40.11, 77.28, 26.11, 576.47]),
        row("netty", 1_000, 20_979.91, [29.21, 37.86, 47.23, 80.91, 31.20, 860.55]),
        row("netty", 1_200, 21_129.88, [32.45, 42.40, 52.68, 96.10, 35.06, 1_070.0]),
        row("webClient", 600, 18_640.47, [15.77, 24.77, 38.26, 80.31, 20.32, 852.06]),
        row("webClient", 800, 18_723.44, [18.12, 28.69, 44.96, 95.30, 23.52, 765.26]),
        row("webClient", 1_000, 18_928.99, [19.99, 31.42, 49.09, 108.84, 25.93, 1_040.0]),
        row("webClient", 1_200, 18_965.37, [22.10, 34.62, 54.48, 122.31, 28.66, 1_075.0]),
    ]
}

/// The suite `ngxway`: 14 cases of two subjects, one run each, ended by their number of requests.
pub fn ngxway() -> Report {
    let mut results = Vec::new();
    for (subject, factor) in [("direct", 1.3), ("tollhouse", 1.0)] {
        for requests in [10_000, 100_000] {
            for connections in [32_u64, 64, 128, 256, 512, 1_024, 1_200] {
                let rate = factor * (31_000.0 + 4_000.0 * (connections as f64 / 128.0).ln().abs());
                let made = Made {
                    subject,
                    connections,
                    rate,
                    median_ms: connections as f64 / rate * 1_000.0,
                    width: 0.3,
                    seconds: if requests == 10_000 { 1 } else { 3 },
                    ..DIRECT
                };
                let mut result = run(made);
                result.name = format!("-n {requests} -c {connections}");
                let case = result.case.as_mut().expect("it was made with one");
                case.load.requests = Some(requests);
                case.load.duration = None;
                results.push(result);
            }
        }
    }
    Report {
        title: "ngxway’s 14 cases".into(),
        suite: Some("ngxway".into()),
        environment: environment(),
        created_at_ms: 1_790_000_000_000,
        results,
        warnings: (0..6)
            .map(|n| {
                let about = format!("tollhouse / -n 10000 -c {}", 32 << n);
                let message = "The case lasted 0.3 s; below 1 s a rate says little.";
                warning("duration", Severity::Note, &about, message)
            })
            .collect(),
        ..Report::default()
    }
}

/// An open loop at four rates, the highest of which is not kept.
pub fn open_loop() -> Report {
    let mut results = Vec::new();
    for (subject, capacity) in [("tollhouse", 28_000.0), ("nginx", 24_000.0)] {
        for asked in [5_000.0, 10_000.0, 20_000.0, 30_000.0_f64] {
            let load: f64 = asked / capacity;
            let stall = if load > 0.9 { Some((3, 900.0)) } else { None };
            let made = Made {
                subject,
                connections: 200,
                rate: asked.min(capacity),
                median_ms: 1.1 / (1.15 - load.min(1.0)),
                width: 0.3,
                fails_one_in: if load > 1.0 { 900 } else { 0 },
                ..DIRECT
            };
            let mut result = run(made);
            let mut sequence = Sequence(asked as u64);
            result.name = format!("{asked:.0} requests/s");
            result.open_loop = true;
            result.intended_rate = Some(asked);
            result.latency = Some(times(&made, &mut sequence, stall));
            result.slip = Some(times(&Made { median_ms: 0.02, ..made }, &mut sequence, stall));
            result.counts.unsent = ((asked - made.rate) * 4.0) as u64;
            let case = result.case.as_mut().expect("it was made with one");
            case.load.pace = Pace::Rate(asked);
            if load > 1.0 {
                result.missed_thresholds = vec!["p99 < 50ms: 612.3ms".into()];
            }
            results.push(result);
        }
    }
    Report {
        title: "Latency over rate".into(),
        about: "Requests at a constant rate, whatever became of those before them.".into(),
        command: ["tollhouse", "bench", "run", "rates.yaml"].map(str::to_owned).into(),
        environment: environment(),
        created_at_ms: 1_790_000_000_000,
        results,
        ..Report::default()
    }
}
