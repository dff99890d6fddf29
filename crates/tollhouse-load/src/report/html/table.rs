//! Tables of the page: rows grouped by subject, figures aligned right, units in the headings, with
//! markup for screen readers.

use std::borrow::Cow;

use super::figure::{self, UNKNOWN};
use super::markup::Html;
use super::row::{Percentile, SAMPLES_BEYOND_MIN, Spread};

#[derive(Debug, Default)]
pub(super) struct Table {
    /// Description of the table for screen readers.
    pub(super) caption: &'static str,
    pub(super) first_head: &'static str,
    /// Headings that span several columns, with the number of columns; may be empty.
    pub(super) headings: Vec<(Cow<'static, str>, usize)>,
    /// Headings of the columns after the first.
    pub(super) heads: Vec<Head>,
    pub(super) groups: Vec<Group>,
    pub(super) on_phones: OnPhones,
}

/// Form of a table on narrow screens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum OnPhones {
    /// The table scrolls sideways.
    #[default]
    Scrolls,
    /// Each row is a card that names its cells by the titles of the headings.
    Cards,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) text: Cow<'static, str>,
    /// Unit of the figures in the column.
    pub(super) unit: &'static str,
    /// Explanation of the column, shown as a tooltip.
    pub(super) title: Cow<'static, str>,
    /// CSS class of the column's cells.
    pub(super) class: &'static str,
    /// Direction in which values are better.
    pub(super) direction: Direction,
}

/// Direction in which the values of a column are better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Direction {
    /// Neither: the column describes the load.
    #[default]
    None,
    Higher,
    Lower,
}

/// Group of rows with a common label, such as one subject.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) label: String,
    /// Text after the label, in small print.
    pub(super) behind: String,
    /// CSS class of the colour; empty for none.
    pub(super) colour: &'static str,
    pub(super) lines: Vec<Line>,
}

/// Row of a table: its name, details and cells.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) name: String,
    /// Details below the name, in small print. Details common to all lines of a group are only
    /// shown after the group's label.
    pub(super) facts: Vec<String>,
    /// Number of lines the name spans.
    pub(super) name_spans: NameSpans,
    /// CSS class, word and message of the most severe warning.
    pub(super) doubt: Option<(&'static str, &'static str, String)>,
    /// Cells in the order of the headings.
    pub(super) cells: Vec<Cell>,
}

/// Number of lines a name spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NameSpans {
    #[default]
    One,
    /// The name covers this line and the following ones; contains the total number of lines.
    Several(usize),
    /// The name of an earlier line covers this line.
    Covered,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) text: String,
    /// Text below the figure, in small print.
    pub(super) below: String,
    /// Tooltip with further figures.
    pub(super) title: String,
    /// Sign beside the figure, such as that of the highest.
    pub(super) mark: Option<Mark>,
    pub(super) validity: Validity,
}

/// Permission to use a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Validity {
    #[default]
    Valid,
    /// A rule calls it invalid: struck through.
    Invalid,
}

/// Sign beside a figure. Each has text or a symbol, because colour alone is not accessible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Highest figure of the compared ones.
    Highest,
    Better,
    Worse,
    /// No provable difference from the compared figure.
    Equal,
    /// Not ranked: an empty sign, which keeps the figures aligned.
    Unranked,
}

impl Mark {
    /// Returns CSS class, sign, and text for screen readers.
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
    /// Creates a cell with a figure.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a cell with a figure, or a dash if it was not measured.
    pub(super) fn known(text: Option<String>) -> Self {
        text.map_or_else(
            || Self { text: UNKNOWN.into(), title: "not measured".into(), ..Self::default() },
            Self::text,
        )
    }

    /// Creates a cell with a count; 0 means that it was not measured.
    pub(super) fn counted(value: u64) -> Self {
        Self::known((value > 0).then(|| figure::count(value)))
    }

    /// Creates a cell with a network size; 0 means that it was not measured.
    pub(super) fn size(size_bytes: u64) -> Self {
        if size_bytes == 0 {
            return Self::known(None);
        }
        let title = format!("{} bytes", figure::count(size_bytes));
        Self { title, ..Self::text(figure::bytes(size_bytes as f64)) }
    }

    /// Creates a cell with the median of several runs, and lowest and highest below it.
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

    /// Creates a cell with a percentile in milliseconds, or with the reason for its absence.
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

/// Writes a table that scrolls sideways on narrow screens.
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
    let class = if table.on_phones == OnPhones::Cards { "cards" } else { "" };
    html.open("table", &[("class", class)]).element(
        "caption",
        &[("class", "unseen")],
        table.caption,
    );
    write_heads(html, table);
    for group in &table.groups {
        let common = common_facts(group);
        html.open("tbody", &[]);
        write_label(html, group, &common.join(" · "), table.heads.len() + 1);
        for line in &group.lines {
            let own = line.facts.iter().map(String::as_str).filter(|fact| !common.contains(fact));
            write_line(html, line, &own.collect::<Vec<_>>().join(" · "), table);
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
        html.open("th", &[("scope", "col"), ("title", &*head.title), ("class", head.class)]);
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
            // The arrow alone is meaningless to screen readers.
            html.raw(" ").open("span", &[("class", "way"), ("title", words)]).text(sign);
            html.element("span", &[("class", "unseen")], words).close("span");
        }
        html.close("th");
    }
    html.close("tr").close("thead");
}

/// Returns the details common to all lines of a group.
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

fn write_line(html: &mut Html, line: &Line, facts: &str, table: &Table) {
    // Invalid figures are struck through.
    // In cards they are struck one by one, because a row has figures of several subjects.
    let is_whole = table.on_phones == OnPhones::Scrolls;
    let is_invalid = is_whole && matches!(line.doubt, Some(("invalid", ..)));
    let attributes: &[_] = if is_invalid { &[("class", "void")] } else { &[] };
    html.raw("\n").open("tr", attributes);
    if line.name_spans != NameSpans::Covered {
        write_name(html, line, facts);
    }
    for (cell, head) in line.cells.iter().zip(&table.heads) {
        let name = if table.on_phones == OnPhones::Cards { &*head.title } else { "" };
        write_cell(html, cell, head.class, name);
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

/// Writes a cell; `name` is shown beside it in a card.
fn write_cell(html: &mut Html, cell: &Cell, class: &str, name: &str) {
    let mut attributes = Vec::new();
    let is_absent = !name.is_empty() && cell.text == UNKNOWN;
    let class = match cell.validity {
        _ if is_absent => format!("{class} none"),
        Validity::Invalid => format!("{class} void"),
        Validity::Valid => class.to_owned(),
    };
    if !name.is_empty() {
        attributes.push(("data-name", name));
    }
    if !class.is_empty() {
        attributes.push(("class", class.trim_start()));
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
