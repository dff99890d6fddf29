//! Report as text for a terminal or mail: one case in full, or a table of several; then missed
//! thresholds, warnings, and finally the verdict.

mod case;
pub mod table;

use std::fmt::Write as _;

use tollhouse_stdx::plural;

use super::figure;
use super::html;
use super::paint::Paint;
use super::{Report, Severity, Spread, Warning};
use crate::distribution::Distribution;
use crate::plan::DIRECT;
use crate::result::{CaseResult, End};

pub use case::render as render_case;

/// Minimum number of samples beyond a percentile for it to be printed.
pub const BEYOND_MIN: u64 = 10;
/// Line width of warnings, for the narrowest usual terminal.
const WIDTH: usize = 79;

/// Warnings that a text shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Only the number of warnings and the gravest, in at most three lines.
    Brief,
    /// All in full.
    Full,
}

/// Renders the report: a single case in full, several as a table.
pub fn render(report: &Report, paint: Paint, detail: Detail) -> String {
    let results = match report.results.as_slice() {
        [] if report.published.is_empty() => spaced(vec!["No case was measured.".to_owned()]),
        [] => Vec::new(),
        // A title equal to the case's name is not repeated.
        [result] if name(result) == report.title => case::render(result, paint).split_off(1),
        [result] => spaced(case::render(result, paint)),
        results => spaced(overview(results, paint)),
    };
    framed(report, results, paint, detail)
}

/// Renders the report with every case in full.
pub fn render_full(report: &Report, paint: Paint) -> String {
    let cases = report.results.iter().map(|result| case::render(result, paint));
    framed(report, cases.flat_map(spaced).collect(), paint, Detail::Full)
}

fn spaced(mut lines: Vec<String>) -> Vec<String> {
    lines.insert(0, String::new());
    lines
}

/// Adds title, warnings and verdict around the results.
fn framed(report: &Report, results: Vec<String>, paint: Paint, detail: Detail) -> String {
    let mut lines = Vec::new();
    let title = if report.title.is_empty() { "tollhouse bench" } else { report.title.as_str() };
    let label = &report.environment.label;
    let place = if label.is_empty() { String::new() } else { format!("  ({label})") };
    lines.push(format!("{}{place}", paint.strong(title)));
    if !report.about.is_empty() {
        lines.extend(table::wrapped(&report.about, WIDTH));
    }
    lines.extend(results);
    if !report.published.is_empty() {
        lines.push(String::new());
        lines.push(paint.strong("Published"));
        lines.extend(overview(&report.published, paint));
    }
    lines.extend(match detail {
        Detail::Brief => brief(&report.warnings, paint),
        Detail::Full => warnings(&report.warnings, paint),
    });
    lines.extend(verdict(report, paint));
    lines.iter().fold(String::new(), |mut text, line| {
        writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
        text
    })
}

