//! The tables of the page: rows under the name of their subject, figures to the right, the head with
//! units, everything marked up so that a screen reader can tell where it is.

use std::borrow::Cow;

use super::figure::{self, UNKNOWN};
use super::markup::Html;
use super::row::{Percentile, SAMPLES_BEYOND_MIN, Spread};

#[derive(Debug, Default)]
pub(super) struct Table {
    /// What it shows, for those who cannot see it.
    pub(super) caption: &'static str,
    /// The head of the first column.
    pub(super) first_head: &'static str,
    /// Headings over several columns, with how many; none when the heads speak for themselves.
    pub(super) headings: Vec<(&'static str, usize)>,
    /// The heads of the columns after the first.
    pub(super) heads: Vec<Head>,
    /// The rows by group.
    pub(super) groups: Vec<Group>,
}

/// The head of a column.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    /// Its words.
    pub(super) text: Cow<'static, str>,
    /// The unit of the figures under it.
    pub(super) unit: &'static str,
    /// What exactly is counted.
    pub(super) title: &'static str,
    /// How the cells under it are set.
    pub(super) class: &'static str,
    /// Which way is better.
    pub(super) direction: Direction,
}

/// Which way figures of a column are better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Direction {
    /// Neither: it says what was done.
    #[default]
    None,
    /// Up.
    Higher,
    /// Down.
    Lower,
}

/// Rows that belong together.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Their common name.
    pub(super) label: String,
    /// What is said behind it.
    pub(super) behind: String,
    /// The class of their colour; empty for none.
    pub(super) colour: &'static str,
    /// The rows.
    pub(super) lines: Vec<Line>,
}

/// A row.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) name: String,
    /// Under the name, smaller; what all lines of a group have in common goes behind the group's label.
    pub(super) facts: Vec<String>,
    /// How many lines, from this one on, the name stands for; 0 for those after the first of them.
    pub(super) name_spans: NameSpans,
    /// The class, the word and the message of the gravest doubt about it.
    pub(super) doubt: Option<(&'static str, &'static str, String)>,
    /// A cell for every head.
    pub(super) cells: Vec<Cell>,
}

/// How many lines a name stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NameSpans {
    /// Its own.
    #[default]
    One,
    /// Its own and those after it, so many in all.
    Several(usize),
    /// A line that the name of one before it stands for.
    Covered,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Cell {
    /// The figure.
    pub(super) text: String,
    /// Under it, smaller.
    pub(super) below: String,
    /// The explanation for who points at it.
    pub(super) title: String,
    /// How the figure stands out.
    pub(super) mark: Option<Mark>,
}

/// A sign at a figure, never a colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The highest of its kind.
    Highest,
    /// Better than what it is compared with.
    Better,
    /// Worse than that.
    Worse,
    /// No difference can be told.
    Equal,
    /// Not to be ranked: takes the place of a sign, so that figures stay below each other.
    Unranked,
}

impl Mark {
    /// The class, the sign, and the word for those who cannot see it.
    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Mark::Highest => ("highest", "▲ highest", ""),
            Mark::Better => ("mark better", "▲", "better"),
            Mark::Worse => ("mark worse", "▼", "worse"),
            Mark::Equal => ("mark", "≈", "the ranges of the runs overlap"),
            Mark::Unranked => ("mark", "", ""),
        }
    }
}

impl Cell {
    /// A figure that needs no explanation.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A figure, or a dash that says it was not measured.
    pub(super) fn known(text: Option<String>) -> Self {
        text.map_or_else(
            || Self { text: UNKNOWN.into(), title: "not measured".into(), ..Self::default() },
            Self::text,
        )
    }

    /// A count that is never 0 when it was counted.
    pub(super) fn counted(value: u64) -> Self {
        Self::known((value > 0).then(|| figure::count(value)))
    }

    /// Bytes on a network, never 0 when they were counted.
    pub(super) fn size(size_bytes: u64) -> Self {
        if size_bytes == 0 {
            return Self::known(None);
        }
        let title = format!("{} bytes", figure::count(size_bytes));
        Self { title, ..Self::text(figure::bytes(size_bytes as f64)) }
    }

    /// The median of several runs, the lowest and the highest under it.
    pub(super) fn spread(spread: Option<Spread>) -> Self {
        let Some(spread) = spread else { return Self::known(None) };
        let cell = Self::text(figure::number(spread.median));
        if spread.runs < 2 {
            return cell;
        }
        Self {
            below: format!("{}–{}", figure::number(spread.low), figure::number(spread.high)),
            title: format!("median of {} runs; lowest and highest below", spread.runs),
            ..cell
        }
    }

    /// A percentile in milliseconds, or why there is none.
    pub(super) fn percentile(percentile: Percentile) -> Self {
        match percentile {
            Percentile::Known(value) => Self::text(figure::milliseconds(value)),
            Percentile::TooFew(beyond) => Self {
                title: format!(
                    "{beyond} samples lie beyond this percentile; fewer than {SAMPLES_BEYOND_MIN} \
                     say nothing about it"
                ),
                ..Self::text(UNKNOWN)
            },
            Percentile::Unknown => Self::known(None),
        }
    }
}

