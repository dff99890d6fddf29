//! Text of a single case in full.

use std::time::Duration;

use super::super::figure;
use super::super::paint::Paint;
use super::{BEYOND_MIN, known, name, percentile, table};
use crate::case::Threshold;
use crate::connections;
use crate::distribution::Distribution;
use crate::pace::Pace;
use crate::result::{CaseResult, End, ProcessSeries};
use tollhouse_stdx::fine_duration;

/// Percentiles in the rows of the table.
const ROWS: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
/// Maximum number of messages per case; the JSON file holds all.
const MESSAGES_MAX: usize = 8;

/// Renders the figures of one result for a terminal.
pub fn render(result: &CaseResult, paint: Paint) -> Vec<String> {
    if result.held.is_some() {
        return connections::text::render(result, paint);
    }
    let mut lines = vec![paint.strong(name(result))];
    lines.extend(conditions(result).into_iter().map(|line| format!("  {}", paint.faint(line))));
    lines.push(String::new());
    lines.extend(headline(result, paint));
    lines.push(String::new());
    lines.extend(times(result, paint));
    lines.extend(failures(result, paint));
    lines.extend(resources(result, paint));
    lines.extend(thresholds(result, paint));
    lines
}

/// Describes the load: protocol, connections, rate and duration.
fn conditions(result: &CaseResult) -> Vec<String> {
    let mut lines = Vec::new();
    let mut load = Vec::new();
    // The configured rate, because the planned rate of a short run differs slightly.
    let asked = result.case.as_ref().and_then(|case| match case.load.pace {
        Pace::Rate(rate) => Some(rate),
        _ => None,
    });
    match (result.open_loop, asked.or(result.intended_rate)) {
        (true, Some(rate)) => load.push(format!("open loop at {}/s", figure::rate(rate))),
        (true, None) => load.push("open loop".to_owned()),
        (false, _) => load.push("closed loop".to_owned()),
    }
    if result.concurrency > 0 {
        load.push(plural(result.concurrency, "connection"));
    }
    if let Some(case) = &result.case {
        if case.target != result.name {
            lines.push(case.target.clone());
        }
        if case.load.streams > 1 {
            let streams = case.load.streams as u64;
            let connections = case.load.connections as u64;
            load.pop();
            load.push(plural(connections, "connection"));
            load.push(format!("{} each", plural(streams, "stream")));
        }
        if !case.load.keep_alive {
            load.push("a new connection for each request".to_owned());
        }
    }
    if result.workers > 0 {
        load.push(plural(result.workers, "worker"));
    }
    lines.push(load.join(", "));
    lines.extend(measured(result));
    lines
}

fn plural(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", figure::count(count))
}

fn measured(result: &CaseResult) -> Option<String> {
    if result.elapsed_ns == 0 {
        return None;
    }
    // Tenths of a second suffice for long durations but not for those below a second.
    let elapsed = match Duration::from_nanos(result.elapsed_ns) {
        elapsed if elapsed < Duration::from_secs(1) => figure::time(result.elapsed_ns as f64),
        elapsed => figure::seconds(elapsed),
    };
    let mut text = format!("measured {elapsed}");
    let warm_up = result.case.as_ref().map_or(Duration::ZERO, |case| case.load.warm_up);
    if !warm_up.is_zero() {
        text.push_str(&format!(" after {} of warm-up", fine_duration::format(warm_up)));
    }
    if result.end == End::Interrupted {
        text.push_str(", then interrupted");
    } else if let Some(bound) = first_bound(result) {
        text.push_str(&format!(", then {bound} was reached"));
    }
    Some(text)
}

/// Returns the limit that ended the run, if the case has two.
fn first_bound(result: &CaseResult) -> Option<String> {
    let load = &result.case.as_ref()?.load;
    let (requests, duration) = (load.requests?, load.duration?);
    Some(if result.counts.completed >= requests {
        format!("the bound of {}", plural(requests, "request"))
    } else {
        format!("the bound of {}", fine_duration::format(duration))
    })
}