/// Returns a table with one line per case, and the problems of some.
fn overview(results: &[CaseResult], paint: Paint) -> Vec<String> {
    let heads =
        ["", "goodput/s", "failed", "p50", "p90", "p99", "p99.9", "mean", "max", "CPU-s/1000"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(results.iter().map(row));
    let mut lines = table::columns(&rows, 2);
    lines.extend(spreads(results));
    lines.extend(against_peers(results, paint));
    let ends = results.iter().filter(|result| result.end == End::Interrupted);
    lines.extend(ends.map(|result| format!("  {} was interrupted.", name(result))));
    let mut missed = Vec::new();
    // Below the table, so that missed thresholds are not overlooked in a column.
    for result in results {
        let lines = result.missed_thresholds.iter();
        missed.extend(lines.map(|line| paint.bad(format!("  missed  {}: {line}", name(result)))));
    }
    if !missed.is_empty() {
        lines.push(String::new());
        lines.push(paint.strong("Thresholds"));
        lines.extend(missed);
    }
    let failed: Vec<String> = results.iter().filter_map(failures).collect();
    if !failed.is_empty() {
        lines.push(String::new());
        lines.push(paint.strong("Failures"));
        lines.extend(failed.into_iter().map(|line| format!("  {}", paint.bad(line))));
    }
    lines
}

/// Lists median and range of the goodput for every repeated case.
fn spreads(results: &[CaseResult]) -> Vec<String> {
    let key = |result: &CaseResult| (result.subject.clone(), result.name.clone());
    let mut lines = Vec::new();
    for (index, first) in results.iter().enumerate() {
        let runs = || results.iter().filter(|result| key(result) == key(first));
        let is_first = results[..index].iter().all(|before| key(before) != key(first));
        let Some(spread) = Spread::from_values(runs().map(|run| run.goodput)) else { continue };
        if is_first && spread.runs > 1 {
            let [median, low, high] = [spread.median, spread.low, spread.high].map(figure::rate);
            let runs = spread.runs;
            let label = label(first);
            lines.push(format!("  {label}: {median}/s, from {low} to {high} in {runs} runs"));
        }
    }
    if lines.is_empty() { lines } else { std::iter::once(String::new()).chain(lines).collect() }
}

fn row(result: &CaseResult) -> Vec<String> {
    let times = result.headline();
    let percentile = |percent| percentile(times, percent);
    let counts = &result.counts;
    let failed = if !result.knows_failures() {
        figure::NONE.to_owned()
    } else {
        figure::count(counts.failed)
    };
    vec![
        name(result),
        figure::rate(if result.goodput > 0.0 { result.goodput } else { result.rate }),
        failed,
        percentile(50.0),
        percentile(90.0),
        percentile(99.0),
        percentile(99.9),
        known(times.mean_ns),
        known(times.max_ns as f64),
        cpu_per_thousand(result).unwrap_or_else(|| figure::NONE.into()),
    ]
}

/// Returns subject and case as one text.
fn label(result: &CaseResult) -> String {
    match (result.subject.as_str(), result.name.as_str()) {
        ("", "") => "case".to_owned(),
        ("", only) | (only, "") => only.to_owned(),
        (subject, name) => format!("{subject}, {name}"),
    }
}

/// Returns subject, case and number of the repetition.
fn name(result: &CaseResult) -> String {
    let mut name = label(result);
    if result.repetition > 1 {
        write!(name, " #{}", result.repetition).expect("writing to a string cannot fail");
    }
    name
}

fn failures(result: &CaseResult) -> Option<String> {
    let by_class: Vec<String> =
        result.counts.failures.iter().map(|(class, count)| format!("{count} {class}")).collect();
    let message = result.counts.messages.iter().max_by_key(|(_, count)| **count);
    let message = message.map_or(String::new(), |(message, _)| format!(": {message}"));
    (!by_class.is_empty()).then(|| format!("{}: {}{message}", name(result), by_class.join(", ")))
}

/// Formats a percentile, or a dash if too few samples lie beyond it. Percentiles of a table are
/// shown as given.
fn percentile(times: &Distribution, percent: f64) -> String {
    let is_supported = times.values.is_empty() || times.supports(percent, BEYOND_MIN);
    match times.percentile_ns(percent) {
        Some(value) if is_supported => figure::time(value as f64),
        _ => figure::NONE.into(),
    }
}

fn known(nanoseconds: f64) -> String {
    if nanoseconds > 0.0 { figure::time(nanoseconds) } else { figure::NONE.into() }
}

/// Formats the CPU seconds of the target per 1000 successful requests, without those of its
/// upstream.
fn cpu_per_thousand(result: &CaseResult) -> Option<String> {
    let target = result.processes.iter().find(|process| process.role == "target")?;
    let (seconds, requests) = (target.cpu_seconds(), result.counts.succeeded);
    (seconds > 0.0 && requests > 0).then(|| format!("{:.3}", seconds * 1e3 / requests as f64))
}

/// Subject that the verdict compares with its peers.
const OURS: &str = "tollhouse";

/// Lists the ratio of our goodput to that of each peer, one line per common case.
fn against_peers(results: &[CaseResult], paint: Paint) -> Vec<String> {
    let goodput = |subject: &str, name: &str| {
        let runs = results.iter().filter(|run| run.subject == subject && run.name == name);
        Spread::from_values(runs.map(|run| run.goodput)).filter(|spread| spread.median > 0.0)
    };
    let mut names: Vec<&str> = Vec::new();
    let mut peers: Vec<&str> = Vec::new();
    for result in results {
        let (subject, name) = (result.subject.as_str(), result.name.as_str());
        if subject == OURS && !names.contains(&name) {
            names.push(name);
        }
        // Subjects such as `tollhouse, cached` are variants of ours, and the baseline is not a
        // peer.
        let is_peer = !subject.is_empty() && !subject.starts_with(OURS) && subject != DIRECT;
        if is_peer && !peers.contains(&subject) {
            peers.push(subject);
        }
    }
    let line = |name: &&str| {
        let ours = goodput(OURS, name)?;
        let ratios = peers.iter().filter_map(|peer| {
            let ratio = ours.median / goodput(peer, name)?.median;
            Some(format!("{ratio:.2} × {peer}"))
        });
        let ratios: Vec<String> = ratios.collect();
        (!ratios.is_empty()).then(|| format!("  {name}: {}", ratios.join(", ")))
    };
    let lines: Vec<String> = names.iter().filter_map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    let heading = paint.strong("Goodput against peers (above 1: Tollhouse answers more)");
    [String::new(), heading].into_iter().chain(lines).collect()
}

/// Renders the verdict, at the end because that part of a long report stays visible on a terminal.
fn verdict(report: &Report, paint: Paint) -> Vec<String> {
    let sentences = html::verdict(report);
    if sentences.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), paint.strong("Verdict")];
    for sentence in &sentences {
        lines.extend(table::wrapped(&sentence.text, WIDTH - 2).iter().map(|it| format!("  {it}")));
        let quoting = table::wrapped(&sentence.quoting(), WIDTH - 4);
        lines.extend(quoting.into_iter().map(|line| match sentence.may_be_quoted {
            Ok(()) => format!("    {line}"),
            Err(_) => format!("    {}", paint.doubtful(line)),
        }));
    }
    lines
}

