//! Tables of `top`: routes, nodes and plugins, sorted by one of their columns.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use tollhouse_control::terminal::printable;
use tollhouse_load::report::paint::Paint;

use super::frame::Frame;

/// Table that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Routes,
    Nodes,
    Plugins,
}

/// Sorting of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: usize,
    pub(super) direction: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    pub(super) fn reversed(self) -> Self {
        match self {
            Self::Ascending => Self::Descending,
            Self::Descending => Self::Ascending,
        }
    }
}

/// Cell: its text, and the value that it is sorted by.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    text: String,
    key: SortKey,
    is_bad: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum SortKey {
    Text(String),
    Number(f64),
}

impl Cell {
    fn text(text: &str) -> Self {
        // Names may come from objects, and control characters must not reach a terminal.
        let text = printable(text);
        Self { key: SortKey::Text(text.clone()), text, is_bad: false }
    }

    fn number(value: f64, text: String) -> Self {
        Self { text: printable(&text), key: SortKey::Number(value), is_bad: false }
    }

    /// Marks a number outside `good` as bad.
    fn good_in(self, good: RangeInclusive<f64>) -> Self {
        let is_bad = matches!(&self.key, SortKey::Number(value) if !good.contains(value));
        Self { is_bad, ..self }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.key, &other.key) {
            (SortKey::Number(one), SortKey::Number(other)) => one.total_cmp(other),
            (SortKey::Text(one), SortKey::Text(other)) => one.cmp(other),
            (SortKey::Number(_), SortKey::Text(_)) => Ordering::Less,
            (SortKey::Text(_), SortKey::Number(_)) => Ordering::Greater,
        }
    }
}

impl Subject {
    pub(super) const ALL: [Subject; 3] = [Subject::Routes, Subject::Nodes, Subject::Plugins];

    pub(super) fn title(self) -> &'static str {
        match self {
            Subject::Routes => "Routes",
            Subject::Nodes => "Nodes",
            Subject::Plugins => "Plugins",
        }
    }

    pub(super) fn heads(self) -> &'static [&'static str] {
        match self {
            Subject::Routes => &["ROUTE", "REQ/S", "FAIL/S", "FAIL %", "REQUESTS"],
            Subject::Nodes => &["NODE", "STATE", "UPSTREAM", "SHARE"],
            Subject::Plugins => &["PLUGIN", "OBJECTS", "REFUSED/S", "REFUSED", "MEAN", "P99"],
        }
    }

    /// Returns the order before any key: the busiest route, the node that is worst off, the plugin
    /// that refuses most.
    pub(super) fn order(self) -> Order {
        let (column, direction) = match self {
            Subject::Routes => (1, Direction::Descending),
            Subject::Nodes => (1, Direction::Ascending),
            Subject::Plugins => (2, Direction::Descending),
        };
        Order { column, direction }
    }

    fn rows(self, frame: &Frame) -> Vec<Vec<Cell>> {
        match self {
            Subject::Routes => routes(frame),
            Subject::Nodes => nodes(frame),
            Subject::Plugins => plugins(frame),
        }
    }

    /// Returns the lines of the table: headings, then at most `rows_max` rows from `first`.
    pub(super) fn lines(
        self,
        frame: &Frame,
        order: Order,
        part: Part,
        paint: Paint,
    ) -> Vec<String> {
        let mut rows = self.rows(frame);
        rows.sort_by(|one, other| {
            let by_column = one[order.column].cmp(&other[order.column]);
            match order.direction {
                Direction::Ascending => by_column,
                Direction::Descending => by_column.reverse(),
            }
        });
        let total = rows.len();
        let first = part.first.min(total.saturating_sub(1));
        let shown: Vec<Vec<Cell>> = rows.into_iter().skip(first).take(part.rows_max).collect();
        let arrow = match order.direction {
            Direction::Ascending => "▲",
            Direction::Descending => "▼",
        };
        let heads = self.heads().iter().enumerate();
        let heads: Vec<String> = heads
            .map(
                |(at, head)| {
                    if at == order.column { format!("{head}{arrow}") } else { (*head).to_owned() }
                },
            )
            .collect();
        let widths = widths(&heads, &shown, part.width);
        let heads = heads.iter().zip(&widths).enumerate();
        let heads: Vec<String> =
            heads.map(|(at, (head, width))| fitted(head, *width, at)).collect();
        let count = match shown.len() {
            count if count == total => format!("{} {total}", self.title()),
            count => format!("{} {}–{} of {total}", self.title(), first + 1, first + count),
        };
        let mut lines = vec![
            paint.strong(pad(&count, part.width)),
            paint.faint(pad(&heads.join("  "), part.width)),
        ];
        for row in &shown {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
                let text = fitted(&cell.text, *width, at);
                if cell.is_bad { paint.bad(text) } else { text }
            });
            let length: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
            let rest = " ".repeat(part.width.saturating_sub(length));
            lines.push(cells.collect::<Vec<_>>().join("  ") + &rest);
        }
        if total == 0 {
            lines.push(pad(self.nothing(), part.width));
        }
        lines
    }

    fn nothing(self) -> &'static str {
        match self {
            Subject::Routes => "no route has had a request",
            Subject::Nodes => "no upstream has nodes",
            Subject::Plugins => "no object has plugins",
        }
    }
}

