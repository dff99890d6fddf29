//! Comparisons: difference to the baseline, ratios to peers, and published figures. A difference is
//! called better or worse only if the runs of both sides do not overlap.

use std::borrow::Cow;

use super::column::Layout;
use super::figure;
use super::headline;
use super::markup::Html;
use super::palette::Palette;
use super::row::{BASELINE, Row, Spread, TARGET, percentile_of, subjects, usage_of};
use super::table::{self, Cell, Direction, Group, Head, Line, Mark, OnPhones, Table};
use crate::report::Warning;

/// Subject compared with its peers, if present.
pub(super) const OURS: &str = "tollhouse";
/// Percentiles that the comparison shows.
const COMPARED: [f64; 5] = [50.0, 75.0, 90.0, 99.0, 99.9];
/// Relative difference below which two intended rates count as equal load.
const RATE_TOLERANCE: f64 = 0.001;

const fn head(
    text: &'static str,
    unit: &'static str,
    title: &'static str,
    direction: Direction,
) -> Head {
    Head { text: Cow::Borrowed(text), unit, title: Cow::Borrowed(title), class: "", direction }
}

/// Returns the baseline row for the load of `row`: with an equal name, or else with equal
/// concurrency and rate.
pub(super) fn baseline_of<'r, 'a>(rows: &'r [Row<'a>], row: &Row<'_>) -> Option<&'r Row<'a>> {
    if row.subject == BASELINE {
        return None;
    }
    let mut baselines = rows.iter().filter(|row| row.subject == BASELINE);
    // Open and closed loops must not be mixed, because a given rate cannot be compared with the
    // maximum rate.
    let is_alike = |baseline: &&Row<'_>| baseline.first().open_loop == row.first().open_loop;
    let same_name = baselines.clone().filter(is_alike).find(|baseline| baseline.name == row.name);
    same_name.or_else(|| baselines.find(|baseline| is_same_load(baseline, row)))
}

fn is_same_load(one: &Row<'_>, other: &Row<'_>) -> bool {
    let (one, other) = (one.first(), other.first());
    let same_rate = match (one.intended_rate, other.intended_rate) {
        (Some(one), Some(other)) => (one - other).abs() <= one * RATE_TOLERANCE,
        (None, None) => true,
        _ => false,
    };
    let requests =
        |run: &crate::result::CaseResult| run.case.as_ref().and_then(|case| case.load.requests);
    one.concurrency > 0
        && one.concurrency == other.concurrency
        && one.open_loop == other.open_loop
        && same_rate
        && requests(one) == requests(other)
}

/// Writes the differences of every subject to the baseline, if there is one.
pub(super) fn write_added(
    html: &mut Html,
    rows: &[Row<'_>],
    palette: &Palette<'_>,
    doubts: &[Warning],
) {
    let with_baseline = |subject: &str| {
        let rows_of = rows.iter().filter(|row| row.subject == subject);
        let lines: Vec<Line> = rows_of
            .filter_map(|row| {
                let baseline = baseline_of(rows, row)?;
                Some(doubted(added(row, baseline), [row, baseline], doubts))
            })
            .collect();
        (!lines.is_empty()).then(|| Group {
            label: subject.to_owned(),
            colour: palette.class_of(subject),
            lines,
            ..Group::default()
        })
    };
    let groups: Vec<Group> = subjects(rows).into_iter().filter_map(with_baseline).collect();
    if groups.is_empty() {
        return;
    }
    // In a closed loop the difference needs an explanation, which follows below.
    let is_closed = rows.iter().any(|row| row.subject != BASELINE && !row.first().open_loop);
    let table = Table {
        caption: "What each subject adds to the upstream asked directly",
        first_head: "Case",
        headings: Vec::new(),
        heads: vec![
            head(
                "Throughput",
                "of direct",
                "Throughput of this subject over that of the direct case",
                Direction::Higher,
            ),
            head(
                "p50",
                "ms added",
                "Median of this subject minus that of the direct case",
                Direction::Lower,
            ),
            head("p75", "ms added", "", Direction::Lower),
            head("p90", "ms added", "", Direction::Lower),
            head("p99", "ms added", "", Direction::Lower),
            head("p99.9", "ms added", "", Direction::Lower),
            head("mean", "ms added", "", Direction::Lower),
        ],
        groups,
        on_phones: OnPhones::Scrolls,
    };
    html.fold("added", "Compared with the upstream asked directly");
    table::write(html, &table);
    if is_closed {
        html.element(
            "p",
            &[("class", "foot")],
            "In a closed loop both sides are at saturation, each at its own rate: the difference holds \
             the queueing of that load. What a request costs in passing is seen at an equal rate below \
             saturation.",
        );
    }
    html.end_fold();
}

fn added(row: &Row<'_>, baseline: &Row<'_>) -> Line {
    let share = match (row.throughput(), baseline.throughput()) {
        (Some(own), Some(direct)) => Some(figure::percent(own.median / direct.median)),
        _ => None,
    };
    let difference = |own: Option<f64>, direct: Option<f64>| {
        Cell::known(
            own.zip(direct).map(|(own, direct)| figure::signed(own - direct, figure::milliseconds)),
        )
    };
    let mut cells = vec![Cell::known(share)];
    cells.extend(COMPARED.map(|percent| {
        let own = row.percentile(percent);
        match (own.known(), baseline.percentile(percent).known()) {
            (None, _) => Cell::percentile(own),
            (own, direct) => difference(own, direct),
        }
    }));
    cells.push(difference(row.mean_ns(), baseline.mean_ns()));
    let facts = match row.name == baseline.name {
        true => vec![row.times_are().to_owned()],
        false => vec![row.times_are().to_owned(), format!("compared with {}", baseline.name)],
    };
    Line { name: row.name.to_owned(), facts, cells, ..Line::default() }
}

/// Returns the subject to compare, if any besides the baseline, and its peers.
pub(super) fn gateways<'a>(rows: &[Row<'a>]) -> (Option<&'a str>, Vec<&'a str>) {
    let mut gateways = subjects(rows);
    gateways.retain(|subject| *subject != BASELINE);
    let ours = gateways.iter().find(|subject| **subject == OURS).or(gateways.first()).copied();
    // Variants such as `tollhouse, cached` or `tollhouse, 60 % of its rate` are other cases of our
    // subject, not peers.
    gateways.retain(|subject| {
        let rest = ours.and_then(|ours| subject.strip_prefix(ours));
        !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
    });
    (ours, gateways)
}