/// Writes a table, scrolling sideways where the screen is too narrow for it.
pub(super) fn write(html: &mut Html, table: &Table) {
    html.open(
        "div",
        &[
            ("class", "scroll"),
            ("role", "region"),
            ("tabindex", "0"),
            ("aria-label", table.caption),
        ],
    );
    html.open("table", &[]).element("caption", &[("class", "unseen")], table.caption);
    write_heads(html, table);
    for group in &table.groups {
        let common = common_facts(group);
        html.open("tbody", &[]);
        write_label(html, group, &common.join(" · "), table.heads.len() + 1);
        for line in &group.lines {
            let own = line.facts.iter().map(String::as_str).filter(|fact| !common.contains(fact));
            write_line(html, line, &own.collect::<Vec<_>>().join(" · "), &table.heads);
        }
        html.close("tbody");
    }
    html.close("table").close("div");
}

fn write_heads(html: &mut Html, table: &Table) {
    html.raw("\n").open("thead", &[]);
    if !table.headings.is_empty() {
        html.open("tr", &[("class", "headings")]).open("td", &[]).close("td");
        for (heading, columns) in &table.headings {
            let span = columns.to_string();
            html.element("th", &[("scope", "colgroup"), ("colspan", &span)], heading);
        }
        html.close("tr");
    }
    html.open("tr", &[]);
    html.element("th", &[("scope", "col"), ("class", "left")], table.first_head);
    for head in &table.heads {
        html.open("th", &[("scope", "col"), ("title", head.title), ("class", head.class)]);
        html.text(&head.text);
        if !head.unit.is_empty() {
            html.raw(" ").element("span", &[("class", "unit")], head.unit);
        }
        let direction = match head.direction {
            Direction::None => None,
            Direction::Higher => Some(("↑", "higher is better")),
            Direction::Lower => Some(("↓", "lower is better")),
        };
        if let Some((sign, words)) = direction {
            // An arrow alone says nothing to who listens to the page.
            html.raw(" ").open("span", &[("class", "way"), ("title", words)]).text(sign);
            html.element("span", &[("class", "unseen")], words).close("span");
        }
        html.close("th");
    }
    html.close("tr").close("thead");
}

/// What would be said under the name of every line of a group alike.
fn common_facts(group: &Group) -> Vec<&str> {
    let Some(first) = group.lines.first().filter(|_| !group.label.is_empty()) else {
        return Vec::new();
    };
    let in_all = |fact: &&String| group.lines.iter().all(|line| line.facts.contains(fact));
    first.facts.iter().filter(in_all).map(String::as_str).collect()
}

fn write_label(html: &mut Html, group: &Group, facts: &str, columns: usize) {
    if group.label.is_empty() {
        return;
    }
    let span = columns.to_string();
    html.raw("\n").open("tr", &[("class", "subject")]);
    html.open("th", &[("scope", "rowgroup"), ("colspan", &span)]).open("span", &[]);
    if !group.colour.is_empty() {
        html.open("i", &[("class", group.colour)]).close("i");
    }
    html.text(&group.label);
    for behind in [group.behind.as_str(), facts] {
        if !behind.is_empty() {
            html.raw(" ").element("em", &[], behind);
        }
    }
    html.close("span").close("th").close("tr");
}

fn write_line(html: &mut Html, line: &Line, facts: &str, heads: &[Head]) {
    // Figures that must not be quoted are struck through where they stand.
    let is_invalid = matches!(line.doubt, Some(("invalid", ..)));
    let attributes: &[_] = if is_invalid { &[("class", "void")] } else { &[] };
    html.raw("\n").open("tr", attributes);
    if line.name_spans != NameSpans::Covered {
        write_name(html, line, facts);
    }
    for (cell, head) in line.cells.iter().zip(heads) {
        write_cell(html, cell, head.class);
    }
    html.close("tr");
}

fn write_name(html: &mut Html, line: &Line, facts: &str) {
    match line.name_spans {
        NameSpans::Several(lines) => {
            let lines = lines.to_string();
            html.open("th", &[("scope", "rowgroup"), ("class", "left name"), ("rowspan", &lines)])
        }
        _ => html.open("th", &[("scope", "row"), ("class", "left name")]),
    };
    html.text(&line.name);
    if let Some((class, word, message)) = &line.doubt {
        let attributes = [("href", "#warnings"), ("class", *class), ("title", message.as_str())];
        html.raw(" ").element("a", &attributes, word);
    }
    if !facts.is_empty() {
        html.element("small", &[], facts);
    }
    html.close("th");
}

fn write_cell(html: &mut Html, cell: &Cell, class: &str) {
    let mut attributes = Vec::new();
    if !class.is_empty() {
        attributes.push(("class", class));
    }
    if !cell.title.is_empty() {
        attributes.push(("title", cell.title.as_str()));
    }
    html.open("td", &attributes).text(&cell.text);
    if !cell.below.is_empty() {
        html.element("small", &[], &cell.below);
    }
    if let Some((class, sign, word)) = cell.mark.map(Mark::parts) {
        html.open("small", &[("class", class)]).text(sign);
        html.element("span", &[("class", "unseen")], word).close("small");
    }
    html.close("td");
}
