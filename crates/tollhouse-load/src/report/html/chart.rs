//! Data of the charts drawn by the page's script: figures over time for one run at a time, and
//! throughput and times over the load. This module writes data and placeholders;
//! `assets/report/page.js` draws.

use serde::Serialize;

use super::markup::Html;
use super::palette::Palette;
use super::row::{BASELINE, Row, Spread, percentile_of};
use crate::result::CaseResult;

/// Minimum number of points for a line.
const POINTS_MIN: usize = 2;

/// Data for the script, in addition to the report itself.
#[derive(Debug, Serialize)]
pub(super) struct Charts<'a> {
    /// Runs that have data over time.
    runs: Vec<Run<'a>>,
    /// Index of the run displayed first.
    shown: usize,
    /// Charts of a figure over increasing load.
    over_load: Vec<OverLoad<'a>>,
}

/// Run that the reader can select in the charts.
#[derive(Debug, Serialize)]
struct Run<'a> {
    place: usize,
    subject: &'a str,
    name: &'a str,
    repetition: usize,
    repetitions: usize,
    colour: usize,
    times: &'static str,
    /// Intended rate at the end of each interval, in an open loop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asked: Vec<f64>,
}

/// Chart of a figure over the load.
#[derive(Debug, Serialize)]
struct OverLoad<'a> {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    loads: Vec<f64>,
    series: Vec<Line<'a>>,
}

/// Line of such a chart: one value per load, `null` if missing.
#[derive(Debug, Serialize)]
struct Line<'a> {
    name: String,
    #[serde(skip)]
    subject: &'a str,
    colour: usize,
    /// Number of the line among those of its subject, which share a colour.
    variant: usize,
    published: bool,
    middle: Vec<Option<f64>>,
    low: Vec<Option<f64>>,
    high: Vec<Option<f64>>,
}

