//! Columns of the headline table: those of the published report that a suite reproduces, under
//! their original names, and further columns which that report lacks.

use std::borrow::Cow;

use super::figure::{self, UNKNOWN};
use super::row::{Row, TARGET};
use super::table::{Cell, Direction, Head};

#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) head: Head,
    pub(super) shows: Shows,
}

/// Figure that a column shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shows {
    /// Number of the row, from 1.
    Place,
    /// Number of concurrent requests: connections times streams.
    Concurrency,
    /// Number of configured routes and consumers.
    Objects,
    /// Number of completed requests per second.
    Rate,
    /// Number of successful requests per second.
    Goodput,
    Percentile(f64),
    Mean,
    Max,
    /// Number of completed requests, failed ones included.
    Completed,
    Failed,
    /// Failed requests as a share of the completed ones.
    FailedShare,
    /// Number of requests on a reused connection.
    Reused,
    Received,
    /// Sum of received body bytes.
    Bodies,
    /// Average number of cores used by the target.
    Cores,
    /// CPU seconds of the target per 1000 requests.
    CpuPer1000,
    /// Maximum resident memory of the target.
    Memory,
    /// Server CPU as in Polaris' table: measured cores, or else the published percentage.
    ServerCpu,
}

impl Shows {
    /// Returns the direction in which values are better; none for figures that follow from the
    /// load.
    const fn direction(self) -> Direction {
        match self {
            Self::Rate | Self::Goodput => Direction::Higher,
            Self::Percentile(_)
            | Self::Mean
            | Self::Max
            | Self::Failed
            | Self::FailedShare
            | Self::Cores
            | Self::CpuPer1000
            | Self::Memory
            | Self::ServerCpu => Direction::Lower,
            Self::Place
            | Self::Concurrency
            | Self::Objects
            | Self::Completed
            | Self::Reused
            | Self::Received
            | Self::Bodies => Direction::None,
        }
    }
}

/// Column head and content for the names of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Case,
    /// Load, in the notation of `ab`.
    Command,
}

impl Names {
    /// Returns the heading of the name column.
    pub(super) fn head(self) -> &'static str {
        match self {
            Names::Case => "Case",
            Names::Command => "Command",
        }
    }

    /// Returns the name of a row.
    pub(super) fn name(self, row: &Row<'_>) -> String {
        match self {
            Names::Case => row.name.to_owned(),
            Names::Command => command(row),
        }
    }
}

/// Two groups of columns with their headings.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) names: Names,
    pub(super) heading: &'static str,
    /// First group: columns of the published report.
    pub(super) theirs: Vec<Column>,
    pub(super) besides_heading: &'static str,
    /// Second group: further figures a reader needs.
    pub(super) besides: Vec<Column>,
}

const fn column(
    head: &'static str,
    unit: &'static str,
    shows: Shows,
    title: &'static str,
) -> Column {
    let direction = shows.direction();
    Column {
        head: Head {
            text: Cow::Borrowed(head),
            unit,
            title: Cow::Borrowed(title),
            class: "",
            direction,
        },
        shows,
    }
}

const QPS: Column =
    column("QPS", "1/s", Shows::Rate, "Completed requests a second, failed ones included");

const fn percentile(head: &'static str, percent: f64) -> Column {
    column(head, "ms", Shows::Percentile(percent), "So many percent of the requests took no longer")
}

const fn mean(head: &'static str) -> Column {
    column(head, "ms", Shows::Mean, "Mean of all requests")
}

const fn max(head: &'static str) -> Column {
    column(head, "ms", Shows::Max, "The longest request")
}

/// Returns the columns for a suite.
pub(super) fn layout(suite: Option<&str>) -> Layout {
    let (heading, theirs) = match suite {
        Some("shenyu") => ("As in ShenYu’s report", shenyu()),
        Some("ngxway") => ("As in ngxway’s report", ngxway()),
        Some("api7") => ("As in API7’s report", api7()),
        Some("polaris") => ("As in Polaris’ report", polaris()),
        _ => ("Throughput and times", generic()),
    };
    let has_cpu = theirs.iter().any(|column| column.shows == Shows::ServerCpu);
    let besides = besides().into_iter().filter(|column| !(has_cpu && column.shows == Shows::Cores));
    let besides_heading = match suite {
        Some("shenyu" | "ngxway" | "api7" | "polaris") => "What that report leaves out",
        _ => "Tail, failures, cost",
    };
    let names = if suite == Some("ngxway") { Names::Command } else { Names::Case };
    Layout { names, heading, besides_heading, besides: besides.collect(), theirs }
}

