//! Headline table: one row per case, grouped by subject.

use super::column::{Column, Layout, Names, Shows};
use super::figure;
use super::palette::Palette;
use super::row::{Row, Spread, subjects};
use super::table::{Group, Line, Mark, OnPhones, Table};
use super::warnings;
use crate::report::{Severity, Warning};
use crate::result::End;

/// Builds the table of `rows` with the columns of `layout`.
pub(super) fn table(
    layout: &Layout,
    rows: &[Row<'_>],
    palette: &Palette<'_>,
    doubts: &[Warning],
) -> Table {
    let columns: Vec<&Column> = layout.theirs.iter().chain(&layout.besides).collect();
    let mut heads: Vec<_> = columns.iter().map(|column| column.head.clone()).collect();
    if let Some(first_besides) = heads.get_mut(layout.theirs.len()) {
        first_besides.class = "ruled";
    }
    let group = |subject: &str| {
        let of_subject: Vec<&Row<'_>> = rows.iter().filter(|row| row.subject == subject).collect();
        Group {
            label: subject.to_owned(),
            behind: String::new(),
            colour: palette.class_of(subject),
            lines: lines(layout.names, &columns, &of_subject, doubts),
        }
    };
    let headings =
        [(layout.heading, layout.theirs.len()), (layout.besides_heading, layout.besides.len())];
    Table {
        caption: "Results by subject and case",
        first_head: layout.names.head(),
        headings: headings
            .into_iter()
            .filter(|(_, columns)| *columns > 0)
            .map(|(heading, columns)| (heading.into(), columns))
            .collect(),
        heads,
        groups: subjects(rows).into_iter().map(group).collect(),
        on_phones: OnPhones::Scrolls,
    }
}

fn lines(names: Names, columns: &[&Column], rows: &[&Row<'_>], doubts: &[Warning]) -> Vec<Line> {
    let highest = highest(rows);
    let line = |(place, row): (usize, &&Row<'_>)| {
        let cell = |column: &Column| {
            let mut cell = column.cell(row, place);
            if column.shows == Shows::Goodput && highest == Some(place) {
                cell.mark = Some(Mark::Highest);
            }
            cell
        };
        Line {
            name: names.name(row),
            facts: facts(row),
            doubt: doubt(row, doubts),
            cells: columns.iter().copied().map(cell).collect(),
            ..Line::default()
        }
    };
    rows.iter().enumerate().map(line).collect()
}

/// Returns the most severe warning about a row; notes are shown only in the list of warnings.
pub(super) fn doubt(
    row: &Row<'_>,
    doubts: &[Warning],
) -> Option<(&'static str, &'static str, String)> {
    let about = row.title();
    let doubts = doubts.iter().filter(|doubt| doubt.about == about);
    let gravest = doubts.max_by_key(|doubt| doubt.severity)?;
    let (class, word) = warnings::sign(gravest.severity);
    (gravest.severity > Severity::Note).then(|| (class, word, gravest.message.clone()))
}

/// Returns the facts needed to read a row: kind of times, number of runs, duration.
fn facts(row: &Row<'_>) -> Vec<String> {
    let mut facts = vec![row.times_are().to_owned()];
    if row.runs.len() > 1 {
        facts.push(format!("{} runs", row.runs.len()));
    }
    if row.seconds() > 0.0 {
        let seconds = row.seconds() / row.runs.len() as f64;
        facts.push(match seconds {
            seconds if seconds >= 9.95 => format!("{seconds:.0} s"),
            seconds => figure::time(seconds * 1e9),
        });
    }
    if row.runs.iter().any(|run| run.end == End::Interrupted) {
        facts.push("interrupted".to_owned());
    }
    facts
}

/// Returns the row whose goodput exceeds that of all others in all runs; `None` if no row does, or
/// if the load is open-loop.
fn highest(rows: &[&Row<'_>]) -> Option<usize> {
    // In an open loop the schedule determines the rate.
    if rows.iter().any(|row| row.first().open_loop) {
        return None;
    }
    let spreads: Vec<Spread> = rows.iter().map(|row| row.goodput()).collect::<Option<_>>()?;
    let is_highest = |place: usize| {
        let others = spreads.iter().enumerate().filter(|(other, _)| *other != place);
        let mut above = others.map(|(_, other)| spreads[place].is_above(other)).peekable();
        above.peek().is_some() && above.all(|is_above| is_above)
    };
    (0..spreads.len()).find(|place| is_highest(*place))
}
