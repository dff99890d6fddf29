//! Comparison as a table for terminals.

use std::fmt::Write as _;

use super::{CaseComparison, Comparison, Difference, Estimate, FigureComparison, Verdict};
use crate::report::RUNS_MIN;
use crate::report::figure;

const HEADINGS: [&str; 5] = ["", "before", "after", "change", "verdict"];

/// Renders the comparison as plain text that ends in a line break.
pub fn text(comparison: &Comparison) -> String {
    let mut out = format!("before: {}\nafter:  {}\n", comparison.before, comparison.after);
    if !comparison.environment.is_empty() {
        out.push_str("\nThe machines differ; so may the figures, for that reason alone:\n");
        differences(&mut out, &comparison.environment);
    }
    for case in &comparison.cases {
        write_case(&mut out, case);
    }
    for (side, titles) in [("before", &comparison.only_before), ("after", &comparison.only_after)] {
        if !titles.is_empty() {
            line(&mut out, format_args!("\nOnly {side}: {}.", titles.join(", ")));
        }
    }
    if comparison.cases.is_empty() {
        out.push_str(
            "\nNothing to compare: no case of one side has the subject or the name of one of the other.\n",
        );
    }
    if has(comparison, Verdict::Overlapping) {
        out.push_str(
            "\noverlap: the ranges of the runs overlap, so the difference may be chance.\n",
        );
    }
    if has(comparison, Verdict::TooFewRuns) {
        line(
            &mut out,
            format_args!(
                "\ntoo few runs: a single run shows no variance, so that the change may be chance;\nmeasure with \
                 --repeat {RUNS_MIN} on both sides."
            ),
        );
    }
    out
}

fn write_case(out: &mut String, case: &CaseComparison) {
    match &case.measured {
        None => line(out, format_args!("\n{}", case.title())),
        Some(measured) => {
            out.push_str("\nDifferent things were measured:\n");
            line(out, format_args!("  before  {}", measured.before));
            line(out, format_args!("  after   {}", measured.after));
        }
    }
    if !case.differences.is_empty() {
        out.push_str("  not the same load on both sides:\n");
        differences(out, &case.differences);
    }
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(case.figures.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEADINGS.len()).filter_map(width).collect();
    for row in &rows {
        let text = format!(
            "  {:<w0$}  {:>w1$}  {:>w2$}  {:>w3$}  {}",
            row[0],
            row[1],
            row[2],
            row[3],
            row[4],
            w0 = widths[0],
            w1 = widths[1],
            w2 = widths[2],
            w3 = widths[3],
        );
        line(out, format_args!("{}", text.trim_end()));
    }
}

fn row(compared: &FigureComparison) -> [String; 5] {
    let verdict = match compared.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::Overlapping => "overlap",
        Verdict::TooFewRuns => "too few runs",
    };
    [
        compared.figure.name(),
        measured(compared, &compared.before),
        measured(compared, &compared.after),
        change(compared.change()),
        verdict.to_owned(),
    ]
}

/// Formats a value with the range of its runs.
fn measured(compared: &FigureComparison, side: &Estimate) -> String {
    let shown = |value: f64| compared.figure.format(value);
    if side.spread.runs < 2 {
        return shown(side.value);
    }
    format!("{} [{} … {}]", shown(side.value), shown(side.spread.low), shown(side.spread.high))
}

fn change(share: f64) -> String {
    match share {
        share if !share.is_finite() => "new".to_owned(),
        share if share > 0.0 => format!("+{}", figure::percent(share)),
        share if share < 0.0 => format!("-{}", figure::percent(-share)),
        _ => "0 %".to_owned(),
    }
}

fn differences(out: &mut String, differences: &[Difference]) {
    let shown = |text: &str| if text.is_empty() { "not known".to_owned() } else { text.to_owned() };
    for difference in differences {
        let (before, after) = (shown(&difference.before), shown(&difference.after));
        line(out, format_args!("  {}: {before} → {after}", difference.what));
    }
}

fn has(comparison: &Comparison, verdict: Verdict) -> bool {
    let mut figures = comparison.cases.iter().flat_map(|case| &case.figures);
    figures.any(|figure| figure.verdict == verdict)
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes what is written to it");
}
