//! Report as a web page: a single file that works offline, in light and dark mode, in print and on
//! phones. The first screen holds the verdict, one bar chart and one table; the rest is folded. Bars,
//! tables, percentile spectrum and histograms are static; the page's own script draws the charts over
//! time from embedded data.
//!
//! All text from results is escaped (`html/markup.rs`).

mod axis;
mod bars;
mod chart;
mod column;
mod comparison;
mod detail;
mod embedded;
mod environment;
mod figure;
mod headline;
mod histogram;
mod markup;
mod palette;
mod plugin_cost;
mod published;
mod row;
mod spectrum;
mod summary;
mod table;
mod tally;
mod thresholds;
mod verdict;
mod warnings;

use chart::Charts;
use column::Layout;
use markup::Html;
use palette::Palette;
use row::{RUNS_TO_RANK_MIN, Row, SAMPLES_BEYOND_MIN};
pub(super) use verdict::verdict;

use super::Report;

/// Content security policy that forbids loading anything, because the page contains all its parts.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

const STYLE: &str = include_str!("../../assets/report/page.css");
const SCRIPT: &str = include_str!("../../assets/report/page.js");
const CHART_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const CHART_SCRIPT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const CHART_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");

/// Renders the page of a report.
pub fn render(report: &Report) -> String {
    let rows = row::rows(&report.results);
    let published = row::rows(&report.published);
    let subjects = row::subjects(&rows).into_iter().chain(row::subjects(&published));
    // Both tables share one palette, so that a subject has the same colour in measured and
    // published figures.
    let palette = Palette::new(subjects);
    let layout = column::layout(report.suite.as_deref());
    let charts = Charts::new(&rows, &published, &palette);
    let mut html = Html::default();
    write_head(&mut html, report);
    write_title(&mut html, report);
    verdict::write(&mut html, report, &rows);
    bars::write(&mut html, report, &rows, &published, &palette);
    summary::write(&mut html, report, &rows, &published);
    thresholds::write(&mut html, report);
    // Everything below is folded behind its heading.
    warnings::write(&mut html, report);
    write_about(&mut html, report);
    write_headline(&mut html, report, &layout, &rows, &palette);
    comparison::write_peers(&mut html, &rows, &palette, &report.warnings);
    comparison::write_added(&mut html, &rows, &palette, &report.warnings);
    charts.write_over_load(&mut html);
    spectrum::write(&mut html, &rows, &palette);
    charts.write_over_time(&mut html);
    histogram::write(&mut html, &rows, &palette);
    detail::write_schedule(&mut html, &rows, &palette);
    detail::write_processes(&mut html, &rows, &palette);
    detail::write_exchanges(&mut html, &rows, &palette);
    detail::write_extras(&mut html, &layout, &rows, &palette);
    comparison::write_published(&mut html, &layout, &published, &palette);
    environment::write(&mut html, report);
    write_end(&mut html, report, &charts);
    html.into_string()
}

fn write_head(html: &mut Html, report: &Report) {
    html.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY)]);
    html.raw("\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.element("title", &[], title(report));
    html.raw("\n<style>").raw(CHART_STYLE).raw(STYLE).raw("</style>\n</head>\n<body>\n<main>\n");
}

fn write_title(html: &mut Html, report: &Report) {
    html.open("header", &[]).open("div", &[]).element("h1", &[], title(report));
    let environment = &report.environment;
    let facts = [environment.label.clone(), environment.cpu.clone(), environment::created(report)];
    let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    if !facts.is_empty() {
        html.element("p", &[("class", "meta")], &facts.join(" · "));
    }
    html.close("div");
    html.raw(
        "<div class=\"tools\" hidden><button type=\"button\" id=\"theme\">Dark</button>\
         </div>",
    );
    html.close("header");
}

fn write_about(html: &mut Html, report: &Report) {
    if !report.about.is_empty() {
        html.fold("about", "What was measured").element("p", &[], &report.about).end_fold();
    }
}

fn write_headline(
    html: &mut Html,
    report: &Report,
    layout: &Layout,
    rows: &[Row<'_>],
    palette: &Palette<'_>,
) {
    if rows.is_empty() {
        return;
    }
    html.fold("headline", "All figures");
    table::write(html, &headline::table(layout, rows, palette, &report.warnings));
    let text = format!(
        "– stands where nothing was measured, and for percentiles with fewer than {SAMPLES_BEYOND_MIN} \
         samples beyond them. Times are of successful requests; those of several runs are merged, not \
         averaged. “▲ highest” stands only where {RUNS_TO_RANK_MIN} runs or more lie wholly above those \
         of every other case of the subject."
    );
    html.element("p", &[("class", "foot")], &text).end_fold();
}

fn write_end(html: &mut Html, report: &Report, charts: &Charts<'_>) {
    html.open("footer", &[]);
    html.text(
        "This page needs no network. Histograms and single samples are in the result file, from which \
         `tollhouse bench report` draws it. Charts are drawn with uPlot (MIT).",
    );
    html.close("footer").raw("\n</main>");
    html.json("report", &embedded::runs(report));
    html.json("charts", &serde_json::to_string(charts).unwrap_or_else(|_| "null".to_owned()));
    html.raw("\n<script>\n/*\n").raw(CHART_LICENCE).raw("\n*/\n").raw(CHART_SCRIPT);
    html.raw("</script>\n<script>\n").raw(SCRIPT).raw("</script>\n</body>\n</html>\n");
}

fn title(report: &Report) -> &str {
    if report.title.is_empty() { "Measurement" } else { &report.title }
}