/// Returns the lines for goodput, requests and bytes.
fn headline(result: &CaseResult, paint: Paint) -> Vec<String> {
    let counts = &result.counts;
    let goodput = format!("{} successful requests/s", figure::rate(result.goodput));
    let mut lines = vec![format!("  goodput     {}", paint.strong(goodput))];
    let failed_share = counts.failed as f64 / counts.completed.max(1) as f64;
    let failed =
        format!("{} failed ({})", figure::count(counts.failed), figure::percent(failed_share));
    let failed = if counts.failed > 0 { paint.bad(failed) } else { failed };
    let completed = figure::count(counts.completed);
    lines.push(format!("  requests    {completed} completed, {failed}"));
    // Unsent requests have no times, so that only this line reports them.
    if counts.unsent > 0 {
        let unsent = format!("{} were due and never sent", figure::count(counts.unsent));
        lines.push(format!("              {}", paint.bad(unsent)));
    }
    if counts.unfinished > 0 {
        let unfinished = figure::count(counts.unfinished);
        lines.push(format!("              {unfinished} were under way at the end and not counted"));
    }
    if !counts.statuses.is_empty() {
        let statuses: Vec<String> = counts
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {}", figure::count(*count)))
            .collect();
        lines.push(format!("  statuses    {}", statuses.join(", ")));
    }
    let seconds = result.elapsed_ns as f64 / 1e9;
    if counts.received_bytes > 0 && seconds > 0.0 {
        let received = figure::bytes(counts.received_bytes as f64);
        let a_second = figure::bytes(counts.received_bytes as f64 / seconds);
        let body = figure::bytes(counts.body_bytes as f64 / counts.succeeded.max(1) as f64);
        let sent = figure::bytes(counts.sent_bytes as f64);
        lines.push(format!(
            "  bytes       {received} received ({a_second}/s, {body} of body each), {sent} sent"
        ));
    }
    if counts.connections_opened > 0 {
        let opened = plural(counts.connections_opened, "connection");
        let reused = plural(counts.reused, "request");
        lines.push(format!("  opened      {opened}; {reused} reused one"));
    }
    lines
}

/// Returns a table of times: one column per nonempty distribution.
fn times(result: &CaseResult, paint: Paint) -> Vec<String> {
    let mut columns: Vec<(&str, &Distribution)> = Vec::new();
    if let Some(latency) = &result.latency {
        columns.push(("latency", latency));
        columns.push(("uncorrected", &result.response_time));
    } else {
        columns.push(("response time", &result.response_time));
    }
    columns.push(("first byte", &result.first_byte));
    columns.push(("connect", &result.connect));
    if let Some(slip) = &result.slip {
        columns.push(("sent late by", slip));
    }
    columns.retain(|(_, distribution)| !distribution.is_empty());
    if columns.is_empty() {
        return vec!["  No answer was timed.".to_owned()];
    }
    let mut rows = vec![row("", columns.iter().map(|(name, _)| (*name).to_owned()))];
    let of = |figure: &dyn Fn(&Distribution) -> String| -> Vec<String> {
        columns.iter().map(|(_, distribution)| figure(distribution)).collect()
    };
    rows.push(row("mean", of(&|times| known(times.mean_ns))));
    rows.push(row("stdev", of(&|times| figure::time(times.stdev_ns))));
    rows.push(row("min", of(&|times| known(times.min_ns as f64))));
    for percent in ROWS {
        let cells = of(&|times| percentile(times, percent));
        // Percentiles above p99 are omitted if they have too few samples; p50 to p99 always appear,
        // so that tables are comparable.
        if cells.first().is_some_and(|cell| cell == figure::NONE) && percent > 99.0 {
            continue;
        }
        rows.push(row(&figure::percentile_name(percent), cells));
    }
    rows.push(row("max", of(&|times| known(times.max_ns as f64))));
    let mut lines = table::columns(&rows, 2);
    if let Some(first) = lines.first_mut() {
        *first = paint.faint(&first);
    }
    lines.extend(footnote(result).into_iter().map(|line| format!("  {}", paint.faint(line))));
    lines
}

