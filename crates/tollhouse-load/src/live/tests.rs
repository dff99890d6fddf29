//! Pictures of a run: what the block and the lines show is compared with files, and a block must fit
//! every terminal.

use hdrhistogram::Histogram;

use super::*;
use crate::case::Case;
use crate::distribution::histogram;
use crate::failure::{Failure, FailureClass};
use crate::plan::PlannedCase;
use crate::resource::Usage;
use crate::result::{Counts, Interval};

/// What the pictures are drawn of.
struct Fixture {
    series: Vec<Interval>,
    counts: Counts,
    times: Histogram<u64>,
    usage: Vec<Usage>,
    failure: Option<Failure>,
}

impl Fixture {
    fn new() -> Self {
        let interval = |number: u64| Interval {
            at_ns: number * 1_000_000_000,
            span_ns: 1_000_000_000,
            completed: 18_000 + 500 * (number % 7),
            in_flight: 600,
            connections: 600,
            p50_ns: 19_370_000,
            p99_ns: 69_920_000,
            max_ns: 1_043_330_000,
            ..Interval::default()
        };
        let mut times = histogram();
        for (value, count) in
            [(4_100_000, 10), (15_000_000, 4_000), (33_000_000, 2_000), (1_043_330_000, 1)]
        {
            times.saturating_record_n(value, count);
        }
        let usage =
            |role: &str, cpu_cores| Usage { role: role.into(), cpu_cores, rss_bytes: 40 << 20 };
        Self {
            series: (1..=12).map(interval).collect(),
            counts: Counts { completed: 246_000, succeeded: 246_000, ..Counts::default() },
            times,
            usage: vec![usage("generator", 0.62), usage("target", 1.4)],
            failure: None,
        }
    }

    fn progress(&self) -> Progress<'_> {
        Progress {
            elapsed: Duration::from_secs(12),
            planned: Some(Duration::from_secs(30)),
            planned_requests: None,
            is_warming_up: false,
            last: &self.series[11],
            series: &self.series,
            counts: &self.counts,
            so_far: &self.times,
            warm_up_mean: None,
            last_failure: self.failure.as_ref(),
            usage: &self.usage,
        }
    }
}

const HEAD: [&str; 2] = ["2 of 8: tollhouse, 600 connections", "http://127.0.0.1:9080/"];

fn block(fixture: &Fixture, paint: Paint, size: Size) -> String {
    let head = HEAD.map(str::to_owned);
    let view = View { head: &head, progress: &fixture.progress() };
    block::lines(&view, paint, size)
        .iter()
        .fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// Shows the whole text where it differs: that is what the file would have to hold.
fn golden(text: &str, expected: &str) {
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn a_block_shows_how_it_goes() {
    let text = block(&Fixture::new(), Paint::Plain, Size { columns: 100, rows: 40 });
    golden(&text, include_str!("testdata/closed.txt"));
}

#[test]
fn failures_are_shown_with_the_last_one() {
    let mut fixture = Fixture::new();
    fixture.counts.failed = 300;
    fixture.failure = Some(Failure::new(FailureClass::Timeout, "no whole answer within 10s"));
    let size = Size { columns: 80, rows: 12 };
    golden(&block(&fixture, Paint::Plain, size), include_str!("testdata/failing.txt"));
    assert!(block(&fixture, Paint::Colour, size).contains("\x1b[31m300 (0.122 %)"));
}

#[test]
fn a_block_fits_any_terminal() {
    let mut fixture = Fixture::new();
    fixture.failure = Some(Failure::new(FailureClass::Connect, "x".repeat(500)));
    golden(
        &block(&fixture, Paint::Plain, Size { columns: 30, rows: 6 }),
        include_str!("testdata/small.txt"),
    );
    for (columns, rows) in [(0, 0), (1, 1), (12, 3), (79, 24), (300, 100)] {
        let size = Size { columns, rows };
        let text = block(&fixture, Paint::Plain, size);
        assert!(text.lines().count() < rows.max(2), "{size:?}\n{text}");
        assert!(text.lines().all(|line| line.chars().count() < columns.max(1)), "{size:?}\n{text}");
    }
}

fn planned() -> PlannedCase {
    let mut case = Case::new("http://h/");
    case.name = "600".into();
    PlannedCase { subject: "tollhouse".into(), case, watch: Vec::new() }
}

fn drawn(mode: Mode, event_count: u64) -> String {
    let fixture = Fixture::new();
    let mut out = Vec::new();
    let planned = planned();
    let mut live = Live::new(mode, &mut out, || Size { columns: 60, rows: 8 });
    live.show(&Event::Began(Place { planned: &planned, number: 1, count: 2, repetition: 2 }));
    for number in 0..event_count {
        let elapsed = Duration::from_millis(300 * number);
        live.show(&Event::Progress(&Progress { elapsed, ..fixture.progress() }));
    }
    let result = CaseResult { goodput: 20_000.0, ..CaseResult::default() };
    live.show(&Event::Ended(&result));
    live.end();
    String::from_utf8(out).expect("text")
}

#[test]
fn without_a_terminal_there_is_a_line_a_second() {
    let text = drawn(Mode::Lines, 11);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "1 of 2: tollhouse, 600, run 2");
    assert_eq!(lines.len(), 1 + 3 + 1, "{text}");
    let line = "    1.2 s  20,500/s  p50 19.37 ms  p99 69.92 ms  max 1.043 s  600 in flight";
    assert_eq!(lines[2], line);
    assert_eq!(lines[4], "  20,000/s, p99 –");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn a_block_is_drawn_over_the_last_one_and_taken_away() {
    let text = drawn(Mode::Block(Paint::Plain), 2);
    let (shown, after) = text.rsplit_once("\x1b[J").expect("it is cleared");
    assert!(shown.contains("\x1b[7A\r\x1b[2K1 of 2"), "{text:?}");
    assert_eq!(after, "1 of 2: tollhouse, 600, run 2: 20,000/s, p99 –\n");
    assert_eq!(self::drawn(Mode::Quiet, 3), "");
}
