//! Bar chart of the first screen: one group of bars for each case, in plain markup, so that it needs
//! no script and fits any width.

use super::comparison::{OURS, baseline_of, gateways};
use super::figure;
use super::markup::Html;
use super::palette::Palette;
use super::row::{BASELINE, Row, percentile_of};
use super::verdict::is_invalid;
use super::{plugin_cost, published};
use crate::report::{Report, Warning};

/// Number of groups in sight; further ones are folded.
const GROUPS_OPEN_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Bars {
    pub(super) title: String,
    /// Unit, and the direction in which values are better.
    pub(super) note: String,
    pub(super) groups: Vec<BarGroup>,
    pub(super) scale: Scale,
}

/// Bars whose lengths can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Chart,
    /// Only those of a group, for figures that grow by magnitudes over the cases.
    Group,
}

/// Bars of one case.
#[derive(Debug)]
pub(super) struct BarGroup {
    pub(super) label: String,
    pub(super) bars: Vec<Bar>,
}

#[derive(Debug, Default)]
pub(super) struct Bar {
    pub(super) label: String,
    /// CSS class of the subject's colour.
    pub(super) colour: &'static str,
    /// Length relative to the other bars of the chart.
    pub(super) value: f64,
    /// Value as text.
    pub(super) text: String,
    pub(super) kind: BarKind,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum BarKind {
    #[default]
    Measured,
    /// Figure of the compared subject.
    Ours,
    /// Figure of the upstream without a gateway.
    Baseline,
    /// Figure of others, drawn as an outline.
    Published,
    /// Figure that must not be quoted, struck through.
    Invalid,
}

impl BarGroup {
    fn longest(&self) -> f64 {
        let values = self.bars.iter().map(|bar| bar.value).filter(|value| value.is_finite());
        values.fold(0.0, f64::max)
    }
}

impl Bar {
    /// Creates a bar without a value for a row.
    pub(super) fn new(row: &Row<'_>, palette: &Palette<'_>, doubts: &[Warning]) -> Self {
        let kind = match row.is_printed() {
            true => BarKind::Published,
            false if is_invalid(row, doubts) => BarKind::Invalid,
            false if row.subject == OURS => BarKind::Ours,
            false if row.subject == BASELINE => BarKind::Baseline,
            false => BarKind::Measured,
        };
        let label = if row.subject.is_empty() { row.name } else { row.subject };
        let colour = palette.class_of(row.subject);
        Self { label: label.to_owned(), colour, kind, ..Self::default() }
    }
}

/// Writes the chart, if there is more than one bar.
pub(super) fn write(
    html: &mut Html,
    report: &Report,
    rows: &[Row<'_>],
    published: &[Row<'_>],
    palette: &Palette<'_>,
) {
    let doubts = &report.warnings;
    let bars = match report.suite.as_deref() {
        Some("api7") => plugin_cost::bars(rows, published, palette, doubts),
        _ => None,
    };
    let mut bars = bars.unwrap_or_else(|| throughputs(rows, published, palette, doubts));
    if report.suite.as_deref() == Some("polaris") {
        // Operations cost a registry very different amounts of work.
        bars.scale = Scale::Group;
    }
    let longest = bars.groups.iter().map(BarGroup::longest).fold(0.0, f64::max);
    let unit = |group: &BarGroup| match bars.scale {
        Scale::Chart => longest,
        Scale::Group => group.longest(),
    };
    let count: usize = bars.groups.iter().map(|group| group.bars.len()).sum();
    if count < 2 || longest <= 0.0 {
        return;
    }
    html.open("section", &[("class", "bars"), ("aria-labelledby", "bars")]);
    html.heading("h2", "bars", &bars.title);
    html.element("p", &[("class", "foot")], &bars.note);
    let (open, folded) = bars.groups.split_at(bars.groups.len().min(GROUPS_OPEN_MAX));
    write_groups(html, open, unit);
    if !folded.is_empty() {
        html.open("details", &[]);
        html.element("summary", &[], &format!("{} more cases", folded.len()));
        write_groups(html, folded, unit);
        html.close("details");
    }
    html.close("section");
}

fn write_groups(html: &mut Html, groups: &[BarGroup], unit: impl Fn(&BarGroup) -> f64) {
    html.open("div", &[("class", "groups")]);
    for group in groups {
        html.raw("\n").open("figure", &[]).element("figcaption", &[], &group.label);
        for bar in &group.bars {
            let class = match bar.kind {
                BarKind::Measured => bar.colour.to_owned(),
                BarKind::Ours => format!("{} ours", bar.colour),
                BarKind::Baseline => format!("{} base", bar.colour),
                BarKind::Published => format!("{} printed", bar.colour),
                BarKind::Invalid => format!("{} void", bar.colour),
            };
            let width =
                format!("width:{:.1}%", (bar.value / unit(group) * 100.0).clamp(0.0, 100.0));
            html.open("div", &[("class", class.as_str())]);
            html.element("span", &[("class", "who")], &bar.label);
            html.open("span", &[("class", "track")]).open("i", &[("style", width.as_str())]);
            html.close("i").close("span").element("b", &[], &bar.text).close("div");
        }
        html.close("figure");
    }
    html.close("div");
}

/// Draws the throughput of each case, or its p99 if the rates were given.
fn throughputs(
    rows: &[Row<'_>],
    published: &[Row<'_>],
    palette: &Palette<'_>,
    doubts: &[Warning],
) -> Bars {
    let is_open = rows.iter().all(|row| row.first().open_loop);
    let shown = || rows.iter().filter(|row| row.first().open_loop == is_open);
    let bar = |row: &Row<'_>| {
        let (value, text) = if is_open && !row.is_printed() {
            let p99 = percentile_of(&row.times, 99.0).known()?;
            (p99, figure::time(p99))
        } else {
            let rate = row.throughput()?.median;
            (rate, figure::number(rate))
        };
        Some(Bar { value, text, ..Bar::new(row, palette, doubts) })
    };
    let group = |name: &str| {
        let measured = shown().filter(|row| row.name == name);
        let printed = published.iter().filter(|row| {
            !is_open && (row.name == name || published::sized(row).is_some_and(|it| it.0 == name))
        });
        let bars = measured.filter_map(bar).chain(printed.filter_map(|row| {
            let label = match published::sized(row) {
                Some((_, size)) => format!("{} {size}", row.subject.split(',').next()?),
                None => row.subject.replace(", published", ""),
            };
            Some(Bar { label, ..bar(row)? })
        }));
        let mut bars: Vec<Bar> = bars.collect();
        bars.sort_by_key(|bar| match bar.kind {
            BarKind::Ours => 0,
            BarKind::Measured | BarKind::Invalid => 1,
            BarKind::Baseline => 2,
            BarKind::Published => 3,
        });
        BarGroup { label: name.to_owned(), bars }
    };
    let mut names: Vec<&str> = Vec::new();
    let (ours, _) = gateways(rows);
    let is_named =
        |row: &&Row<'_>| ours.is_none() || row.subject != BASELINE || is_paired(rows, row);
    for row in shown().filter(is_named) {
        if !names.contains(&row.name) {
            names.push(row.name);
        }
    }
    let groups = names.into_iter().map(group).filter(|group| !group.bars.is_empty());
    let has_printed = !is_open && !published.is_empty();
    let printed = if has_printed { " Outlined: published, on other hardware." } else { "" };
    let (title, note) = match is_open {
        true => (
            "p99 latency at the same rates",
            "Shorter is better; each case has a scale of its own.",
        ),
        false => ("Successful requests a second", "Longer is better."),
    };
    let scale = if is_open { Scale::Group } else { Scale::Chart };
    Bars { title: title.into(), note: format!("{note}{printed}"), groups: groups.collect(), scale }
}

/// Whether a direct case belongs to a case of a gateway.
fn is_paired(rows: &[Row<'_>], direct: &Row<'_>) -> bool {
    rows.iter().any(|row| {
        row.subject != BASELINE
            && row.name == direct.name
            && baseline_of(rows, row).is_some_and(|known| known.name == direct.name)
    })
}