/// Part of a table that is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// First row, from 0.
    pub(super) first: usize,
    pub(super) rows_max: usize,
    /// Columns of the terminal.
    pub(super) width: usize,
}

/// Returns the width of each column; the first gives way if there is too little space.
fn widths(heads: &[String], rows: &[Vec<Cell>], width: usize) -> Vec<usize> {
    let of = |at: usize| {
        let cells = rows.iter().map(|row| row[at].text.chars().count());
        cells.chain([heads[at].chars().count()]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..heads.len()).map(of).collect();
    let length: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
    widths[0] = widths[0].saturating_sub(length.saturating_sub(width)).max(6);
    widths
}

/// Fits a text to a width: the first column to the left, the others to the right.
fn fitted(text: &str, width: usize, column: usize) -> String {
    let length = text.chars().count();
    if length > width {
        let kept: String = text.chars().take(width.saturating_sub(1)).collect();
        return format!("{kept}…");
    }
    let space = " ".repeat(width - length);
    if column == 0 { format!("{text}{space}") } else { format!("{space}{text}") }
}

/// Cuts or fills a text to a width.
pub(super) fn pad(text: &str, width: usize) -> String {
    fitted(text, width, 0)
}

fn routes(frame: &Frame) -> Vec<Vec<Cell>> {
    let row = |route: &serde_json::Value| {
        let figure = |name: &str| route[name].as_f64().unwrap_or(0.0);
        let (rate, failed) = (figure("rate"), figure("failed_rate"));
        let share = if rate > 0.0 { failed / rate * 100.0 } else { 0.0 };
        vec![
            Cell::text(route["id"].as_str().unwrap_or_default()),
            Cell::number(rate, format!("{rate:.1}")),
            Cell::number(failed, format!("{failed:.1}")).good_in(0.0..=0.0),
            Cell::number(share, format!("{share:.0}")).good_in(0.0..=0.0),
            Cell::number(figure("requests"), figure("requests").to_string()),
        ]
    };
    frame.routes.iter().map(row).collect()
}

/// States of a node from bad to good, which is the order of sorting.
const STATES: [&str; 6] =
    ["failing", "unhealthy", "unresolved", "mostly_unhealthy", "mostly_healthy", "healthy"];

fn nodes(frame: &Frame) -> Vec<Vec<Cell>> {
    let row = |node: &serde_json::Value| {
        let text = |name: &str| node[name].as_str().unwrap_or_default();
        let state = text("status");
        let rank = STATES.iter().position(|known| *known == state).unwrap_or(0);
        let place = match text("name") {
            "" => text("place"),
            name => name,
        };
        let share = node["share_percent"].as_f64().unwrap_or(0.0);
        vec![
            Cell::text(&format!("{}:{}", text("host"), node["port"])),
            Cell::number(rank as f64, state.replace('_', " ")).good_in(4.0..=5.0),
            Cell::text(place),
            Cell::number(share, format!("{share:.0} %")),
        ]
    };
    frame.nodes.iter().map(row).collect()
}

/// Cell with a time in microseconds.
fn time(us: Option<f64>) -> Cell {
    let text = match us {
        None => "-".to_owned(),
        Some(us) if us >= 1_000.0 => format!("{:.1} ms", us / 1_000.0),
        Some(us) => format!("{us:.0} µs"),
    };
    Cell::number(us.unwrap_or(-1.0), text)
}

fn plugins(frame: &Frame) -> Vec<Vec<Cell>> {
    let row = |plugin: &super::frame::Plugin| {
        let rate = plugin.refused_rate;
        vec![
            Cell::text(&plugin.name),
            Cell::number(plugin.objects as f64, plugin.objects.to_string()),
            Cell::number(
                rate.unwrap_or(-1.0),
                rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")),
            ),
            Cell::number(plugin.refused as f64, plugin.refused.to_string()),
            time(plugin.mean_us),
            time(plugin.p99_us),
        ]
    };
    frame.plugins.iter().map(row).collect()
}
