//! Table of the first screen: a row for each case, with rate and p99 of each subject beside each
//! other, and the difference to each peer. All further figures are in the tables below.

use std::borrow::Cow;

use super::comparison::{Better, Verdict, gateways, verdict_of};
use super::figure;
use super::headline;
use super::markup::Html;
use super::plugin_cost;
use super::published;
use super::row::{BASELINE, Row, Spread, percentile_of, subjects};
use super::table::{self, Cell, Direction, Group, Head, Line, Mark, OnPhones, Table, Validity};
use super::verdict::is_invalid;
use crate::report::{Report, Warning};

/// Maximum number of subjects with columns of their own, so that the table fits a screen.
const SUBJECTS_MAX: usize = 5;

/// Column: its heading, and its cell for a case.
struct Column<'c> {
    head: Head,
    cell: Box<dyn Fn(&str) -> Cell + 'c>,
}

/// Measured rows, and what is doubted about them.
#[derive(Clone, Copy)]
struct Source<'c> {
    rows: &'c [Row<'c>],
    doubts: &'c [Warning],
}

impl<'c> Source<'c> {
    fn find(self, subject: &str, name: &str) -> Option<&'c Row<'c>> {
        self.rows.iter().find(|row| row.subject == subject && row.name == name)
    }

    /// Strikes a cell through if a rule calls one of its rows invalid.
    fn checked(self, cell: Cell, rows: &[&Row<'_>]) -> Cell {
        match rows.iter().any(|row| is_invalid(row, self.doubts)) {
            true => Cell { validity: Validity::Invalid, ..cell },
            false => cell,
        }
    }
}

/// Columns below a common heading.
struct Block<'c> {
    heading: Cow<'static, str>,
    columns: Vec<Column<'c>>,
}

/// Writes the table, if there is more than one figure to compare.
pub(super) fn write(html: &mut Html, report: &Report, rows: &[Row<'_>], published: &[Row<'_>]) {
    let source = Source { rows, doubts: &report.warnings };
    let blocks = match report.suite.as_deref() {
        Some("api7") => plugins(source, published),
        _ => None,
    };
    let mut blocks = blocks.unwrap_or_else(|| compared(source));
    if report.suite.as_deref() == Some("polaris") {
        blocks.push(sizes(published));
    }
    blocks.retain(|block| !block.columns.is_empty());
    let names = case_names(rows);
    if names.is_empty() || blocks.iter().map(|block| block.columns.len()).sum::<usize>() < 2 {
        return;
    }
    html.open("section", &[("class", "summary"), ("aria-labelledby", "summary")]);
    html.heading("h2", "summary", "In figures");
    table::write(html, &assembled(&blocks, &names, rows, &report.warnings));
    html.close("section");
}

fn assembled(blocks: &[Block<'_>], names: &[&str], rows: &[Row<'_>], doubts: &[Warning]) -> Table {
    let mut heads = Vec::new();
    for block in blocks {
        for (at, column) in block.columns.iter().enumerate() {
            // A rule separates the blocks.
            let class = if at == 0 && !heads.is_empty() { "ruled" } else { "" };
            heads.push(Head { class, ..column.head.clone() });
        }
    }
    let line = |name: &&str| {
        let doubt = rows.iter().filter(|row| row.name == *name && row.subject != BASELINE);
        let doubt = doubt.filter_map(|row| headline::doubt(row, doubts));
        Line {
            name: (*name).to_owned(),
            doubt: doubt.max_by_key(|(class, ..)| *class == "invalid"),
            cells: blocks.iter().flat_map(|it| &it.columns).map(|it| (it.cell)(name)).collect(),
            ..Line::default()
        }
    };
    Table {
        caption: "Rates, times and differences by case",
        first_head: "Case",
        headings: blocks.iter().map(|it| (it.heading.clone(), it.columns.len())).collect(),
        heads,
        groups: vec![Group { lines: names.iter().map(line).collect(), ..Group::default() }],
        on_phones: OnPhones::Cards,
    }
}