/// Number of warnings that are quoted in brief.
const QUOTED_MAX: usize = 2;

/// Renders the number of warnings and a line for the gravest.
fn brief(warnings: &[Warning], paint: Paint) -> Vec<String> {
    let sorted = by_severity(warnings);
    let count = |severity| sorted.iter().filter(|warning| warning.severity == severity).count();
    let counts: Vec<String> = [
        (count(Severity::Invalid), "invalid figure"),
        (count(Severity::Caution), "caution"),
        (count(Severity::Note), "note"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, noun)| plural::counted(count, noun))
    .collect();
    if counts.is_empty() {
        return Vec::new();
    }
    let heading = format!("{} (--verbose shows them)", counts.join(", "));
    let mut lines = vec![String::new(), paint.strong(heading)];
    for warning in sorted.iter().filter(|it| it.severity > Severity::Note).take(QUOTED_MAX) {
        let about =
            if warning.about.is_empty() { String::new() } else { format!("{}: ", warning.about) };
        let text = format!("{about}{}", warning.message);
        let mut wrapped = table::wrapped(&text, WIDTH - 12).into_iter();
        let first = wrapped.next().unwrap_or_default();
        let more = if wrapped.next().is_some() { " …" } else { "" };
        lines.push(format!("  {}  {first}{more}", sign(warning.severity, paint)));
    }
    lines
}

fn by_severity(warnings: &[Warning]) -> Vec<&Warning> {
    let mut sorted: Vec<&Warning> = warnings.iter().collect();
    sorted.sort_by_key(|warning| std::cmp::Reverse(warning.severity));
    sorted
}

fn sign(severity: Severity, paint: Paint) -> String {
    match severity {
        Severity::Invalid => paint.bad("INVALID"),
        Severity::Caution => paint.doubtful("caution"),
        Severity::Note => "note   ".to_owned(),
    }
}

/// Renders the warnings, most severe first.
pub fn warnings(warnings: &[Warning], paint: Paint) -> Vec<String> {
    if warnings.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), paint.strong("Warnings")];
    for warning in by_severity(warnings) {
        let word = sign(warning.severity, paint);
        let about =
            if warning.about.is_empty() { String::new() } else { format!("{}: ", warning.about) };
        let text = format!("{about}{} [{}]", warning.message, warning.rule);
        for (index, line) in table::wrapped(&text, WIDTH - 11).into_iter().enumerate() {
            lines.push(if index == 0 {
                format!("  {word}  {line}")
            } else {
                format!("{:11}{line}", "")
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests;
