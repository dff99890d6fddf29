//! A report as a web page: one file that works without a network, in light and dark, on paper and on a
//! phone. Tables, percentile spectrum and histograms are made here and need no script; the charts over
//! time are drawn by the page's own script from the data that the page holds.
//!
//! Nothing a result says can become markup: see `html/markup.rs`.

mod column;
mod environment;
mod figure;
mod headline;
mod markup;
mod row;
mod warnings;

use markup::Html;

use super::Report;

/// The page of a report.
pub fn render(report: &Report) -> String {
    let rows = row::rows(&report.results);
    let layout = column::layout(report.suite.as_deref());
    let mut html = Html::default();
    html.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.element("title", &[], title(report)).raw("</head><body><main>");
    html.element("h1", &[], title(report));
    warnings::write(&mut html, report);
    let notes = headline::Notes {
        caption: "Results by subject and case",
        behind_subject: "",
        warnings: &report.warnings,
    };
    headline::write(&mut html, &layout, &rows, &notes);
    environment::write(&mut html, report);
    html.raw("</main></body></html>\n");
    html.into_string()
}

fn title(report: &Report) -> &str {
    if report.title.is_empty() { "Measurement" } else { &report.title }
}
