//! Summary for people, and the list of requests as CSV.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::figures::{Bucket, Figures};

/// Length of the longest histogram bar.
const BAR_CHARS: u64 = 40;
const BAR: &str = "∎";
const COLUMN_GAP: usize = 3;

pub(super) fn text(figures: &Figures<'_>) -> String {
    let mut out = String::from("\nSummary:\n");
    if !figures.options.name.is_empty() {
        put(&mut out, format_args!("  Name:\t\t{}\n", figures.options.name));
    }
    put(&mut out, format_args!("  Count:\t{}\n", figures.count));
    for (label, value_ns) in [
        ("Total", figures.total_ns),
        ("Slowest", figures.slowest_ns),
        ("Fastest", figures.fastest_ns),
        ("Average", figures.average_ns),
    ] {
        put(&mut out, format_args!("  {label}:\t{}\n", time(value_ns)));
    }
    put(&mut out, format_args!("  Requests/sec:\t{:.2}\n", figures.rate));
    put(&mut out, format_args!("\nResponse time histogram:\n{}", bars(&figures.histogram)));
    out.push_str("\nLatency distribution:");
    for (percentage, value_ns) in &figures.latencies {
        put(&mut out, format_args!("\n  {percentage} % in {} ", time(*value_ns)));
    }
    out.push_str("\n\n");
    if !figures.statuses.is_empty() {
        let rows = by_count(&figures.statuses)
            .map(|(status, count)| [format!("  [{status}]"), format!("{count} responses")]);
        put(&mut out, format_args!("Status code distribution:\n{}", columns(rows)));
    }
    out.push('\n');
    if !figures.errors.is_empty() {
        let rows = by_count(&figures.errors)
            .map(|(message, count)| [format!("  [{count}]"), message.clone()]);
        put(&mut out, format_args!("Error distribution:\n{}", columns(rows)));
    }
    out.push('\n');
    out
}

/// Returns one line per request: milliseconds, status, error.
pub(super) fn csv(figures: &Figures<'_>) -> String {
    let mut out = String::from("\nduration (ms),status,error");
    for detail in &figures.details {
        let milliseconds = detail.latency_ns as f64 / 1e6;
        put(&mut out, format_args!("\n{milliseconds:.2},{},{}", detail.status, detail.error));
    }
    out.push('\n');
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes any text");
}

fn time(nanoseconds: u64) -> String {
    if nanoseconds < 10_000 {
        return format!("{nanoseconds} ns");
    }
    let milliseconds = nanoseconds as f64 / 1e6;
    if milliseconds < 1_000.0 {
        return format!("{milliseconds:.2} ms");
    }
    format!("{:.2} s", milliseconds / 1_000.0)
}

fn bars(buckets: &[Bucket]) -> String {
    let mark = |bucket: &Bucket| format!("{:.3}", bucket.mark * 1_000.0);
    let mark_chars = buckets.iter().map(|bucket| mark(bucket).len()).max().unwrap_or(0);
    let highest = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
    let count_chars = highest.to_string().len();
    let mut out = String::new();
    for bucket in buckets {
        let length = (bucket.count * BAR_CHARS + highest / 2) / highest;
        let bar = BAR.repeat(usize::try_from(length).unwrap_or(0));
        let count = format!("[{}]", bucket.count);
        let (mark, count_chars) = (mark(bucket), count_chars + 2);
        let text = format_args!("  {mark:mark_chars$} {count:count_chars$} |{bar}\n");
        put(&mut out, text);
    }
    out
}

/// Sorts by count in descending order, so that equal results give equal texts.
fn by_count(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = (&String, &u64)> {
    let mut rows: Vec<_> = counts.iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    rows.into_iter()
}

/// Formats two columns, each as wide as its widest cell plus a gap.
fn columns(rows: impl Iterator<Item = [String; 2]>) -> String {
    let rows: Vec<[String; 2]> = rows.collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0) + COLUMN_GAP
    };
    let (first, second) = (width(0), width(1));
    rows.iter().map(|row| format!("{:first$}{:second$}\n", row[0], row[1])).collect()
}