/// Kind of chart over the load, with the functions that extract its values from a row.
struct ChartKind {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    load: fn(&Row<'_>) -> Option<f64>,
    figure: fn(&Row<'_>) -> Option<Spread>,
}

const OVER_LOAD: [ChartKind; 4] = [
    ChartKind {
        title: "Throughput over concurrency",
        x: "connections",
        y: "requests/s",
        load: concurrency,
        figure: |row| row.throughput(),
    },
    ChartKind {
        title: "p99 response time at saturation over concurrency",
        x: "connections",
        y: "ms",
        load: concurrency,
        figure: p99_ms,
    },
    ChartKind {
        title: "p99 latency over rate",
        x: "requests/s asked for",
        y: "ms",
        load: asked_rate,
        figure: p99_ms,
    },
    ChartKind {
        title: "Successful requests over rate",
        x: "requests/s asked for",
        y: "requests/s",
        load: asked_rate,
        figure: |row| row.throughput(),
    },
];

fn concurrency(row: &Row<'_>) -> Option<f64> {
    let first = row.first();
    (!first.open_loop && first.concurrency > 0).then_some(first.concurrency as f64)
}

fn asked_rate(row: &Row<'_>) -> Option<f64> {
    row.first().intended_rate.filter(|rate| row.first().open_loop && *rate > 0.0)
}

fn p99_ms(row: &Row<'_>) -> Option<Spread> {
    row.spread(|run| percentile_of(run.headline(), 99.0).known().map(|value| value / 1e6))
}

impl<'a> Charts<'a> {
    /// Creates the charts for the measured and the published rows.
    pub(super) fn new(rows: &[Row<'a>], published: &[Row<'a>], palette: &Palette<'_>) -> Self {
        let runs: Vec<Run<'a>> = rows.iter().flat_map(|row| runs(row, palette)).collect();
        let is_measured =
            |run: &Run<'_>| run.subject != BASELINE && rows_series(rows, run.place) >= POINTS_MIN;
        let over_load = OVER_LOAD.iter().map(|shown| shown.chart(rows, published, palette));
        Self {
            shown: runs.iter().position(is_measured).unwrap_or(0),
            runs,
            over_load: over_load.filter(OverLoad::is_worth_drawing).collect(),
        }
    }

    /// Writes the placeholders of the charts over the load.
    pub(super) fn write_over_load(&self, html: &mut Html) {
        if self.over_load.is_empty() {
            return;
        }
        html.fold("over-load", "Over the load");
        write_script_needed(html);
        html.open("div", &[("class", "pair")]);
        for (number, chart) in self.over_load.iter().enumerate() {
            let number = number.to_string();
            html.raw("\n").open("figure", &[("class", "chart"), ("data-over-load", &number)]);
            html.element("figcaption", &[], chart.title).close("figure");
        }
        html.close("div").end_fold();
    }

    /// Writes the placeholders of the charts over time and the run selector.
    pub(super) fn write_over_time(&self, html: &mut Html) {
        if self.runs.is_empty() {
            return;
        }
        html.fold("over-time", "Over time");
        write_script_needed(html);
        html.raw(
            "<div class=\"chooser\" hidden><button type=\"button\" id=\"previous\" \
             aria-label=\"Previous run\">‹</button><label>Run <select id=\"run\"></select></label>\
             <button type=\"button\" id=\"next\" aria-label=\"Next run\">›</button></div>\
             <div class=\"pair\" id=\"over-time-charts\"></div>\
             <details id=\"intervals\" hidden><summary>These figures as a table</summary>\
             <div class=\"scroll\" tabindex=\"0\"></div></details>",
        );
        html.end_fold();
    }
}

/// Returns the number of intervals of the result at an index of the report.
fn rows_series(rows: &[Row<'_>], place: usize) -> usize {
    let runs = rows.iter().flat_map(|row| row.places.iter().zip(&row.runs));
    runs.filter(|(at, _)| **at == place).map(|(_, run)| run.series.len()).sum()
}

fn write_script_needed(html: &mut Html) {
    html.raw(
        "<noscript><p class=\"foot\">These charts need scripts; the tables do not.</p></noscript>",
    );
}

fn runs<'a>(row: &Row<'a>, palette: &Palette<'_>) -> Vec<Run<'a>> {
    let is_shown = |run: &CaseResult| {
        run.series.len() >= POINTS_MIN
            || run.processes.iter().any(|process| process.samples.len() >= POINTS_MIN)
    };
    let numbered = row.runs.iter().zip(&row.places).enumerate();
    numbered
        .filter(|(_, (run, _))| is_shown(run))
        .map(|(number, (run, place))| Run {
            place: *place,
            subject: row.subject,
            name: row.name,
            repetition: number + 1,
            repetitions: row.runs.len(),
            colour: palette.index_of(row.subject),
            times: row.times_are(),
            asked: asked(run),
        })
        .collect()
}

fn asked(run: &CaseResult) -> Vec<f64> {
    let Some(case) = &run.case else { return Vec::new() };
    let at_end = |at_ns: u64| case.load.pace.rate_at(std::time::Duration::from_nanos(at_ns));
    run.series.iter().map_while(|interval| at_end(interval.at_ns)).collect()
}

impl ChartKind {
    fn chart<'a>(
        &self,
        rows: &[Row<'a>],
        published: &[Row<'a>],
        palette: &Palette<'_>,
    ) -> OverLoad<'a> {
        let all =
            || rows.iter().map(|row| (row, false)).chain(published.iter().map(|row| (row, true)));
        let mut loads: Vec<f64> = all().filter_map(|(row, _)| (self.load)(row)).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        // Every line has an entry for every load, empty if not measured, because the lines share
        // the axis.
        let mut series: Vec<Line<'a>> = Vec::new();
        for (row, published) in all() {
            let (Some(load), Some(figure)) = ((self.load)(row), (self.figure)(row)) else {
                continue;
            };
            let at = loads.iter().position(|known| *known == load).unwrap_or(0);
            let name = line_name(row);
            let known =
                series.iter().position(|line| line.subject == row.subject && line.name == name);
            let line = known.unwrap_or_else(|| {
                let empty = vec![None; loads.len()];
                series.push(Line {
                    name,
                    subject: row.subject,
                    colour: palette.index_of(row.subject),
                    variant: series.iter().filter(|line| line.subject == row.subject).count(),
                    published,
                    middle: empty.clone(),
                    low: empty.clone(),
                    high: empty,
                });
                series.len() - 1
            });
            series[line].middle[at] = Some(figure.median);
            series[line].low[at] = Some(figure.low);
            series[line].high[at] = Some(figure.high);
        }
        OverLoad { title: self.title, x: self.x, y: self.y, loads, series }
    }
}

/// Returns the name of a line; cases of a subject with different request counts form separate
/// lines.
fn line_name(row: &Row<'_>) -> String {
    let first = row.first();
    let subject = if row.subject.is_empty() { "measured" } else { row.subject };
    let requests = match &first.case {
        Some(case) => case.load.requests,
        None => Some(first.counts.completed).filter(|completed| *completed > 0),
    };
    match requests {
        Some(requests) => format!("{subject}, {} requests", super::figure::count(requests)),
        None => subject.to_owned(),
    }
}

impl OverLoad<'_> {
    /// Whether a line has at least two points. Published figures are drawn even without measured
    /// ones.
    fn is_worth_drawing(&self) -> bool {
        self.series.iter().any(|line| line.middle.iter().flatten().count() >= POINTS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::super::row;
    use super::*;
    use crate::result::Interval;

    fn run(subject: &str, concurrency: u64, rate: f64) -> CaseResult {
        CaseResult {
            subject: subject.into(),
            name: format!("{concurrency} connections"),
            concurrency,
            rate,
            ..CaseResult::default()
        }
    }

    #[test]
    fn a_chart_over_the_load_needs_two_loads() {
        let results = [run("direct", 600, 9.0), run("gateway", 600, 7.0)];
        let palette = Palette::new(["direct", "gateway"]);
        let charts = Charts::new(&row::rows(&results), &[], &palette);
        assert!(charts.runs.is_empty() && charts.over_load.is_empty());

        let results = [run("direct", 600, 9.0), run("gateway", 600, 7.0), run("gateway", 800, 8.0)];
        let charts = Charts::new(&row::rows(&results), &[], &palette);
        let chart = &charts.over_load[0];
        assert_eq!(
            (chart.title, &chart.loads[..]),
            ("Throughput over concurrency", &[600.0, 800.0][..])
        );
        assert_eq!(chart.series[0].middle, [Some(9.0), None]);
        assert_eq!(chart.series[1].middle, [Some(7.0), Some(8.0)]);
        assert_eq!(charts.over_load.len(), 1, "no times, no chart of times");
    }

    #[test]
    fn a_run_without_a_series_cannot_be_chosen() {
        let mut shown = run("gateway", 600, 7.0);
        shown.series = vec![Interval::default(), Interval::default()];
        let results = [run("direct", 600, 9.0), shown];
        let palette = Palette::new(["direct", "gateway"]);
        let charts = Charts::new(&row::rows(&results), &[], &palette);
        let chosen: Vec<_> = charts.runs.iter().map(|run| (run.place, run.subject)).collect();
        assert_eq!(chosen, [(1, "gateway")]);
    }
}
