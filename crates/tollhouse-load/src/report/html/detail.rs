//! Detail tables: corrected and uncorrected times, connections, failures, processes, and figures
//! without a column in the headline table.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::column::Layout;
use super::figure;
use super::markup::Html;
use super::palette::Palette;
use super::row::{Percentile, Row, percentile_of, subjects, usage_of};
use super::table::{self, Cell, Direction, Group, Head, Line, NameSpans, OnPhones, Table};
use crate::distribution::Distribution;
use crate::result::CaseResult;

/// Maximum number of failure messages per row; the result file holds all.
const MESSAGES_MAX: usize = 3;
/// Maximum number of columns for extra figures; the result file holds all.
const EXTRAS_MAX: usize = 12;

const fn head(text: &'static str, unit: &'static str, title: &'static str) -> Head {
    Head {
        text: Cow::Borrowed(text),
        unit,
        title: Cow::Borrowed(title),
        class: "",
        direction: Direction::None,
    }
}

const fn words(text: &'static str, title: &'static str) -> Head {
    Head {
        text: Cow::Borrowed(text),
        unit: "",
        title: Cow::Borrowed(title),
        class: "left",
        direction: Direction::None,
    }
}

/// Groups lines by subject. Each row yields zero or more lines.
fn groups(
    rows: &[Row<'_>],
    palette: &Palette<'_>,
    lines: impl Fn(&Row<'_>) -> Vec<Line>,
) -> Vec<Group> {
    let group = |subject: &str| Group {
        label: subject.to_owned(),
        colour: palette.class_of(subject),
        lines: rows.iter().filter(|row| row.subject == subject).flat_map(&lines).collect(),
        ..Group::default()
    };
    let groups = subjects(rows).into_iter().map(group);
    groups.filter(|group| !group.lines.is_empty()).collect()
}

fn line(row: &Row<'_>, cells: Vec<Cell>) -> Line {
    Line { name: row.name.to_owned(), cells, ..Line::default() }
}

/// Writes corrected and uncorrected times, if requests had a schedule.
pub(super) fn write_schedule(html: &mut Html, rows: &[Row<'_>], palette: &Palette<'_>) {
    let groups = groups(rows, palette, |row| scheduled(row).into_iter().collect());
    if groups.is_empty() {
        return;
    }
    let pair = "From the intended start; below it from sending, which hides what waited";
    let table = Table {
        caption: "Latency from the intended start, and the time from sending",
        first_head: "Case",
        headings: vec![
            ("Schedule".into(), 5),
            ("Latency, below it the time from sending".into(), 5),
        ],
        heads: vec![
            head("Asked for", "1/s", "The mean rate of the schedule"),
            head("Sent and ended", "1/s", "Completed requests a second"),
            head("Never sent", "", "Requests that were due and not sent before the end"),
            head("Slip", "p99, ms", "How long after its intended start a request was sent"),
            head("Slip", "max, ms", "The same, the longest"),
            Head { class: "ruled", ..head("p50", "ms", pair) },
            head("p90", "ms", pair),
            head("p99", "ms", pair),
            head("p99.9", "ms", pair),
            head("max", "ms", pair),
        ],
        groups,
        on_phones: OnPhones::Scrolls,
    };
    html.fold("schedule", "Was the schedule kept?");
    table::write(html, &table);
    html.end_fold();
}

fn scheduled(row: &Row<'_>) -> Option<Line> {
    let uncorrected = row.uncorrected.as_ref()?;
    let slip = row.runs.iter().filter_map(|run| run.slip.as_ref());
    // The maximum over the runs, because a slip is an error of the generator that other runs do not
    // compensate.
    let slip_p99 =
        slip.clone().filter_map(|slip| percentile_of(slip, 99.0).known()).reduce(f64::max);
    let slip_max = slip.filter(|slip| slip.count > 0).map(|slip| slip.max_ns).max();
    let pair = |percent: f64| {
        let below = percentile_of(uncorrected, percent).known();
        Cell {
            below: below.map(figure::milliseconds).unwrap_or_default(),
            ..Cell::percentile(row.percentile(percent))
        }
    };
    let mut cells = vec![
        Cell::known(row.first().intended_rate.map(figure::number)),
        Cell::spread(row.rate()),
        Cell::text(figure::count(row.sum(|run| run.counts.unsent))),
        Cell::known(slip_p99.map(figure::milliseconds)),
        Cell::known(slip_max.map(|max| figure::milliseconds(max as f64))),
    ];
    cells.extend([50.0, 90.0, 99.0, 99.9].map(pair));
    cells.push(Cell {
        below: figure::milliseconds(uncorrected.max_ns as f64),
        ..Cell::known(row.max_ns().map(figure::milliseconds))
    });
    Some(line(row, cells))
}

/// Writes the figures of requests and connections.
pub(super) fn write_exchanges(html: &mut Html, rows: &[Row<'_>], palette: &Palette<'_>) {
    let counted = |row: &Row<'_>| match row.sum(|run| run.counts.completed) {
        0 => Vec::new(),
        _ => vec![exchanges(row)],
    };
    let groups = groups(rows, palette, counted);
    if groups.is_empty() {
        return;
    }
    let table = Table {
        caption: "Requests, connections, bytes and failures",
        first_head: "Case",
        headings: Vec::new(),
        heads: vec![
            head("Completed", "", "Requests that ended, failed ones included"),
            head("Unfinished", "", "Requests under way when the run ended"),
            head("Connections opened", "", "In all, warm-up included"),
            head("Requests", "per connection", "Completed requests over connections opened"),
            head("Connect", "p50, ms", "Opening a connection until it can carry a request"),
            head("First byte", "p50, ms", "From sending to the first byte of the answer"),
            head("First byte", "p99, ms", "From sending to the first byte of the answer"),
            head("Received", "", "Bytes received, heads included"),
            words("Statuses", "Whole answers by status"),
            words("Failures", "By class, with the most frequent messages"),
        ],
        groups,
        on_phones: OnPhones::Scrolls,
    };
    html.fold("exchanges", "Requests, connections and failures");
    table::write(html, &table);
    html.end_fold();
}

fn exchanges(row: &Row<'_>) -> Line {
    let completed = row.sum(|run| run.counts.completed);
    let opened = row.sum(|run| run.counts.connections_opened);
    // The run with most samples represents all runs.
    let most = |times: fn(&CaseResult) -> &Distribution, percent: f64| {
        let fullest = row.runs.iter().map(|run| times(run)).max_by_key(|times| times.count);
        Cell::percentile(fullest.map_or(Percentile::Unknown, |times| percentile_of(times, percent)))
    };
    let failures = added_up(row, |run| &run.counts.failures);
    let messages = added_up(row, |run| &run.counts.messages);
    let shown: Vec<_> = messages.iter().take(MESSAGES_MAX).map(|(message, _)| *message).collect();
    let cells = vec![
        Cell::text(figure::count(completed)),
        Cell::text(figure::count(row.sum(|run| run.counts.unfinished))),
        Cell::counted(opened),
        Cell::known((opened > 0).then(|| figure::number(completed as f64 / opened as f64))),
        most(|run| &run.connect, 50.0),
        most(|run| &run.first_byte, 50.0),
        most(|run| &run.first_byte, 99.0),
        Cell::size(row.sum(|run| run.counts.received_bytes)),
        Cell::text(listed(&added_up(row, |run| &run.counts.statuses))),
        Cell { below: shown.join("; "), ..Cell::text(listed(&failures)) },
    ];
    line(row, cells)
}

/// Sums counts over all runs by name, most frequent first.
fn added_up<'r>(
    row: &'r Row<'_>,
    counts: impl Fn(&'r CaseResult) -> &'r BTreeMap<String, u64>,
) -> Vec<(&'r str, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in row.runs.iter().flat_map(|run| counts(run)) {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(*count);
    }
    let mut sums: Vec<_> = sums.into_iter().filter(|(_, count)| *count > 0).collect();
    sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sums
}

fn listed(counts: &[(&str, u64)]) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let text = |(name, count): &(&str, u64)| format!("{name}: {}", figure::count(*count));
    counts.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Writes the resource use of every watched process.
pub(super) fn write_processes(html: &mut Html, rows: &[Row<'_>], palette: &Palette<'_>) {
    let lines = |row: &Row<'_>| {
        let roles = row.roles();
        let spans = |number: usize| match (number, roles.len()) {
            // The name of the case spans the lines of all its processes.
            (0, 1) => NameSpans::One,
            (0, several) => NameSpans::Several(several),
            _ => NameSpans::Covered,
        };
        let line = |(number, role): (usize, &&str)| Line {
            name_spans: spans(number),
            ..process(row, role)
        };
        roles.iter().enumerate().map(line).collect()
    };
    let groups = groups(rows, palette, lines);
    if groups.is_empty() {
        return;
    }
    let table = Table {
        caption: "What the processes used",
        first_head: "Case",
        headings: Vec::new(),
        heads: vec![
            words("Process", "Its part in the case, and its command"),
            head("CPU", "cores", "Cores that it kept busy on average"),
            head("CPU-s", "per 1000", "CPU seconds for a thousand completed requests"),
            head("In the kernel", "", "Share of its CPU time spent in the kernel"),
            head("Memory", "", "The largest resident memory"),
            head("Threads", "", "The most at one time"),
            head("Descriptors", "", "The most open at one time"),
            head("Switches", "per request", "Context switches for a completed request"),
        ],
        groups,
        on_phones: OnPhones::Scrolls,
    };
    html.fold("processes", "What it cost");
    table::write(html, &table);
    html.end_fold();
}

fn process(row: &Row<'_>, role: &str) -> Line {
    let all =
        || row.runs.iter().flat_map(|run| &run.processes).filter(|process| process.role == role);
    let usage = usage_of(&row.runs, role);
    let kernel_seconds: f64 = all().map(|process| process.system_seconds).sum();
    let cpu_seconds: f64 = all().map(|process| process.cpu_seconds()).sum();
    let switches: u64 =
        all().map(|process| process.voluntary_switches + process.involuntary_switches).sum();
    let most = |figure: fn(&crate::result::ResourceSample) -> u64| {
        all().flat_map(|process| &process.samples).map(figure).max().unwrap_or(0)
    };
    let command = all().next().map(|process| process.command.clone()).unwrap_or_default();
    let completed = row.sum(|run| run.counts.completed) as f64;
    let cells = vec![
        Cell { below: command, ..Cell::text(role) },
        Cell::known(usage.map(|used| figure::cores(used.cores))),
        Cell::known(usage.map(|used| figure::number(used.seconds_per_1000))),
        Cell::known((cpu_seconds > 0.0).then(|| figure::percent(kernel_seconds / cpu_seconds))),
        Cell::known(usage.map(|used| figure::memory(used.rss_bytes_max))),
        Cell::counted(most(|sample| sample.threads)),
        Cell::counted(most(|sample| sample.descriptors)),
        Cell::known((switches > 0).then(|| figure::number(switches as f64 / completed))),
    ];
    line(row, cells)
}

/// Writes the extra figures that a suite added.
pub(super) fn write_extras(
    html: &mut Html,
    layout: &Layout,
    rows: &[Row<'_>],
    palette: &Palette<'_>,
) {
    let runs = rows.iter().flat_map(|row| &row.runs);
    let names: BTreeSet<&str> = runs.flat_map(|run| run.extra.keys().map(String::as_str)).collect();
    let unseen = names.into_iter().filter(|name| !layout.shows_extra(name));
    let names: Vec<&str> = unseen.take(EXTRAS_MAX).collect();
    if names.is_empty() {
        return;
    }
    let of_row = |row: &Row<'_>| {
        let figure = |name: &str| row.spread(|run| run.extra.get(name).copied());
        let cell = |name: &&str| Cell { title: (*name).to_owned(), ..Cell::spread(figure(name)) };
        let has_any = names.iter().any(|name| figure(name).is_some());
        if has_any { vec![line(row, names.iter().map(cell).collect())] } else { Vec::new() }
    };
    html.fold("extras", "Further figures");
    let table = Table {
        caption: "Further figures",
        first_head: "Case",
        heads: names
            .iter()
            .map(|name| Head { text: name.replace('_', " ").into(), ..Head::default() })
            .collect(),
        groups: groups(rows, palette, of_row),
        ..Table::default()
    };
    table::write(html, &table);
    html.end_fold();
}