/// Marks the line if a rule questions the figure on either side; the most severe mark is used.
fn doubted(line: Line, sides: [&Row<'_>; 2], doubts: &[Warning]) -> Line {
    let doubt = sides.into_iter().filter_map(|row| headline::doubt(row, doubts));
    Line { doubt: doubt.max_by_key(|(class, ..)| *class == "invalid"), ..line }
}

/// Writes the ratios of the compared subject to each of its peers.
pub(super) fn write_peers(
    html: &mut Html,
    rows: &[Row<'_>],
    palette: &Palette<'_>,
    doubts: &[Warning],
) {
    let (Some(ours), peers) = gateways(rows) else { return };
    let group = |peer: &&str| {
        let lines: Vec<Line> = rows
            .iter()
            .filter(|row| row.subject == ours)
            .filter_map(|row| {
                let same = |other: &&Row<'_>| other.subject == *peer && other.name == row.name;
                let other = rows.iter().find(same)?;
                Some(doubted(ratios(row, other), [row, other], doubts))
            })
            .collect();
        (!lines.is_empty()).then(|| Group {
            label: format!("{ours} ÷ {peer}"),
            colour: palette.class_of(peer),
            lines,
            ..Group::default()
        })
    };
    let groups: Vec<Group> = peers.iter().filter_map(group).collect();
    // Without groups the section is omitted, because a heading alone would suggest a comparison.
    if groups.is_empty() {
        return;
    }
    html.fold("peers", "Compared with the others");
    table::write(html, &peers_table(groups));
    html.element(
        "p",
        &[("class", "foot")],
        "Medians of the runs, one divided by the other. ▲ better and ▼ worse appear only where each side \
         has three runs or more and their ranges do not overlap; ≈ where they overlap, so that the \
         difference may be chance. Without a sign there were too few runs to rank.",
    );
    html.end_fold();
}

fn peers_table(groups: Vec<Group>) -> Table {
    Table {
        caption: "Ratios to the other subjects under the same load",
        first_head: "Case",
        headings: Vec::new(),
        heads: vec![
            head("Goodput", "", "Above 1: more successful requests a second", Direction::Higher),
            head("p50", "", "Below 1: shorter", Direction::Lower),
            head("p75", "", "Below 1: shorter", Direction::Lower),
            head("p90", "", "Below 1: shorter", Direction::Lower),
            head("p99", "", "Below 1: shorter", Direction::Lower),
            head("p99.9", "", "Below 1: shorter", Direction::Lower),
            head("CPU-s", "per 1000", "Below 1: less CPU for the same work", Direction::Lower),
            head("Memory", "", "Below 1: less memory", Direction::Lower),
        ],
        groups,
        on_phones: OnPhones::Scrolls,
    }
}

/// Direction in which values are better.
#[derive(Clone, Copy)]
pub(super) enum Better {
    Higher,
    Lower,
}

fn ratios(ours: &Row<'_>, theirs: &Row<'_>) -> Line {
    let mut cells = vec![ratio(ours.throughput(), theirs.throughput(), Better::Higher)];
    for percent in COMPARED {
        let of_runs =
            |row: &Row<'_>| row.spread(|run| percentile_of(run.headline(), percent).known());
        cells.push(ratio(of_runs(ours), of_runs(theirs), Better::Lower));
    }
    let cost = |row: &Row<'_>| row.spread(|run| Some(usage_of(&[run], TARGET)?.seconds_per_1000));
    let memory =
        |row: &Row<'_>| row.spread(|run| Some(usage_of(&[run], TARGET)?.rss_bytes_max as f64));
    cells.push(ratio(cost(ours), cost(theirs), Better::Lower));
    cells.push(ratio(memory(ours), memory(theirs), Better::Lower));
    Line {
        name: ours.name.to_owned(),
        facts: vec![ours.times_are().to_owned()],
        cells,
        ..Line::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The first figure is better in all runs.
    Better,
    /// The first figure is worse in all runs.
    Worse,
    /// The ranges of the runs overlap.
    Equal,
    /// Too few runs for a verdict.
    Unranked,
}

/// Compares the first figure with the second.
pub(super) fn verdict_of(ours: &Spread, theirs: &Spread, better: Better) -> Verdict {
    match (ours.is_above(theirs), theirs.is_above(ours), better) {
        (true, _, Better::Higher) | (_, true, Better::Lower) => Verdict::Better,
        (true, _, Better::Lower) | (_, true, Better::Higher) => Verdict::Worse,
        _ if ours.can_rank(theirs) => Verdict::Equal,
        _ => Verdict::Unranked,
    }
}

fn ratio(ours: Option<Spread>, theirs: Option<Spread>, better: Better) -> Cell {
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return Cell::known(None) };
    let mark = match verdict_of(&ours, &theirs, better) {
        Verdict::Better => Mark::Better,
        Verdict::Worse => Mark::Worse,
        Verdict::Equal => Mark::Equal,
        Verdict::Unranked => Mark::Unranked,
    };
    let side = |spread: &Spread| {
        format!("{} to {}", figure::number(spread.low), figure::number(spread.high))
    };
    Cell {
        mark: Some(mark),
        title: match ours.runs.max(theirs.runs) {
            0 | 1 => "one run on each side".to_owned(),
            _ => format!("runs from {}, against {}", side(&ours), side(&theirs)),
        },
        ..Cell::text(figure::ratio(ours.median / theirs.median))
    }
}

/// Writes the published figures beside the cases that they belong to.
pub(super) fn write_published(
    html: &mut Html,
    layout: &Layout,
    published: &[Row<'_>],
    palette: &Palette<'_>,
) {
    if published.is_empty() {
        return;
    }
    // The second group of columns (costs, checks) has no published counterpart.
    let layout = Layout { besides: Vec::new(), ..layout.clone() };
    let mut table = headline::table(&layout, published, palette, &[]);
    table.caption = "Published figures";
    table.headings = Vec::new();
    table.heads.push(head(
        "Of its own direct",
        "",
        "Throughput over that of the same source's direct case, where it published one",
        Direction::Higher,
    ));
    for group in &mut table.groups {
        group.behind = "on other hardware".to_owned();
    }
    let lines = table.groups.iter_mut().flat_map(|group| &mut group.lines);
    for (line, row) in lines.zip(published) {
        line.facts = Vec::new();
        let share = published_baseline(published, row)
            .and_then(|direct| row.rate().zip(direct.rate()))
            .map(|(own, direct)| figure::percent(own.median / direct.median));
        line.cells.push(Cell::known(share));
    }
    html.fold("published", "Published figures, on other hardware");
    html.element(
        "p",
        &[],
        "As their authors printed them, from other machines and with other tools. Rates and times do not \
         compare with those above; how a gateway stands to its own direct case, and the shape over the \
         cases, may.",
    );
    table::write(html, &table);
    html.end_fold();
}

/// Returns the direct case with the source and concurrency of `row`.
pub(super) fn published_baseline<'r, 'a>(
    published: &'r [Row<'a>],
    row: &Row<'_>,
) -> Option<&'r Row<'a>> {
    let is_baseline = |subject: &str| {
        subject.split(|character: char| !character.is_alphanumeric()).any(|word| word == BASELINE)
    };
    let source = |subject: &str| subject.split_whitespace().next().map(str::to_owned);
    published.iter().find(|direct| {
        is_baseline(direct.subject)
            && !is_baseline(row.subject)
            && source(direct.subject) == source(row.subject)
            && direct.first().concurrency == row.first().concurrency
    })
}