/// Returns the names of the cases of gateways; those of the baseline otherwise.
fn case_names<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let (ours, _) = gateways(rows);
    let mut names: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| ours.is_none() || row.subject != BASELINE) {
        if !names.contains(&row.name) {
            names.push(row.name);
        }
    }
    names
}

fn head(text: &str, title: String, direction: Direction) -> Head {
    Head {
        text: Cow::Owned(text.to_owned()),
        title: Cow::Owned(title),
        direction,
        ..Head::default()
    }
}

fn p99(row: &Row<'_>) -> Option<Spread> {
    row.spread(|run| percentile_of(run.headline(), 99.0).known())
}

/// Returns the heading of a subject's figure; the figure alone if the subject has no name.
fn own_head(subject: &str, figure: &str) -> Head {
    match subject {
        "" => head(figure, figure.to_owned(), Direction::None),
        subject => head(subject, format!("{subject}, {figure}"), Direction::None),
    }
}

/// Column with the rate of a subject, and the range of its runs.
fn rate_column<'c>(source: Source<'c>, subject: &'c str) -> Column<'c> {
    Column {
        head: own_head(subject, "requests/s"),
        cell: Box::new(move |name| {
            let Some(row) = source.find(subject, name) else { return Cell::known(None) };
            source.checked(Cell::spread(row.throughput()), &[row])
        }),
    }
}

fn p99_column<'c>(source: Source<'c>, subject: &'c str) -> Column<'c> {
    Column {
        head: own_head(subject, "p99 in ms"),
        cell: Box::new(move |name| {
            let Some(row) = source.find(subject, name) else { return Cell::known(None) };
            source.checked(Cell::percentile(row.percentile(99.0)), &[row])
        }),
    }
}

/// Rates and times of the subjects, and our difference to each peer.
fn compared<'c>(source: Source<'c>) -> Vec<Block<'c>> {
    let rows = source.rows;
    let (ours, peers) = gateways(rows);
    let mut shown: Vec<&str> = ours.into_iter().chain(peers.iter().copied()).collect();
    let others = subjects(rows).into_iter().filter(|it| !shown.contains(it)).collect::<Vec<_>>();
    shown.extend(others);
    shown.truncate(SUBJECTS_MAX);
    let has = |subject: &&str, figure: fn(&Row<'_>) -> Option<Spread>| {
        rows.iter().any(|row| row.subject == *subject && figure(row).is_some())
    };
    let rates = shown.iter().filter(|subject| has(subject, |row| row.throughput()));
    let tails = shown.iter().filter(|subject| has(subject, p99));
    let mut blocks = vec![
        Block {
            heading: "Successful requests a second, more is better".into(),
            columns: rates.map(|subject| rate_column(source, subject)).collect(),
        },
        Block {
            heading: "p99 in ms, less is better".into(),
            columns: tails.map(|subject| p99_column(source, subject)).collect(),
        },
    ];
    if let Some(ours) = ours {
        let differences = peers.iter().take(SUBJECTS_MAX - 1).flat_map(|peer| {
            let is_open = rows.iter().all(|row| row.first().open_loop);
            let rate = (!is_open).then(|| difference(source, ours, peer, Compared::Rate));
            rate.into_iter().chain([difference(source, ours, peer, Compared::P99)])
        });
        let heading = format!("{ours} against").into();
        blocks.insert(0, Block { heading, columns: differences.collect() });
    }
    blocks
}

/// Figure whose difference a column shows.
#[derive(Clone, Copy)]
enum Compared {
    Rate,
    P99,
}

