//! Text output for held connections: the result, the progress line, the table of limits.

use std::net::SocketAddr;
use std::time::Duration;

use crate::connections::coordinator::{Phase, Progress};
use crate::connections::requirements::Row;
use crate::distribution::Distribution;
use crate::preflight::Verdict;
use crate::report::figure;
use crate::report::paint::Paint;
use crate::report::text::table;
use crate::result::{CaseResult, End, Held, HeldPoint, ProcessSeries};

/// Minimum number of connections for a memory figure; below it, other activity of processes and
/// kernel dominates.
const COSTED_MIN: u64 = 1_000;
/// Maximum number of rows for the course of a run; the result holds all points.
const ROWS_MAX: usize = 12;

/// Renders the result; empty if the result is not about held connections.
pub fn render(result: &CaseResult, paint: Paint) -> Vec<String> {
    let Some(held) = &result.held else { return Vec::new() };
    let mut lines = vec![paint.strong(format!("{} to {}", result.name, result.subject))];
    lines.extend(figures(result, held, paint));
    lines.push(String::new());
    lines.extend(costs(held, &result.processes, paint));
    lines.push(String::new());
    lines.extend(course(held, paint));
    lines
}

fn figures(result: &CaseResult, held: &Held, paint: Paint) -> Vec<String> {
    let all = held.at_end == held.wanted;
    let mark = |text: String, good: bool| if good { text } else { paint.bad(text) };
    let count = figure::count;
    let held_text = format!(
        "{} of {} when holding ended, {} at most; held for {}",
        count(held.at_end),
        count(held.wanted),
        count(held.max),
        seconds(held.held_ns)
    );
    let asked = result
        .intended_rate
        .map_or(String::new(), |rate| format!(" ({}/s asked for)", figure::rate(rate)));
    let given_up = if held.gave_up { ", given up" } else { "" };
    let mut rows = vec![
        ("held", mark(held_text, all)),
        (
            "opened",
            format!(
                "{} in {}, {}/s{asked}{given_up}, by {}",
                count(result.counts.connections_opened),
                seconds(held.ramp_ns),
                figure::rate(result.rate),
                plural(held.processes, "process", "processes")
            ),
        ),
        ("to open one", times(&result.connect)),
        ("failed", mark(reasons(&held.failed), held.failed.is_empty())),
        ("lost", mark(reasons(&held.lost), held.lost.is_empty())),
    ];
    if held.pings > 0 {
        let failed = held.pings_failed;
        let text = format!("{} sent, {} unanswered", count(held.pings), count(failed));
        rows.push(("pings", mark(text, failed == 0)));
        rows.push(("answered in", times(&result.response_time)));
    }
    if let Some(error) = &held.first_error {
        let text = format!("after {}: {}", seconds(error.at_ns), error.message);
        rows.push(("first error", paint.bad(text)));
    }
    if result.end == End::Interrupted {
        rows.push(("ended", paint.doubtful("by Ctrl-C, before it was due")));
    }
    rows.into_iter().map(|(name, text)| format!("  {name:<14}{text}")).collect()
}

