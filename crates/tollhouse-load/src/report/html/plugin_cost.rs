//! Cost of plugins in API7's benchmark: how much of the throughput without a plugin a plugin takes,
//! measured here and as published.

use super::bars::{Bar, BarGroup, Bars, Scale};
use super::figure;
use super::palette::Palette;
use super::row::{Row, Spread};
use super::tally::range_percent;
use super::verdict::{Sentence, called, is_invalid, repeated};
use crate::report::Warning;
use crate::suite::{api7_plain_case, api7_plugins};

/// Throughput that a combination of plugins takes, as a share of that without plugins.
#[derive(Debug)]
pub(super) struct Cost<'r, 'a> {
    pub(super) row: &'r Row<'a>,
    /// Plugins of the case, such as `key-auth`; `None` for the case without plugins.
    pub(super) plugins: Option<&'a str>,
    /// Lost share of the throughput; negative if the case is faster.
    pub(super) lost: Option<f64>,
}

/// Returns the costs of the measured cases at saturation, or of the published ones.
pub(super) fn costs<'r, 'a>(
    rows: &'r [Row<'a>],
    subject: &str,
    doubts: &[Warning],
) -> Vec<Cost<'r, 'a>> {
    let own = rows.iter().filter(|row| row.subject == subject);
    own.map(|row| {
        let plugins = api7_plugins(row.name);
        let plain = plugins.and_then(|_| api7_plain_case(row.name));
        let plain = plain.and_then(|name| {
            rows.iter().find(|other| other.subject == subject && other.name == name)
        });
        // Invalid figures yield no cost.
        let plain = plain.filter(|plain| !is_invalid(plain, doubts) && !is_invalid(row, doubts));
        let rates = row.throughput().zip(plain.and_then(Row::throughput));
        let lost = rates.map(|(own, plain): (Spread, Spread)| 1.0 - own.median / plain.median);
        Cost { row, plugins, lost }
    })
    .collect()
}

/// Returns the subject whose plugins were measured at saturation.
pub(super) fn subject<'a>(rows: &[Row<'a>]) -> Option<&'a str> {
    let with_plugins =
        rows.iter().find(|row| !row.first().open_loop && api7_plugins(row.name).is_some());
    with_plugins.map(|row| row.subject)
}

/// Returns the subject of the published table.
pub(super) fn published_subject<'a>(published: &[Row<'a>]) -> Option<&'a str> {
    published.first().map(|row| row.subject)
}

/// Returns the costs in the published table; what is odd in it is the reader's to judge.
fn printed_costs<'r, 'a>(published: &'r [Row<'a>]) -> Vec<Cost<'r, 'a>> {
    published_subject(published).map_or_else(Vec::new, |name| costs(published, name, &[]))
}

/// Says what each combination of plugins costs, beside what was published.
pub(super) fn sentence(
    rows: &[Row<'_>],
    published: &[Row<'_>],
    doubts: &[Warning],
) -> Option<Sentence> {
    let subject = subject(rows)?;
    let ours = costs(rows, subject, doubts);
    let theirs = printed_costs(published);
    let mut combinations: Vec<&str> = Vec::new();
    for plugins in ours.iter().filter_map(|cost| cost.plugins) {
        if !combinations.contains(&plugins) {
            combinations.push(plugins);
        }
    }
    let lost = |costs: &[Cost<'_, '_>], plugins: &str| -> String {
        let of = costs.iter().filter(|cost| cost.plugins == Some(plugins));
        range_percent(of.filter_map(|cost| cost.lost))
    };
    let parts = combinations.iter().filter_map(|plugins| {
        let (own, printed) = (lost(&ours, plugins), lost(&theirs, plugins));
        let printed = match printed.is_empty() {
            true => String::new(),
            false => format!(" (published: {printed})"),
        };
        (!own.is_empty()).then(|| format!("{plugins} {own}{printed}"))
    });
    let parts: Vec<String> = parts.collect();
    let runs = ours.iter().map(|cost| cost.row.runs.len()).min().unwrap_or(0);
    (!parts.is_empty()).then(|| Sentence {
        text: format!("Throughput that plugins cost in {}: {}.", called(subject), parts.join(", ")),
        may_be_quoted: repeated(runs),
    })
}

/// Draws the costs of the measured and the published cases beside each other.
pub(super) fn bars(
    rows: &[Row<'_>],
    published: &[Row<'_>],
    palette: &Palette<'_>,
    doubts: &[Warning],
) -> Option<Bars> {
    let subject = subject(rows)?;
    let theirs = printed_costs(published);
    let bar = |cost: &Cost<'_, '_>| {
        let lost = cost.lost?;
        Some(Bar {
            value: lost.max(0.0),
            text: figure::whole_percent(lost),
            ..Bar::new(cost.row, palette, doubts)
        })
    };
    let groups = costs(rows, subject, doubts).into_iter().filter(|cost| cost.plugins.is_some());
    let groups = groups.filter_map(|cost| {
        let printed = theirs.iter().find(|other| other.row.name == cost.row.name);
        let bars: Vec<Bar> = [bar(&cost), printed.and_then(bar)].into_iter().flatten().collect();
        (!bars.is_empty()).then(|| BarGroup { label: cost.row.name.to_owned(), bars })
    });
    Some(Bars {
        title: "Throughput that plugins cost".into(),
        note: "Share of the throughput without plugins. Shorter is better. Outlined: published, on other \
                   hardware."
                .into(),
        groups: groups.collect(),
        scale: Scale::Chart,
    })
}

/// Returns the case measured at a share of its highest rate.
pub(super) fn find_paced<'r, 'a>(
    rows: &'r [Row<'a>],
    subject: &str,
    name: &str,
) -> Option<&'r Row<'a>> {
    rows.iter().find(|row| {
        let is_variant =
            row.subject.strip_prefix(subject).is_some_and(|rest| rest.starts_with(','));
        is_variant && row.name == name && row.first().open_loop
    })
}