fn shenyu() -> Vec<Column> {
    vec![
        QPS,
        percentile("p50", 50.0),
        percentile("p75", 75.0),
        percentile("p90", 90.0),
        percentile("p99", 99.0),
        mean("avg"),
        max("max"),
    ]
}

fn ngxway() -> Vec<Column> {
    vec![
        column("Id", "", Shows::Place, "Place of the case in this subject’s list"),
        column("Concurrency", "", Shows::Concurrency, "Requests in flight at most"),
        QPS,
        column("Complete", "", Shows::Completed, "Requests that ended, failed ones included"),
        column("Failed", "", Shows::Failed, "Requests that failed, of any class"),
        column(
            "Keep-Alive",
            "",
            Shows::Reused,
            "Requests sent on a connection that had carried one before",
        ),
        column("Total transferred", "", Shows::Received, "Bytes received, heads included"),
        column("HTML transferred", "", Shows::Bodies, "Bytes of bodies received"),
        percentile("P90", 90.0),
        percentile("P95", 95.0),
        percentile("P99", 99.0),
    ]
}

fn api7() -> Vec<Column> {
    vec![
        column("Routes / consumers", "", Shows::Objects, "Objects configured in the gateway"),
        QPS,
        percentile("P99", 99.0),
        percentile("P95", 95.0),
    ]
}

fn polaris() -> Vec<Column> {
    vec![
        column("TPS", "1/s", Shows::Rate, "Completed calls a second, failed ones included"),
        mean("Mean RT"),
        max("Max RT"),
        percentile("P99 RT", 99.0),
        column(
            "Server CPU",
            "",
            Shows::ServerCpu,
            "Cores that the server kept busy on average; a percentage where only that was published",
        ),
    ]
}

fn generic() -> Vec<Column> {
    vec![
        column("Concurrency", "", Shows::Concurrency, "Requests in flight at most"),
        QPS,
        percentile("p50", 50.0),
        percentile("p90", 90.0),
        percentile("p99", 99.0),
        mean("mean"),
        max("max"),
    ]
}

fn besides() -> Vec<Column> {
    vec![
        percentile("p99.9", 99.9),
        column(
            "Goodput",
            "1/s",
            Shows::Goodput,
            "Successful requests a second; with several runs the median, and below it lowest to highest",
        ),
        column("Errors", "", Shows::FailedShare, "Failed requests of all that ended"),
        column("CPU", "cores", Shows::Cores, "Cores that the measured server kept busy on average"),
        column(
            "CPU-s",
            "per 1000",
            Shows::CpuPer1000,
            "CPU seconds of the measured server for a thousand requests",
        ),
        column("Memory", "", Shows::Memory, "Largest resident memory of the measured server"),
    ]
}

impl Layout {
    /// Whether a column shows the extra figure with this name.
    pub(super) fn shows_extra(&self, name: &str) -> bool {
        let column = match name {
            "routes" | "consumers" => Shows::Objects,
            "server_cpu_percent" => Shows::ServerCpu,
            _ => return false,
        };
        self.theirs.iter().any(|shown| shown.shows == column)
    }
}

impl Column {
    /// Returns the cell for a row at index `place` (from 0) of its subject.
    pub(super) fn cell(&self, row: &Row<'_>, place: usize) -> Cell {
        let mut cell = self.measured(row, place);
        let is_time = matches!(self.shows, Shows::Percentile(_) | Shows::Mean | Shows::Max);
        if is_time && row.is_printed() {
            cell.text = figure::as_printed(&cell.text);
        }
        cell
    }

    fn measured(&self, row: &Row<'_>, place: usize) -> Cell {
        match self.shows {
            Shows::Place => Cell::text(figure::count(place as u64 + 1)),
            Shows::Concurrency => Cell::counted(row.first().concurrency),
            Shows::Objects => Cell::text(objects(row)),
            Shows::Rate => Cell::spread(row.rate()),
            Shows::Goodput => Cell::spread(row.goodput()),
            Shows::Percentile(percent) => Cell::percentile(row.percentile(percent)),
            Shows::Mean => Cell::known(row.mean_ns().map(figure::milliseconds)),
            Shows::Max => Cell::known(row.max_ns().map(figure::milliseconds)),
            Shows::Completed => Cell::counted(row.sum(|run| run.counts.completed)),
            Shows::Failed => Cell::known(failed(row)),
            Shows::FailedShare => Cell::known(row.failed_share().map(figure::percent)),
            Shows::Reused => Cell::counted(row.sum(|run| run.counts.reused)),
            Shows::Received => Cell::size(row.sum(|run| run.counts.received_bytes)),
            Shows::Bodies => Cell::size(row.sum(|run| run.counts.body_bytes)),
            Shows::Cores | Shows::CpuPer1000 | Shows::Memory => self.usage(row),
            Shows::ServerCpu => self.server_cpu(row),
        }
    }