/// Returns a table of memory use at both ends and in the kernel.
fn costs(held: &Held, processes: &[ProcessSeries], paint: Paint) -> Vec<String> {
    let heads = ["memory", "processes", "before", "held", "a connection", "CPU"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for cost in &held.costs {
        let series = processes.iter().find(|series| series.role == cost.role);
        let (count, cpu) = match series {
            Some(series) => {
                (figure::count(series.pids.len() as u64), format!("{:.2} s", series.cpu_seconds()))
            }
            None => (figure::NONE.to_owned(), figure::NONE.to_owned()),
        };
        rows.push(vec![
            cost.role.clone(),
            count,
            figure::memory(cost.before_bytes),
            figure::memory(cost.held_bytes),
            each(cost.each_bytes, held.at_end),
            cpu,
        ]);
    }
    let mut lines = table::columns(&rows, 2);
    // The kernel's figure covers the whole machine and must not be read as that of one process.
    if held.costs.iter().any(|cost| cost.role == "kernel") {
        lines.push(format!(
            "  {}",
            paint.faint(
                "kernel: objects and socket buffers of the whole machine, for both ends of a \
                 connection when both are here"
            )
        ));
    }
    lines
}

/// Returns the memory per connection; unknown if too few were held for the growth to be
/// significant.
fn each(bytes: f64, connections: u64) -> String {
    if connections < COSTED_MIN { figure::NONE.to_owned() } else { figure::memory(bytes as u64) }
}

/// Returns a table of the course of a run, in a few rows.
fn course(held: &Held, paint: Paint) -> Vec<String> {
    let heads = ["after", "open", "opened", "failed", "refused", "reset", "timed out", "lost"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for point in chosen(&held.points) {
        let mut row = vec![seconds(point.at_ns)];
        let counts = [
            point.open,
            point.established,
            point.failed,
            point.refused,
            point.reset,
            point.timed_out,
            point.lost,
        ];
        row.extend(counts.map(figure::count));
        rows.push(row);
    }
    let mut lines = table::columns(&rows, 2);
    if lines.len() == 1 {
        lines.push(format!("  {}", paint.faint("too short for a point")));
    }
    lines
}

/// Selects evenly spaced points that include the last one.
fn chosen(points: &[HeldPoint]) -> impl Iterator<Item = &HeldPoint> {
    let step = points.len().div_ceil(ROWS_MAX).max(1);
    points.iter().rev().step_by(step).collect::<Vec<_>>().into_iter().rev()
}

fn times(distribution: &Distribution) -> String {
    if distribution.count == 0 {
        return figure::NONE.to_owned();
    }
    let mut parts = Vec::new();
    for percent in [50.0, 90.0, 99.0, 99.9] {
        if let (Some(value), true) =
            (distribution.percentile_ns(percent), distribution.supports(percent, BEYOND_MIN))
        {
            let name = figure::percentile_name(percent);
            parts.push(format!("{name} {}", figure::time(value as f64)));
        }
    }
    parts.push(format!("max {}", figure::time(distribution.max_ns as f64)));
    parts.join(", ")
}

/// Minimum number of samples beyond a percentile for it to be printed.
const BEYOND_MIN: u64 = 10;

fn reasons(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let total: u64 = counts.values().sum();
    let parts: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{} {}", reason.replace('_', " "), figure::count(*count)))
        .collect();
    match parts.is_empty() {
        true => "0".to_owned(),
        false => format!("{}: {}", figure::count(total), parts.join(", ")),
    }
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", figure::count(count), if count == 1 { one } else { many })
}

fn seconds(nanoseconds: u64) -> String {
    format!("{:.1} s", Duration::from_nanos(nanoseconds).as_secs_f64())
}

pub fn progress(progress: &Progress) -> String {
    let Progress { phase, elapsed, held: (hold, held), wanted, now, rate } = progress;
    let doing = match phase {
        // The cast saturates; a rate is never negative.
        Phase::Opening => format!("opening {}/s", figure::count(rate.round() as u64)),
        Phase::Holding => {
            format!("holding, {:.0} s left", hold.saturating_sub(*held).as_secs_f64().ceil())
        }
    };
    format!(
        "{:>6.1} s  {} of {} open, {doing}, {} failed, {} lost",
        elapsed.as_secs_f64(),
        figure::count(now.open),
        figure::count(*wanted),
        figure::count(now.failed),
        figure::count(now.lost)
    )
}

/// Returns the progress line of our own server end.
pub fn serving(addresses: &[SocketAddr], now: &HeldPoint) -> String {
    let place = match addresses {
        [first, .., last] => format!("{first} to {}", last.port()),
        [only] => only.to_string(),
        [] => String::new(),
    };
    let refused = match now.failed {
        0 => String::new(),
        failed => format!(", {} not accepted: see --preflight", figure::count(failed)),
    };
    format!(
        "{place}: {} open, {} in all{refused}",
        figure::count(now.open),
        figure::count(now.established)
    )
}

/// Returns a table of limits, with remedies for those that are too low.
pub fn limits(rows: &[Row], paint: Paint) -> Vec<String> {
    let shown = |value: u64| match value {
        u64::MAX => "no limit".to_owned(),
        value => figure::count(value),
    };
    let heads = ["limit", "needed", "available", ""].map(str::to_owned).to_vec();
    let mut cells = vec![heads];
    cells.extend(rows.iter().map(|row| {
        vec![row.limit.to_owned(), shown(row.need), shown(row.have), row.verdict.to_string()]
    }));
    let mut lines = table::columns(&cells, 2);
    for row in rows.iter().filter(|row| row.verdict != Verdict::Enough) {
        let text = format!("{}: {}", row.limit, row.remedy);
        lines.push(String::new());
        lines.push(match row.verdict {
            Verdict::TooSmall => paint.bad(text),
            _ => paint.doubtful(text),
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::{Advice, Limits, Need, advise};
    use crate::result::{Counts, FirstError, HeldCost};

    fn result() -> CaseResult {
        let point = |second: u64| HeldPoint {
            at_ns: second * 1_000_000_000,
            open: second * 100,
            established: second * 100,
            ..HeldPoint::default()
        };
        CaseResult {
            name: "5,000 connections".into(),
            subject: "127.0.0.1:9080".into(),
            intended_rate: Some(100.0),
            rate: 99.0,
            counts: Counts { connections_opened: 4_000, ..Counts::default() },
            held: Some(Held {
                wanted: 5_000,
                max: 4_000,
                at_end: 3_990,
                ramp_ns: 40_000_000_000,
                held_ns: 10_000_000_000,
                processes: 1,
                failed: [("timed_out".to_owned(), 990), ("refused".to_owned(), 10)].into(),
                lost: [("closed".to_owned(), 10)].into(),
                first_error: Some(FirstError {
                    at_ns: 39_000_000_000,
                    open: 3_900,
                    message: "connect to 127.0.0.1:9080: Connection refused".into(),
                }),
                costs: vec![HeldCost {
                    role: "holder".into(),
                    before_bytes: 1 << 20,
                    held_bytes: 5 << 20,
                    each_bytes: 1_048.0,
                }],
                points: (1..=50).map(point).collect(),
                ..Held::default()
            }),
            ..CaseResult::default()
        }
    }

    #[test]
    fn a_result_names_what_was_held_why_the_rest_was_not_and_what_it_cost() {
        let text = render(&result(), Paint::Plain).join("\n");
        for part in [
            "5,000 connections to 127.0.0.1:9080",
            "3,990 of 5,000 when holding ended, 4,000 at most; held for 10.0 s",
            "4,000 in 40.0 s",
            "1,000: refused 10, timed out 990",
            "lost          10: closed 10",
            "after 39.0 s: connect to 127.0.0.1:9080: Connection refused",
            "holder",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let rows = text.lines().filter(|line| line.trim_end().ends_with(" 0")).count();
        assert!((ROWS_MAX / 2..=ROWS_MAX).contains(&rows), "{text}");
        assert!(text.contains("50.0 s  5,000"), "the last point is shown: {text}");
    }

    #[test]
    fn limits_in_the_way_come_with_their_commands() {
        let limits_now = Limits {
            descriptors: 1_024,
            descriptors_possible: 1_048_576,
            files_free: u64::MAX,
            ports: 28_232,
            port_first: 32_768,
            listen_queue: 4_096,
            tracked_free: None,
            memory_bytes: 8 << 30,
        };
        let rows: Vec<Advice> =
            advise(&Need { connections: 5_000, ..Need::default() }, &limits_now);
        let text = limits(&rows, Paint::Plain).join("\n");
        for part in ["TOO SMALL", "prlimit --pid $$ --nofile=5100:5100", "tight", "somaxconn=5000"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_line_tells_how_it_goes() {
        let line = progress(&Progress {
            phase: Phase::Holding,
            elapsed: Duration::from_secs(12),
            held: (Duration::from_secs(10), Duration::from_millis(2_500)),
            wanted: 1_000,
            now: HeldPoint { open: 990, failed: 10, ..HeldPoint::default() },
            rate: 0.0,
        });
        assert_eq!(line.trim(), "12.0 s  990 of 1,000 open, holding, 8 s left, 10 failed, 0 lost");
    }
}
