//! The headline table: a row a case, grouped by subject.

use super::column::{Cell, Column, Layout, Shows};
use super::figure;
use super::markup::Html;
use super::row::{Row, Spread, subjects};
use crate::report::{Severity, Warning};
use crate::result::End;

/// Writes the table of `rows`. Its footnotes are the caller's, who knows what else is on the page.
pub(super) fn write(html: &mut Html, layout: &Layout, rows: &[Row<'_>], notes: &Notes<'_>) {
    let label =
        [("class", "scroll"), ("role", "region"), ("tabindex", "0"), ("aria-label", notes.caption)];
    html.open("div", &label).open("table", &[("class", "headline")]);
    html.element("caption", &[("class", "unseen")], notes.caption);
    write_heads(html, layout);
    for subject in subjects(rows) {
        let of_subject: Vec<&Row<'_>> = rows.iter().filter(|row| row.subject == subject).collect();
        write_subject(html, layout, &of_subject, notes);
    }
    html.close("table").close("div");
}

/// What a table says beside its rows.
#[derive(Debug)]
pub(super) struct Notes<'a> {
    /// What the table is called.
    pub(super) caption: &'a str,
    /// What is said behind a subject's name.
    pub(super) behind_subject: &'a str,
    /// Doubts about rows.
    pub(super) warnings: &'a [Warning],
}

fn write_heads(html: &mut Html, layout: &Layout) {
    let span = |columns: &[Column]| columns.len().to_string();
    html.open("thead", &[]).open("tr", &[]).open("td", &[]).close("td");
    for (heading, columns, class) in
        [(layout.heading, &layout.theirs, ""), ("Besides", &layout.besides, "besides")]
    {
        let span = span(columns);
        let attributes = [("scope", "colgroup"), ("colspan", span.as_str()), ("class", class)];
        html.element("th", &attributes, heading);
    }
    html.close("tr").open("tr", &[]);
    html.element("th", &[("scope", "col"), ("class", "left")], "Case");
    for (column, class) in columns(layout) {
        html.open("th", &[("scope", "col"), ("title", column.title), ("class", class)]);
        html.text(column.head);
        if !column.unit.is_empty() {
            html.raw(" ").element("span", &[("class", "unit")], column.unit);
        }
        html.close("th");
    }
    html.close("tr").close("thead");
}

/// All columns, with the class of their cells: words to the left, a rule before the second group.
fn columns(layout: &Layout) -> impl Iterator<Item = (&Column, &'static str)> {
    let theirs = layout.theirs.iter().map(|column| match column.shows {
        Shows::Command => (column, "left"),
        _ => (column, ""),
    });
    let besides = layout.besides.iter().enumerate();
    theirs.chain(besides.map(|(at, column)| (column, if at == 0 { "besides" } else { "" })))
}

fn write_subject(html: &mut Html, layout: &Layout, rows: &[&Row<'_>], notes: &Notes<'_>) {
    let columns_in_all = (layout.theirs.len() + layout.besides.len() + 1).to_string();
    html.open("tbody", &[]).open("tr", &[("class", "subject")]);
    html.open("th", &[("scope", "rowgroup"), ("colspan", &columns_in_all)]);
    html.text(rows[0].subject);
    if !notes.behind_subject.is_empty() {
        html.raw(" ").element("span", &[("class", "quiet")], notes.behind_subject);
    }
    html.close("th").close("tr");
    let best = highest(rows);
    for (place, row) in rows.iter().enumerate() {
        html.open("tr", &[]);
        write_case(html, row, notes.warnings);
        for (column, class) in columns(layout) {
            let cell = column.cell(row, place);
            let is_best = best == Some(place) && column.shows == Shows::Goodput;
            write_cell(html, &cell, class, is_best.then_some("highest"));
        }
        html.close("tr");
    }
    html.close("tbody");
}

fn write_case(html: &mut Html, row: &Row<'_>, warnings: &[Warning]) {
    html.open("th", &[("scope", "row"), ("class", "left")]).text(row.name);
    let about = format!("{} / {}", row.subject, row.name);
    let doubts = warnings.iter().filter(|warning| warning.about == about);
    if let Some(worst) = doubts.max_by_key(|warning| warning.severity) {
        let (class, sign) = super::warnings::sign(worst.severity);
        if worst.severity != Severity::Note {
            let attributes =
                [("href", "#warnings"), ("class", class), ("title", worst.message.as_str())];
            html.raw(" ").element("a", &attributes, sign);
        }
    }
    html.element("small", &[], &facts(row)).close("th");
}

/// What must be known to read a row: what its times are, how often and for how long it ran.
fn facts(row: &Row<'_>) -> String {
    let mut facts = vec![row.times_are().to_owned()];
    if row.runs.len() > 1 {
        facts.push(format!("{} runs", row.runs.len()));
    }
    if row.seconds() > 0.0 {
        let seconds = row.seconds() / row.runs.len() as f64;
        facts.push(format!("{}\u{a0}s", figure::number(seconds)));
    }
    if row.runs.iter().any(|run| run.end == End::Interrupted) {
        facts.push("interrupted".to_owned());
    }
    facts.join(" · ")
}

/// Writes a cell, with a word under its figure when it stands out.
pub(super) fn write_cell(html: &mut Html, cell: &Cell, class: &str, mark: Option<&str>) {
    let mut attributes = Vec::new();
    if !class.is_empty() {
        attributes.push(("class", class));
    }
    if !cell.title.is_empty() {
        attributes.push(("title", cell.title.as_str()));
    }
    html.open("td", &attributes);
    match mark {
        Some(_) => html.element("strong", &[], &cell.text),
        None => html.text(&cell.text),
    };
    if !cell.below.is_empty() {
        html.element("small", &[], &cell.below);
    }
    if let Some(mark) = mark {
        html.open("small", &[("class", "mark")]).raw("▲ ").text(mark).close("small");
    }
    html.close("td");
}

/// The row whose goodput lies above that of every other, runs and all; none when that cannot be told.
fn highest(rows: &[&Row<'_>]) -> Option<usize> {
    let spreads: Vec<Option<Spread>> = rows.iter().map(|row| row.goodput()).collect();
    if spreads.len() < 2 {
        return None;
    }
    spreads.iter().position(|one| {
        let Some(one) = one else { return false };
        let others = spreads.iter().flatten().filter(|other| *other != one);
        let above = others.filter(|other| one.is_above(other)).count();
        above + 1 == spreads.len()
    })
}