fn difference<'c>(
    source: Source<'c>,
    ours: &'c str,
    peer: &'c str,
    compared: Compared,
) -> Column<'c> {
    let (word, better) = match compared {
        Compared::Rate => ("rate", Better::Higher),
        Compared::P99 => ("p99", Better::Lower),
    };
    let figure = move |row: &Row<'_>| match compared {
        Compared::Rate => row.throughput(),
        Compared::P99 => p99(row),
    };
    Column {
        head: head(&format!("{peer}, {word}"), format!("against {peer}: {word}"), Direction::None),
        cell: Box::new(move |name| {
            let rows = source.find(ours, name).zip(source.find(peer, name));
            let figures = rows.and_then(|(own, other)| figure(own).zip(figure(other)));
            let (Some((row, rival)), Some((own, other))) = (rows, figures) else {
                return Cell::known(None);
            };
            let change = own.median / other.median - 1.0;
            let is_better = match better {
                Better::Higher => change > 0.0,
                Better::Lower => change < 0.0,
            };
            // Single runs are marked by their values; the verdict says that they are indicative.
            let mark = match verdict_of(&own, &other, better) {
                Verdict::Equal => Mark::Equal,
                Verdict::Better => Mark::Better,
                Verdict::Worse => Mark::Worse,
                Verdict::Unranked if change == 0.0 => Mark::Equal,
                Verdict::Unranked if is_better => Mark::Better,
                Verdict::Unranked => Mark::Worse,
            };
            let cell = Cell { mark: Some(mark), ..Cell::text(figure::change(change)) };
            source.checked(cell, &[row, rival])
        }),
    }
}

/// Cost of plugins, rates and times, measured and published.
fn plugins<'c>(source: Source<'c>, published: &'c [Row<'c>]) -> Option<Vec<Block<'c>>> {
    let rows = source.rows;
    let table = Source { rows: published, doubts: &[] };
    let subject = plugin_cost::subject(rows)?;
    let printed = plugin_cost::published_subject(published);
    let cost = |source: Source<'c>, subject: &'c str, label: &str| Column {
        head: head(label, format!("throughput lost, {label}"), Direction::None),
        cell: Box::new(move |name| {
            let costs = plugin_cost::costs(source.rows, subject, source.doubts);
            let lost = costs.iter().find(|cost| cost.row.name == name).and_then(|cost| cost.lost);
            Cell::known(lost.map(figure::whole_percent))
        }),
    };
    let rate = |source: Source<'c>, subject: &'c str, label: &str| Column {
        head: head(label, format!("requests/s, {label}"), Direction::None),
        ..rate_column(source, subject)
    };
    let mut blocks = vec![
        Block {
            heading: "Throughput that plugins cost".into(),
            columns: vec![cost(source, subject, "here")],
        },
        Block { heading: "Requests a second".into(), columns: vec![rate(source, subject, "here")] },
        Block {
            heading: "p99 in ms at 60 % of that rate".into(),
            columns: vec![Column {
                head: head("here", "p99 in ms, here".into(), Direction::None),
                cell: Box::new(move |name| {
                    let paced = plugin_cost::find_paced(rows, subject, name);
                    let Some(paced) = paced else { return Cell::known(None) };
                    source.checked(Cell::percentile(paced.percentile(99.0)), &[paced])
                }),
            }],
        },
    ];
    if let Some(printed) = printed {
        blocks[0].columns.push(cost(table, printed, "published"));
        blocks[1].columns.push(rate(table, printed, "published"));
        blocks[2].columns.push(Column {
            head: head("published", "p99 in ms, published".into(), Direction::None),
            ..p99_column(table, printed)
        });
    }
    let (_, peers) = gateways(rows);
    let peers = peers
        .into_iter()
        .filter(|peer| rows.iter().any(|row| row.subject == *peer && !row.first().open_loop));
    blocks[1].columns.extend(peers.take(SUBJECTS_MAX).map(|peer| rate_column(source, peer)));
    Some(blocks)
}

/// Published rates of each size of machine.
fn sizes<'c>(published: &'c [Row<'_>]) -> Block<'c> {
    let column = |size: &'c str| Column {
        head: head(size, format!("published for {size}, requests/s"), Direction::None),
        cell: Box::new(move |name| {
            let row = published::find_size(published, name, size);
            Cell::spread(row.and_then(Row::rate))
        }),
    };
    let columns = published::sizes(published).into_iter().map(column).collect();
    Block { heading: "Published for Polaris on other hardware, requests a second".into(), columns }
}