fn row(name: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// Explains the figures, and names those left out.
fn footnote(result: &CaseResult) -> Vec<String> {
    let mut lines = Vec::new();
    if result.open_loop {
        lines.push(
            "latency counts from the instant a request was due, uncorrected from when it was sent"
                .into(),
        );
    } else {
        lines.push(
            "closed loop: the response time at saturation, not the latency at a given load".into(),
        );
    }
    let times = result.headline();
    let untold = ROWS.into_iter().find(|percent| !times.supports(*percent, BEYOND_MIN));
    if let Some(percent) = untold.filter(|_| !times.values.is_empty()) {
        let name = figure::percentile_name(percent);
        let count = figure::count(times.count);
        lines.push(format!(
            "{name} and beyond are left out: of {count} samples fewer than {BEYOND_MIN} lie above"
        ));
    }
    lines
}

fn failures(result: &CaseResult, paint: Paint) -> Vec<String> {
    let counts = &result.counts;
    if counts.failures.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), format!("  {}", paint.strong("failures"))];
    let classes = counts.failures.iter();
    let rows: Vec<Vec<String>> =
        classes.map(|(class, count)| vec![class.clone(), figure::count(*count)]).collect();
    lines.extend(table::columns(&rows, 4).into_iter().map(|line| paint.bad(line)));
    let mut messages: Vec<(&String, &u64)> = counts.messages.iter().collect();
    messages.sort_by_key(|(message, count)| (std::cmp::Reverse(**count), *message));
    for (message, count) in messages.iter().take(MESSAGES_MAX) {
        lines.push(format!("    {}× {message}", figure::count(**count)));
    }
    if messages.len() > MESSAGES_MAX {
        lines.push(format!("    and {} other messages", messages.len() - MESSAGES_MAX));
    }
    lines
}

fn resources(result: &CaseResult, paint: Paint) -> Vec<String> {
    if result.processes.is_empty() {
        return Vec::new();
    }
    let heads = ["", "CPU", "CPU-s/1000 requests", "memory at most"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(result.processes.iter().map(|process| usage(result, process)));
    let mut lines = vec![String::new()];
    let mut table = table::columns(&rows, 2);
    if let Some(first) = table.first_mut() {
        *first = paint.faint(&first);
    }
    lines.extend(table);
    lines
}

fn usage(result: &CaseResult, process: &ProcessSeries) -> Vec<String> {
    let seconds = (result.elapsed_ns as f64 / 1e9).max(f64::MIN_POSITIVE);
    let succeeded = result.counts.succeeded;
    let each = if succeeded == 0 {
        figure::NONE.to_owned()
    } else {
        format!("{:.4}", process.cpu_seconds() * 1e3 / succeeded as f64)
    };
    vec![
        process.role.clone(),
        format!("{:.2} cores", process.cpu_seconds() / seconds),
        each,
        figure::memory(process.rss_bytes_max),
    ]
}

fn thresholds(result: &CaseResult, paint: Paint) -> Vec<String> {
    let asked = result.case.as_ref().map_or(&[][..], |case| case.thresholds.as_slice());
    if asked.is_empty() && result.missed_thresholds.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), format!("  {}", paint.strong("thresholds"))];
    let is_missed = |threshold: &Threshold| {
        let start = threshold.to_string();
        result.missed_thresholds.iter().any(|missed| missed.starts_with(&start))
    };
    let met = asked.iter().filter(|threshold| !is_missed(threshold));
    lines.extend(met.map(|threshold| format!("    {}     {threshold}", paint.good("met"))));
    let missed = result.missed_thresholds.iter();
    lines.extend(missed.map(|missed| format!("    {}  {missed}", paint.bad("missed"))));
    lines
}