    fn server_cpu(&self, row: &Row<'_>) -> Cell {
        let printed = row.first().extra.get("server_cpu_percent");
        match printed {
            Some(share) if row.usage(TARGET).is_none() => {
                Cell::text(figure::percent(share / 100.0))
            }
            _ => Cell::known(
                row.usage(TARGET).map(|used| format!("{} cores", figure::cores(used.cores))),
            ),
        }
    }

    fn usage(&self, row: &Row<'_>) -> Cell {
        let Some(usage) = row.usage(TARGET) else { return Cell::known(None) };
        Cell::text(match self.shows {
            Shows::CpuPer1000 => figure::number(usage.seconds_per_1000),
            Shows::Memory => figure::memory(usage.rss_bytes_max),
            _ => figure::cores(usage.cores),
        })
    }
}

/// Formats the number of failures, including 0; `None` if requests were not counted.
fn failed(row: &Row<'_>) -> Option<String> {
    row.failed_share().map(|_| figure::count(row.sum(|run| run.counts.failed)))
}

/// Formats the load as options of `ab`.
fn command(row: &Row<'_>) -> String {
    let Some(case) = &row.first().case else { return row.name.to_owned() };
    let load = &case.load;
    let length = match (load.requests, load.duration) {
        (Some(requests), _) => format!("-n {requests}"),
        (None, duration) => format!("-t {}", duration.unwrap_or_default().as_secs()),
    };
    let keep_alive = if load.keep_alive { " -k" } else { "" };
    format!("{length} -c {}{keep_alive}", load.connections * load.streams.max(1))
}

fn objects(row: &Row<'_>) -> String {
    let extra = |name: &str| row.first().extra.get(name).copied();
    match (extra("routes"), extra("consumers")) {
        (None, None) => UNKNOWN.to_owned(),
        (routes, consumers) => {
            let text = |value: Option<f64>| figure::count(value.unwrap_or(0.0).max(0.0) as u64);
            format!("{} / {}", text(routes), text(consumers))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::row;
    use super::*;
    use crate::result::CaseResult;

    fn heads(suite: Option<&str>) -> String {
        let layout = layout(suite);
        assert_eq!(layout.names == Names::Command, suite == Some("ngxway"));
        let heads = |columns: &[Column]| {
            columns.iter().map(|column| column.head.text.clone()).collect::<Vec<_>>().join(" ")
        };
        format!("{} | {}", heads(&layout.theirs), heads(&layout.besides))
    }

    #[test]
    fn suites_have_the_columns_of_their_reports() {
        let besides = "p99.9 Goodput Errors CPU CPU-s Memory";
        for (suite, expected) in [
            (Some("shenyu"), "QPS p50 p75 p90 p99 avg max"),
            (
                Some("ngxway"),
                "Id Concurrency QPS Complete Failed Keep-Alive Total transferred \
                 HTML transferred P90 P95 P99",
            ),
            (Some("api7"), "Routes / consumers QPS P99 P95"),
            (None, "Concurrency QPS p50 p90 p99 mean max"),
        ] {
            assert_eq!(heads(suite), format!("{expected} | {besides}"));
        }
        let polaris = heads(Some("polaris"));
        assert!(polaris.starts_with("TPS Mean RT Max RT P99 RT Server CPU | "), "{polaris}");
        assert!(!polaris.ends_with("CPU CPU-s Memory"), "one CPU column: {polaris}");
    }

    #[test]
    fn what_nobody_measured_is_a_dash_that_says_so() {
        let results = [CaseResult { rate: 20_472.95, ..CaseResult::default() }];
        let row = &row::rows(&results)[0];
        let layout = layout(Some("shenyu"));
        assert_eq!(layout.theirs[0].cell(row, 0).text, "20,473");
        for column in layout.theirs[1..].iter().chain(&layout.besides) {
            let cell = column.cell(row, 0);
            assert_eq!((cell.text.as_str(), cell.title.as_str()), ("–", "not measured"));
        }
    }
}
